// The list of the inbox. Rows keep their elements while the list changes, and with them the focus.
// Rows are made as they are scrolled to.

import {
  doneHeading,
  groupOf,
  heading,
  iconOf,
  decisionText,
  summary,
  timeLeft,
} from "../approval/approval_text.js";
import { pieces } from "../approval/approval_head.js";
import { h, icon, setText } from "../core/dom.js";
import { shorten, visible } from "../core/text.js";
import { ago, duration } from "../core/times.js";

const CHUNK = 400; // rows that are made at a time; those out of sight cost no layout
const SOON = 10 * 60_000; // an expiry nearer than this is marked

export class Queue {
  constructor({ open, toggle, titles }) {
    Object.assign(this, {
      open,
      toggle,
      titles,
      rows: new Map(),
      items: [],
      most: CHUNK,
      chosen: new Map(),
    });
    this.list = h("ul", { class: "queue-rows", "aria-label": "Approvals" });
    this.end = h("div", { class: "queue-end" });
    this.note = h("div", {});
    this.element = h("div", { class: "queue-scroll" }, this.list, this.note, this.end);
    this.watch = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && this.more(), {
      root: this.element,
      rootMargin: "600px",
    });
    this.watch.observe(this.end);
  }

  close() {
    this.watch.disconnect();
  }

  show(items, { loading, title, text, link, state }) {
    if (state !== this.state) {
      this.most = CHUNK;
      this.element.scrollTop = 0;
    }
    Object.assign(this, { items, link, state });
    const ids = new Set(items.map(({ uuid }) => uuid));
    for (const [uuid, row] of this.rows) if (!ids.has(uuid)) this.drop(uuid, row);
    this.fill();
    const empty = [
      icon(state === "pending" ? "check" : "inbox"),
      h("h2", {}, title),
      h("p", { class: "small" }, text),
    ];
    const note = loading
      ? h("div", { class: "skeleton" }, ...Array.from({ length: 6 }, () => h("i", {})))
      : items.length
        ? ""
        : h("div", { class: "empty" }, empty);
    this.note.replaceChildren(note);
  }

  fail(text, again) {
    const retry = h("button", { class: "btn", type: "button", onclick: again }, "Try again");
    this.note.replaceChildren(h("div", { class: "empty", role: "alert" }, h("p", {}, visible(text)), retry));
  }

  more() {
    if (this.most >= this.items.length) return;
    this.most += CHUNK;
    this.fill();
    this.mark(this.selected, this.chosen);
  }

  /** Puts the rows in the order of the items, and avoids moving the row with the focus. */
  fill() {
    let at = this.list.firstChild;
    for (const item of this.items.slice(0, this.most)) {
      let row = this.rows.get(item.uuid);
      if (row && (row.item !== item || item.together)) row = this.refill(row, item);
      row ??= this.make(item);
      if (row.element === at) at = at.nextSibling;
      else this.list.insertBefore(row.element, at);
    }
    while (at) {
      const next = at.nextSibling;
      this.rows.delete(at.dataset.uuid);
      at.remove();
      at = next;
    }
  }

  make(item) {
    const box = h("input", { type: "checkbox", onclick: () => this.toggle(item.uuid) });
    const title = h("a", { class: "t", onclick: (event) => this.click(event, item.uuid) });
    const what = h("span", { class: "s ellipsis", id: `what-${item.uuid}` });
    box.setAttribute("aria-describedby", what.id);
    const where = h("span", { class: "s ellipsis" });
    const left = h("span", { class: "x" });
    const since = h("span", { class: "a" });
    const texts = h("span", { class: "texts" }, what, where);
    const element = h(
      "li",
      { class: "item", "data-uuid": item.uuid },
      box,
      h("span", { class: "ellipsis" }, title),
      left,
      texts,
      since,
    );
    const row = { element, box, title, what, where, left, since };
    this.rows.set(item.uuid, row);
    return this.refill(row, item);
  }

  refill(row, item) {
    row.item = item;
    row.title.replaceChildren(
      icon(iconOf(item)),
      ...pieces(item.state === "pending" ? heading(item) : doneHeading(item)),
    );
    const { together } = item;
    if (together) row.title.prepend(h("span", { class: "count wait" }, `${together.length} ×`), " ");
    row.title.href = this.link(item.uuid, Boolean(together));
    row.what.textContent = visible(together ? `The first: ${summary(item, 70)}` : summary(item));
    row.box.hidden = groupOf(item) === null || Boolean(together);
    row.box.setAttribute("aria-label", `Select ${visible(item.tool_name)}`);
    this.retitleRow(row);
    this.tickRow(row);
    return row;
  }

  retitle() {
    for (const row of this.rows.values()) this.retitleRow(row);
  }

  retitleRow({ where, item }) {
    const title = this.titles.of(item.conversation_id);
    where.textContent = visible([title && shorten(title, 80), item.node].filter(Boolean).join(" · "));
  }

  tick() {
    for (const row of this.rows.values()) this.tickRow(row);
  }

  tickRow({ item, left, since }) {
    const now = Date.now();
    if (item.state === "pending") {
      const rest = item.expires_at ? Date.parse(item.expires_at) - now : null;
      setText(left, rest === null ? "no expiry" : rest > 0 ? `${timeLeft(rest)} left` : "expires now");
      left.classList.toggle("soon", rest !== null && rest < SOON);
      const waits = Math.max(1, (now - Date.parse(item.created_at)) / 1000);
      setText(since, `waits ${shortDuration(waits)}`);
    } else {
      const at =
        item.decision?.decided_at ?? (item.state === "expired" ? item.expires_at : null) ?? item.created_at;
      setText(left, item.state === "decided" ? decisionText(item) : item.state);
      setText(
        since,
        [item.decision?.decided_by && visible(shorten(item.decision.decided_by, 24)), ago(at)]
          .filter(Boolean)
          .join(", "),
      );
    }
  }

  click(event, uuid) {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return; // a new tab
    event.preventDefault();
    this.open(uuid, Boolean(this.rows.get(uuid)?.item.together));
  }

  drop(uuid, row) {
    const focused = row.element.contains(document.activeElement);
    const next = row.element.nextElementSibling ?? row.element.previousElementSibling;
    this.rows.delete(uuid);
    row.element.remove();
    if (focused) next?.querySelector(".t").focus();
  }

  /** Shows which row is selected, and which are chosen for a decision about several. */
  mark(selected, chosen) {
    Object.assign(this, { selected, chosen });
    const [first] = chosen.values();
    const group = first && groupOf(first);
    for (const [uuid, row] of this.rows) {
      if (uuid === selected || row.item.together?.some((one) => one.uuid === selected))
        row.element.setAttribute("aria-current", "true");
      else row.element.removeAttribute("aria-current");
      row.box.checked = chosen.has(uuid);
      row.box.disabled = Boolean(group) && groupOf(row.item) !== group;
    }
  }

  focus(uuid) {
    const has = (item) => item.uuid === uuid || item.together?.some((one) => one.uuid === uuid);
    const index = this.items.findIndex(has);
    while (index >= this.most) this.more();
    const row = this.rows.get(this.items[index]?.uuid);
    row?.title.focus({ preventScroll: true });
    row?.element.scrollIntoView({ block: "nearest" });
  }
}

function shortDuration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  return duration(seconds).replace(/ 00 m$/, "");
}
