// The stream over all conversations. It does not replay, so views read their lists again on "again".

import { Link } from "./feed.js";

const TYPES = "conversation.*,message.added,run.*,approval.*";

/** Dispatches "frames" with events in `detail`; "halt" with a frame in `detail` when the agent is halted or
 * a halt ends; "again" when events were missed or the stream is new; "ended" when a connection ends or fails;
 * and "state" when `state` changes. It is "connecting", "live" or "lost", since the time `since`. */
export class Live extends EventTarget {
  state = "connecting";
  since = Date.now();

  connect() {
    this.#connect();
    window.addEventListener("online", () => this.retry());
  }

  close() {
    clearTimeout(this.timer);
    this.link?.close();
  }

  /** Connects now, without waiting for the next attempt. */
  retry() {
    if (this.state === "live") return;
    this.close();
    this.#connect();
  }

  #connect() {
    this.link = new Link(
      () => `/events/ws?type=${TYPES}`,
      (frames) => this.#take(frames),
      (state) => this.#become(state),
    );
  }

  #take(frames) {
    const events = frames.filter(({ type }) => type !== "gap" && type !== "halt");
    if (events.length) this.dispatchEvent(new CustomEvent("frames", { detail: events }));
    for (const frame of frames)
      if (frame.type === "halt") this.dispatchEvent(new CustomEvent("halt", { detail: frame }));
    if (frames.some(({ type }) => type === "gap")) this.dispatchEvent(new Event("again"));
  }

  #become(state) {
    if (state === "deleted") {
      // This stream never ends by itself, so a proxy has closed it.
      this.link.close();
      this.timer = setTimeout(() => this.#connect(), 1000);
      state = "lost";
    }
    if (state === "lost") this.dispatchEvent(new Event("ended"));
    if (state !== this.state) {
      this.state = state;
      this.since = Date.now();
      this.dispatchEvent(new Event("state"));
    }
    if (state === "live") this.dispatchEvent(new Event("again"));
  }
}
