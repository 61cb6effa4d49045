// Titles of the conversations that approvals belong to, read with few requests.

import { get } from "../core/api.js";

const PAGE = 200;

export class Titles {
  constructor(changed) {
    Object.assign(this, { known: new Map(), changed, reading: false });
  }

  of(id) {
    return this.known.get(id) ?? "";
  }

  async want(items, state) {
    const missing = () => items.some(({ conversation_id }) => !this.known.has(conversation_id));
    if (this.reading || !missing()) return;
    this.reading = true;
    try {
      let cursor,
        pages = 0;
      do {
        const query = new URLSearchParams({
          limit: PAGE,
          ...(state === "pending" && { status: "waiting_approval" }),
          ...(cursor && { cursor }),
        });
        const page = await get(`/conversations?${query}`);
        for (const { id, title } of page.conversations) this.known.set(id, title);
        cursor = page.next_cursor;
        pages += 1;
      } while (cursor && missing() && pages < 10);
      for (const { conversation_id } of items)
        if (!this.known.has(conversation_id)) this.known.set(conversation_id, "");
      this.changed();
    } catch {
      // the list is shown without titles
    } finally {
      this.reading = false;
    }
  }
}
