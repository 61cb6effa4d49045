// The inbox: approvals over all conversations, and the selected one, or several together, beside the list.

import { get } from "./api.js";
import { approvalCard } from "./approval_card.js";
import { groupOf } from "./approval_text.js";
import { bulk } from "./bulk.js";
import { Titles } from "./conversation_titles.js";
import { h, icon } from "./dom.js";
import { filterBar, filtered, SORTS } from "./inbox_filters.js";
import { Queue } from "./inbox_list.js";
import { STATES, stateTabs } from "./inbox_tabs.js";
import { plural } from "./text.js";

const PAGE = 200;
const MOST = 5000; // approvals that are read of the past; older and newer ones are found by their address
const EMPTY = {
  pending: ["Nothing waits for you", "Approvals of all conversations come here."],
  decided: ["Nothing was decided yet", "Each decision is kept with who made it, and when."],
  expired: ["Nothing has expired", "An approval expires if no decision is made in time."],
  void: [
    "Nothing was withdrawn",
    "An approval is void when its run ends first, or another question takes its place.",
  ],
};

export function show(main, route, context) {
  const inbox = new Inbox(main, route, context);
  return { close: () => inbox.close(), update: (next) => inbox.update(next), keys: inbox.keys() };
}

class Inbox {
  constructor(main, route, context) {
    Object.assign(this, { context, items: [], chosen: new Map(), closed: false, reading: 0, place: 0 });
    this.titles = new Titles(() => this.queue.retitle());
    this.queue = new Queue({
      open: (uuid) => this.open(uuid),
      toggle: (uuid, all) => this.toggle(uuid, all),
      titles: this.titles,
    });
    this.pane = h("section", { class: "ask-pane", "aria-label": "Selected approval", tabindex: "-1" });
    this.build(main);
    this.changed = () => this.filter.state === "pending" && this.list();
    context.approvals.addEventListener("change", this.changed);
    this.timer = setInterval(() => this.queue.tick(), 1000);
    this.take(route);
    this.load();
  }

  build(main) {
    this.tabs = stateTabs((state) => this.toState(state));
    this.filters = filterBar((filter) => this.change(filter));
    this.bar = h("div", { class: "bulk-bar", hidden: true });
    const list = h(
      "section",
      { class: "queue", "aria-label": "Approvals" },
      this.filters.element,
      this.queue.element,
      this.bar,
    );
    this.body = h("div", { class: "inbox", id: "inbox-body", "data-show": "list" }, list, this.pane);
    const keys = ["J", "K"].map((key) => h("kbd", { class: "kbd" }, key));
    const hint = h(
      "span",
      { class: "inbox-keys small faint not-narrow" },
      keys,
      " move ",
      h("kbd", { class: "kbd" }, "X"),
      " select ",
      h("kbd", { class: "kbd" }, "?"),
      " all keys",
    );
    this.back = h(
      "button",
      {
        class: "btn quiet icon only-narrow",
        type: "button",
        "aria-label": "Back to the list",
        onclick: () => this.toList(),
      },
      icon("back"),
    );
    main.append(
      h(
        "header",
        { class: "top inbox-top" },
        this.back,
        h("h1", {}, "Inbox"),
        this.tabs.element,
        h("span", { class: "grow" }),
        hint,
      ),
      this.body,
    );
  }

  keys() {
    const focus = (which) => () => this.focusButton(which);
    return {
      j: () => this.move(1),
      k: () => this.move(-1),
      x: () => this.selected && this.toggle(this.selected),
      a: focus("approve"),
      e: focus("changes"),
      r: focus("reject"),
      Enter: () => !isControl(document.activeElement) && this.selected && this.open(this.selected),
      Escape: () => (this.chosen.size ? this.clear() : this.toList()),
    };
  }

  update(route) {
    this.take(route);
    return true;
  }

  /** Reads state, filter and selection from the address. */
  take({ path, query }) {
    const uuid = path[0] === "approvals" ? path[1] : null;
    const state = Object.hasOwn(STATES, query.get("state")) ? query.get("state") : "pending";
    const sort = Object.hasOwn(SORTS, query.get("sort"))
      ? query.get("sort")
      : state === "pending"
        ? "oldest"
        : "newest";
    const before = this.filter?.state;
    this.filter = { state, kind: query.get("kind") ?? "", tool: query.get("tool") ?? "", sort };
    this.selected = uuid;
    this.body.dataset.show = uuid ? "one" : "list";
    this.renderTabs();
    if (before !== undefined && before !== state) this.load();
    else if (before !== undefined) this.list();
    this.showCard();
  }

