// The one stream of all conversations. It does not replay: whoever shows a list reads it again upon "again".

import { Link } from "./feed.js";

const TYPES = "conversation.*,message.added,run.*,approval.*";

/** "frames" has events in `detail`; "again" says that some were missed, or that the stream is new; "state"
 * comes when it changes: it is
 * "connecting", "live" or "lost", and `since` is the time at which it became so. */
export class Live extends EventTarget {
  state = "connecting";
  since = Date.now();

  constructor() {
    super();
    this.#connect();
    window.addEventListener("online", () => this.retry());
  }

  /** Connects now, whatever the next attempt would be. */
  retry() {
    if (this.state === "live") return;
    clearTimeout(this.timer);
    this.link.close();
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
    const events = frames.filter((frame) => frame.type !== "gap");
    if (events.length) this.dispatchEvent(new CustomEvent("frames", { detail: events }));
    if (events.length < frames.length) this.dispatchEvent(new Event("again"));
  }

  #become(state) {
    if (state === "deleted") {
      // a stream of everything ends only because somebody between ended it
      this.link.close();
      this.timer = setTimeout(() => this.#connect(), 1000);
      state = "lost";
    }
    if (state !== this.state) {
      this.state = state;
      this.since = Date.now();
      this.dispatchEvent(new Event("state"));
    }
    if (state === "live") this.dispatchEvent(new Event("again"));
  }
}
