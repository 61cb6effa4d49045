// Live events over websockets that reconnect by themselves.

import { get, needsTicket, relative, ticketed } from "./api.js";
import { parse } from "./exact_json.js";

const SILENCE = 40_000; // milliseconds without a frame or heartbeat, after which a connection counts as lost
const PASSING = new Set([429, 502, 503, 504]); // refusals after which it is tried again
const PROOF = 3_000; // milliseconds in which a new connection shows the last event again
const LONGEST = 8_000; // milliseconds between two attempts to connect

/** The events of one conversation: all stored ones, then new ones.
 *
 * `events` has the stored frames in order, each once. Listeners get `{events, deltas}` with the new frames
 * of each kind. `state` is "connecting", "live" or "lost", or finally "deleted", "missing" (it never
 * existed), "broken" (`problem` is the reason) or "older" (an older backup without the shown events was
 * restored). */
export class Feed extends EventTarget {
  constructor(id) {
    super();
    this.id = id;
    this.events = [];
    this.state = "connecting";
    this.problem = null;
    this.looking = false;
    this.unproven = false;
    this.link = new Link(
      // The last event is requested again: if it differs or is missing, an older backup was restored.
      () => `/conversations/${encodeURIComponent(id)}/ws?deltas=true&after=${Math.max(0, this.#last - 1)}`,
      (frames) => this.#take(frames),
      (state) => this.#become(state),
    );
  }

  close() {
    this.link.close();
  }

  #take(frames) {
    const events = [], deltas = [];
    for (const frame of frames) {
      if (frame.seq === undefined) deltas.push(frame);
      else if (frame.type === "conversation.deleted") this.#become("deleted");
      else if (frame.seq > this.#last) {
        this.events.push(frame);
        events.push(frame);
      } else if (frame.seq === this.#last) {
        const { type, at } = this.events.at(-1);
        if (frame.type !== type || frame.at !== at) return this.#become("older");
        this.unproven = false;
      }
    }
    this.dispatchEvent(new CustomEvent("frames", { detail: { events, deltas } }));
  }

  #become(state) {
    if (this.#ended) return;
    this.state = state;
    if (this.#ended) this.close();
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
    if (state === "lost") this.#look();
    if (state === "live" && this.#last) {
      this.unproven = true;
      setTimeout(() => this.unproven && this.#look(), PROOF);
    }
  }

  get #last() {
    return this.events.at(-1)?.seq ?? 0;
  }

  get #ended() {
    return !["connecting", "live", "lost"].includes(this.state);
  }

  /** A page cannot see why a websocket was refused, so it requests the conversation to decide whether to
   * reconnect. */
  async #look() {
    if (this.looking || this.#ended) return;
    this.looking = true;
    const last = this.#last;
    try {
      const { conversation } = await get(`/conversations/${encodeURIComponent(this.id)}`);
      if (conversation.last_seq < last) this.#become("older");
    } catch (error) {
      if (error.status === 404) this.#become(last ? "deleted" : "missing");
      else if (error.status && !last && !PASSING.has(error.status)) {
        this.problem = error;
        this.#become("broken");
      }
    } finally {
      this.looking = false;
    }
  }
}

/** One websocket, reopened whenever it ends. Frames that arrive together are dispatched together. */
export class Link {
  constructor(path, take, become) {
    Object.assign(this, { path, take, become, closed: false, attempt: 0, waiting: [] });
    this.#open();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket?.close();
  }

  async #open() {
    let path = this.path();
    if (needsTicket()) {
      try {
        path = await ticketed(path);
      } catch {
        return this.#ended();
      }
      if (this.closed) return;
    }
    const socket = (this.socket = new WebSocket(relative(path)));
    const heard = () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => socket.close(), SILENCE);
    };
    heard();
    socket.onopen = () => {
      this.attempt = 0;
      this.become("live");
    };
    socket.onmessage = ({ data }) => {
      heard();
      if (!this.waiting.length) setTimeout(() => this.#hand(), 0);
      this.waiting.push(parse(data));
    };
    socket.onclose = ({ code }) => this.#ended(code);
  }

  #ended(code) {
    clearTimeout(this.timer);
    if (this.closed) return;
    this.become(code === 1000 ? "deleted" : "lost");
    if (code === 1000) return;
    const wait = Math.min(LONGEST, 300 * 2 ** this.attempt++) * (0.5 + Math.random() / 2);
    this.timer = setTimeout(() => this.#open(), wait);
  }

  #hand() {
    const frames = this.waiting.filter((frame) => frame.type !== "heartbeat");
    this.waiting = [];
    if (frames.length && !this.closed) this.take(frames);
  }
}