  change(filter) {
    this.filter = { ...this.filter, ...filter };
    this.address();
    this.list();
    // Not announced for every approval that is added or removed.
    this.context.announce(`${plural(this.shown.length, "approval")} shown.`);
  }

  /** The address of the current view, so that a reload shows it again. */
  link(uuid = this.selected, { state, kind, tool, sort } = this.filter) {
    const usual = state === "pending" ? "oldest" : "newest";
    const query = new URLSearchParams(
      Object.entries({
        state: state === "pending" ? "" : state,
        kind,
        tool,
        sort: sort === usual ? "" : sort,
      }).filter(([, text]) => text),
    );
    const place = uuid ? `#/approvals/${encodeURIComponent(uuid)}` : "#/inbox";
    return `${place}${query.size ? `?${query}` : ""}`;
  }

  address(push = false) {
    history[push ? "pushState" : "replaceState"](null, "", this.link());
  }

  renderTabs() {
    this.tabs.show(this.filter.state, this.context.approvals.pending.length);
  }

  toState(state) {
    if (state === this.filter.state) return;
    this.filter = { state, kind: "", tool: "", sort: state === "pending" ? "oldest" : "newest" };
    this.selected = null;
    this.chosen.clear();
    this.renderTabs();
    this.address();
    this.load();
    this.showCard();
  }

  /** Reads the approvals of a state that the store does not keep. */
  async load() {
    const { state } = this.filter;
    const turn = ++this.reading;
    this.items = [];
    this.partial = false;
    this.list(state !== "pending");
    if (state === "pending") return;
    try {
      let cursor;
      do {
        const query = new URLSearchParams({ state, limit: PAGE, ...(cursor && { cursor }) });
        const page = await get(`/approvals?${query}`);
        if (turn !== this.reading || this.closed) return;
        this.items.push(...page.approvals);
        cursor = page.next_cursor;
      } while (cursor && this.items.length < MOST);
      this.partial = Boolean(cursor);
      this.list();
    } catch (error) {
      if (turn === this.reading) this.queue.fail(error.message, () => this.load());
    }
  }

  all() {
    return this.filter.state === "pending" ? this.context.approvals.pending : this.items;
  }

  list(loading = false) {
    if (this.closed) return;
    const { kind, tool, state } = this.filter;
    const all = this.all();
    this.shown = filtered(all, this.filter);
    for (const uuid of this.running ? [] : [...this.chosen.keys()]) {
      if (!all.some((each) => each.uuid === uuid)) this.chosen.delete(uuid);
    }
    const narrowed = Boolean(kind || tool);
    const unread = state === "pending" && this.context.approvals.loaded === false;
    const of = narrowed ? ` of ${all.length.toLocaleString()}` : "";
    const count = `${this.shown.length.toLocaleString()}${of}${this.partial ? ", the oldest" : ""}`;
    this.filters.show(this.filter, all, loading || unread ? "" : count);
    const [title, text] =
      narrowed && all.length ? ["No approval fits", "Choose another kind or tool."] : EMPTY[state];
    this.queue.show(this.shown, {
      loading: loading || unread,
      title,
      text,
      link: (uuid) => this.link(uuid),
      state,
    });
    this.queue.mark(this.selected, this.chosen);
    this.titles.want(this.shown, state);
    this.renderTabs();
    this.renderBar();
    if (!this.selected && this.shown.length && this.isWide() && !this.chosen.size)
      this.select(this.shown[0].uuid);
    else if (!this.selected) this.showCard();
  }

  isWide() {
    return matchMedia("(min-width: 821px)").matches;
  }

  select(uuid, push = false) {
    this.selected = uuid;
    this.address(push);
    this.place = Math.max(
      0,
      this.shown.findIndex((each) => each.uuid === uuid),
    );
    this.queue.mark(uuid, this.chosen);
    this.showCard();
  }

  open(uuid) {
    const wide = this.isWide();
    this.body.dataset.show = "one";
    this.select(uuid, !wide && this.selected !== uuid);
    this.card?.focus();
  }

