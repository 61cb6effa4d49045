// The pending approvals of all conversations, kept up to date by the stream over all conversations.

import { get } from "../core/api.js";

const SETTLES = new Set(["approval.resolved", "approval.void", "approval.expired"]);
const ONE_BY_ONE = 5; // more new ones than this at once are read as a list

/** `pending`: oldest first. Dispatches "change", and "requested" with a new approval in `detail`. */
export class ApprovalsStore extends EventTarget {
  pending = [];
  loaded = false;
  #settled = new Set(); // settled during a request, whose answer may still list them as pending
  #requests = 0;
  #loading = null;
  #stale = false;

  constructor(live) {
    super();
    live.addEventListener("again", () => this.load());
    live.addEventListener("frames", ({ detail }) => this.#take(detail));
  }

  /** Calls `fn` when the approval stops or starts being pending. Returns a function that unsubscribes. */
  on(uuid, fn) {
    this.addEventListener(`settled ${uuid}`, fn);
    return () => this.removeEventListener(`settled ${uuid}`, fn);
  }

  /** The number of pending approvals of one conversation. */
  count(conversation) {
    return this.pending.filter((one) => one.conversation_id === conversation).length;
  }

  /** Reads all pages again. A call during a reading starts one more reading after it. */
  async load() {
    this.#stale = true;
    this.#loading ??= this.#loadAll().finally(() => (this.#loading = null));
    await this.#loading;
  }

  async #loadAll() {
    while (this.#stale) {
      this.#stale = false;
      await this.#request(() => this.#loadOnce());
    }
  }

  async #loadOnce() {
    const known = new Map(this.pending.map((one) => [one.uuid, one]));
    const pages = new Map();
    let cursor;
    do {
      const query = new URLSearchParams({ state: "pending", limit: "200", ...(cursor && { cursor }) });
      const page = await get(`/approvals?${query}`);
      for (const one of page.approvals) pages.set(one.uuid, one);
      cursor = page.next_cursor;
    } while (cursor);
    // A page may have been read before an approval came that `#add` has read since.
    for (const one of this.pending) if (!known.has(one.uuid)) pages.set(one.uuid, one);
    for (const uuid of this.#settled) pages.delete(uuid);
    const fresh = this.loaded ? [...pages.values()].filter(({ uuid }) => !known.has(uuid)) : [];
    const gone = [...known.keys()].filter((uuid) => !pages.has(uuid));
    this.pending = [...pages.values()];
    this.loaded = true;
    this.#changed(fresh);
    // Their events were missed without a connection, or do not exist because an older backup was restored.
    for (const uuid of [...gone, ...fresh.map(({ uuid }) => uuid)]) this.#tell(uuid);
  }

  async #take(events) {
    const requested = [];
    const voted = [];
    const before = this.pending.length;
    for (const event of events) {
      if (event.type === "approval.requested") requested.push(event.body.id ?? event.body.uuid);
      else if (SETTLES.has(event.type)) this.#settle(event.body.id);
      else if (event.type === "approval.voted") voted.push(event.body.id);
      else if (event.type === "conversation.deleted") {
        const its = this.pending.filter((one) => one.conversation_id === event.conversation_id);
        for (const { uuid } of its) this.#settle(uuid);
      }
    }
    if (this.pending.length !== before) this.#changed([]);
    if (requested.length > ONE_BY_ONE) await this.load();
    else await Promise.all(requested.map((uuid) => this.#add(uuid)));
    for (const uuid of voted) await this.#reread(uuid);
  }

  #settle(uuid) {
    if (this.#requests) this.#settled.add(uuid);
    this.pending = this.pending.filter((one) => one.uuid !== uuid);
    this.#tell(uuid);
  }

  #tell(uuid) {
    this.dispatchEvent(new Event(`settled ${uuid}`));
  }

  async #add(uuid) {
    await this.#request(async () => {
      const { approval } = await get(`/approvals/${encodeURIComponent(uuid)}`);
      const known = this.pending.some((one) => one.uuid === uuid);
      if (approval.state !== "pending" || known || this.#settled.has(uuid)) return;
      this.pending = [...this.pending, approval].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
      this.#changed([approval]);
    });
  }

  /** After a vote: the arguments may have changed. */
  async #reread(uuid) {
    this.#tell(uuid);
    await this.#request(async () => {
      const { approval } = await get(`/approvals/${encodeURIComponent(uuid)}`);
      this.pending = this.pending.map((one) => (one.uuid === uuid ? approval : one));
      this.#changed([]);
    });
  }

  async #request(work) {
    this.#requests += 1;
    try {
      await work();
    } catch {
      // If the agent cannot be reached, the stream has ended, too, and "again" repeats this reading.
    } finally {
      this.#requests -= 1;
      if (!this.#requests) this.#settled.clear();
    }
  }

  #changed(fresh) {
    this.dispatchEvent(new Event("change"));
    for (const approval of fresh) this.dispatchEvent(new CustomEvent("requested", { detail: approval }));
  }
}
