// The inbox: approvals over all conversations, and the selected one, or several together, beside the list.

import { get } from "../core/api.js";
import { approvalCard } from "../approval/approval_card.js";
import { groupOf } from "../approval/approval_text.js";
import { bulk, placeOf } from "../approval/bulk.js";
import { Titles } from "./conversation_titles.js";
import { divider } from "../core/divider.js";
import { h, icon } from "../core/dom.js";
import { filterBar, filtered, gathered, gatherKey, SORTS } from "./inbox_filters.js";
import { Queue } from "./inbox_list.js";
import { STATES, stateTabs } from "./inbox_tabs.js";
import { plural } from "../core/text.js";

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
      open: (uuid, together) => this.open(uuid, together),
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
      { class: "queue", id: "inbox-list", "aria-label": "Approvals" },
      this.filters.element,
      this.queue.element,
      this.bar,
    );
    this.body = h("div", { class: "inbox", id: "inbox-body", "data-show": "list" }, list, this.pane);
    this.between = divider(this.body, {
      name: "inbox",
      label: "Width of the list",
      controls: list.id,
      least: [300, 400],
    });
    list.after(this.between.element);
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
      Enter: () =>
        !isControl(document.activeElement) && this.selected && this.open(this.selected, this.together),
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
    if (uuid) this.chosen.clear(); // a link leads to this one alone
    if (this.several && !this.several.sending) this.dropPane();
    this.filter = { state, kind: query.get("kind") ?? "", tool: query.get("tool") ?? "", sort };
    this.selected = uuid;
    this.together = query.has("together");
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
  link(uuid = this.selected, together = this.together, { state, kind, tool, sort } = this.filter) {
    const usual = state === "pending" ? "oldest" : "newest";
    const query = new URLSearchParams(
      Object.entries({
        state: state === "pending" ? "" : state,
        kind,
        tool,
        sort: sort === usual ? "" : sort,
        together: together ? "1" : "",
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
    this.together = false;
    if (!this.several?.sending) this.dropPane();
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
    this.entries = gathered(this.shown);
    if (!this.several) this.forgetSettled();
    const narrowed = Boolean(kind || tool);
    const unread = state === "pending" && this.context.approvals.loaded === false;
    const of = narrowed ? ` of ${all.length.toLocaleString()}` : "";
    const count = `${this.shown.length.toLocaleString()}${of}${this.partial ? ", the oldest" : ""}`;
    this.filters.show(this.filter, all, loading || unread ? "" : count);
    const [title, text] =
      narrowed && all.length ? ["No approval fits", "Choose another kind or tool."] : EMPTY[state];
    this.queue.show(this.entries, {
      loading: loading || unread,
      title,
      text,
      link: (uuid, together) => this.link(uuid, together),
      state,
    });
    this.queue.mark(this.selected, this.chosen);
    this.titles.want(this.shown, state);
    this.renderTabs();
    this.renderBar();
    if (this.several && state === "pending") this.several.update(this.members());
    else if (this.together && this.selected && !this.card) this.showCard();
    else if (!this.selected && this.shown.length && this.isWide() && !this.chosen.size)
      this.select(this.entries[0]);
    else if (!this.selected) this.showCard();
  }

  /** The pending approvals of the card that shows several. */
  members() {
    const all = this.all();
    if (this.chosen.size) return all.filter(({ uuid }) => this.chosen.has(uuid));
    return all.filter((each) => gatherKey(each) === this.severalKey);
  }

  isWide() {
    return matchMedia("(min-width: 821px)").matches;
  }

  /** `entry`: an approval, or `{uuid, together}` of many. */
  select({ uuid, together = null }, push = false) {
    this.selected = uuid;
    this.together = Boolean(together);
    this.address(push);
    this.place = Math.max(0, this.indexOf(uuid));
    this.queue.mark(uuid, this.chosen);
    this.showCard();
  }

  /** The place in the list of the entry that an approval belongs to. */
  indexOf(uuid) {
    const has = (each) => each.uuid === uuid || each.together?.some((one) => one.uuid === uuid);
    return this.entries.findIndex(has);
  }

  open(uuid, together = false) {
    const wide = this.isWide();
    if (this.several?.began) this.chosen.clear(); // what was decided together is done
    this.body.dataset.show = "one";
    this.select({ uuid, together }, !wide && this.selected !== uuid);
    (this.several ?? this.card)?.focus();
  }

  toList() {
    this.body.dataset.show = "list";
    this.queue.focus(this.selected);
  }

  move(step) {
    if (!this.entries?.length) return;
    const at = this.indexOf(this.selected);
    const gone = this.place + Math.min(0, step); // the selected one has left: the next took its place
    const next = this.entries[Math.max(0, Math.min(this.entries.length - 1, at < 0 ? gone : at + step))];
    this.select(next);
    this.queue.focus(next.uuid);
  }

  focusButton(which) {
    if (this.several) this.several.focus(which);
    else this.card?.focus(which);
  }

  forgetSettled() {
    const here = new Set(this.all().map(({ uuid }) => uuid));
    for (const uuid of [...this.chosen.keys()]) if (!here.has(uuid)) this.chosen.delete(uuid);
  }

  /** Adds an approval to the bulk decision or removes it; `all`: every approval of its group in the list. */
  toggle(uuid, all = false) {
    this.forgetSettled();
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
    this.dropPane();
    this.chosen.clear();
    if (this.indexOf(this.selected) < 0) this.selected = this.entries[0]?.uuid ?? null;
    this.together = Boolean(this.entries[this.indexOf(this.selected)]?.together);
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
    this.bar.hidden = !size || this.several?.began === true;
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
    if (this.several?.sending) return;
    if (this.chosen.size > 1) return this.showSeveral([...this.chosen.keys()].join(), this.members());
    if (this.together && !this.context.approvals.loaded) return; // `list` comes back
    const first = this.together && this.all().find(({ uuid }) => uuid === this.selected);
    if (first) {
      const key = gatherKey(first);
      return this.showSeveral(
        key,
        this.all().filter((each) => gatherKey(each) === key),
      );
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

  showSeveral(key, members) {
    if (this.severalKey === key) return;
    this.dropPane();
    this.severalKey = key;
    this.several = bulk(members, {
      announce: this.context.announce,
      where: placeOf(members, this.titles),
      changed: () => this.renderBar(),
      leave: () => this.clear(),
    });
    this.body.dataset.show = this.isWide() ? this.body.dataset.show : "one";
    this.pane.replaceChildren(this.several.element);
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
    this.between.close();
  }
}

/** Whether Enter has another meaning in this element. */
const isControl = (element) => element.matches("a, button, summary, input, select, textarea");