  toList() {
    this.body.dataset.show = "list";
    this.queue.focus(this.selected);
  }

  move(step) {
    if (!this.shown?.length) return;
    const at = this.shown.findIndex(({ uuid }) => uuid === this.selected);
    const gone = this.place + Math.min(0, step); // the selected one has left: the next took its place
    const next = this.shown[Math.max(0, Math.min(this.shown.length - 1, at < 0 ? gone : at + step))];
    this.select(next.uuid);
    this.queue.focus(next.uuid);
  }

  focusButton(which) {
    if (this.several) this.several.focus(which);
    else this.card?.focus(which);
  }

  /** Adds an approval to the bulk decision or removes it; `all`: every approval of its group in the list. */
  toggle(uuid, all = false) {
    const one = this.all().find((each) => each.uuid === uuid);
    const group = one && groupOf(one);
    if (!group) return this.context.announce("This one is decided by itself.");
    const [first] = this.chosen.values();
    if (first && groupOf(first) !== group) {
      return this.context.announce(
        "Only approvals of the same tool can be decided together. Clear the selection first.",
      );
    }
    if (all) for (const each of this.shown) if (groupOf(each) === group) this.chosen.set(each.uuid, each);
    if (!all && this.chosen.has(uuid)) this.chosen.delete(uuid);
    else this.chosen.set(uuid, one);
    this.chosenChanged();
  }

  clear() {
    this.running = false;
    this.chosen.clear();
    const there = this.shown.some(({ uuid }) => uuid === this.selected);
    if (!there) this.selected = this.shown[0]?.uuid ?? null;
    this.address();
    this.body.dataset.show = "list";
    this.chosenChanged();
    this.queue.focus(this.selected);
    if (!this.selected) this.pane.focus();
  }

  chosenChanged() {
    this.queue.mark(this.selected, this.chosen);
    this.renderBar();
    this.showCard();
  }

  renderBar() {
    const size = this.chosen.size;
    this.bar.hidden = !size || this.running === true;
    if (this.bar.hidden) return;
    const [first] = this.chosen.values();
    const alike = this.shown.filter((each) => groupOf(each) === groupOf(first)).length;
    const more =
      alike > size
        ? h(
            "button",
            { class: "btn quiet", type: "button", onclick: () => this.toggle(first.uuid, true) },
            `Select all ${alike.toLocaleString()} of this tool`,
          )
        : null;
    const clear = h("button", { class: "btn quiet", type: "button", onclick: () => this.clear() }, "Clear");
    const label = size === 1 ? "selected: choose more of the same tool" : "selected";
    this.bar.replaceChildren(
      ...[
        h("span", { role: "status" }, h("b", {}, size.toLocaleString()), ` ${label}`),
        h("span", { class: "grow" }),
        more,
        clear,
      ].filter(Boolean),
    );
  }

  showCard() {
    if (this.running) return;
    if (this.chosen.size > 1) {
      const key = [...this.chosen.keys()].join();
      if (this.severalKey === key) return;
      this.dropPane();
      this.severalKey = key;
      this.several = bulk([...this.chosen.values()], this.context, {
        titles: this.titles,
        began: () => {
          this.running = true;
          this.bar.hidden = true;
        },
        leave: () => this.clear(),
      });
      this.body.dataset.show = this.isWide() ? this.body.dataset.show : "one";
      return this.pane.replaceChildren(this.several.element);
    }
    if (this.card?.uuid === this.selected && this.card) return;
    this.dropPane();
    if (!this.selected) {
      const text = this.shown?.length ? h("p", { class: "faint" }, "Choose an approval.") : "";
      return this.pane.replaceChildren(text);
    }
    this.card = Object.assign(approvalCard(this.selected, this.context), { uuid: this.selected });
    this.pane.replaceChildren(this.card.element);
    this.pane.scrollTop = 0;
  }

  dropPane() {
    this.card?.close();
    this.several?.close();
    this.card = this.several = this.severalKey = null;
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    this.context.approvals.removeEventListener("change", this.changed);
    this.dropPane();
    this.queue.close();
  }
}

/** Whether Enter has another meaning in this element. */
const isControl = (element) => element.matches("a, button, summary, input, select, textarea");
