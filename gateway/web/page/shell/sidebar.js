// The navigation, and the list of conversations with their states, a search, a filter and paging.

import { get } from "../core/api.js";
import { held, ordered, ORDERS } from "./conversation_order.js";
import { RUN_STATES, stateOf } from "../core/conversation_state.js";
import { h, icon, setText, svg } from "../core/dom.js";
import { canNotify, notifying, setNotifying } from "./notices.js";
import { signedInAs } from "./sign_out.js";
import { browser } from "../core/storage.js";
import { plural, visible } from "../core/text.js";
import { ago } from "../core/times.js";

const PAGE = 30;
const MOST = 200; // what one request may ask for; so many of the newest are put in order by activity
const ORDER = "stopgo.order";
const AGAIN = 1000; // milliseconds at least between two readings of the list that events cause
const PLACES = [
  ["#/conversations", "Conversations", "chat"],
  ["#/inbox", "Inbox", "inbox"],
  ["#/agent", "Agent", "agent"],
];
const FILTERS = [
  ["", "All"],
  ["active", "Active"],
  ["waiting_approval", "Waits for you"],
  ["completed", "Completed"],
];
const OF = { "": 0, conversations: 0, inbox: 1, approvals: 1, agent: 2 };

/** The three views as links; `show` marks the current one. */
export function places(element, { approvals }) {
  const counter = h("span", { class: "count wait", hidden: true });
  const links = PLACES.map(([href, name, sign]) =>
    h("a", { href }, icon(sign), h("span", {}, name), sign === "inbox" && counter),
  );
  element.append(...links);
  approvals.addEventListener("change", () => {
    const waiting = approvals.pending.length;
    counter.hidden = !waiting;
    counter.textContent = waiting > 999 ? "999+" : waiting;
    counter.title = `${plural(waiting, "approval")} ${waiting === 1 ? "waits" : "wait"}`;
  });
  return {
    show(route) {
      const current = OF[route.path[0] ?? ""];
      links.forEach((link, index) =>
        index === current ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"),
      );
    },
  };
}

export function sidebar(element, context) {
  const { approvals, live } = context;
  const name = h("span", { class: "name ellipsis" });
  const nav = h("nav", { class: "places", "aria-label": "Places" });
  const where = places(nav, context);
  const search = h("input", {
    type: "search",
    placeholder: "Search titles",
    "aria-label": "Search conversations",
  });
  const filter = h(
    "select",
    { "aria-label": "Show conversations" },
    FILTERS.map(([value, word]) => h("option", { value }, word)),
  );
  const kept = browser.get(ORDER);
  const order = h(
    "select",
    { "aria-label": "Order of conversations" },
    Object.entries(ORDERS).map(([value, word]) => h("option", { value, selected: value === kept }, word)),
  );
  const list = h("nav", { class: "conversations", "aria-label": "Conversations" });
  const state = h("span", { class: "nowrap" }),
    dot = h("span", { class: "dot" });
  const further = h("button", { class: "btn quiet more", type: "button", onclick: loadMore }, "Load more");
  const note = h("p", { class: "side-note", hidden: true });
  const who = h("div", { class: "side-foot", hidden: true });
  const items = new Map(); // by id, in the order of the agent
  const rows = new Map();
  let cursor = null,
    current = null,
    reading = null,
    again = null,
    failed = false,
    noted = "";

  list.append(note);
  element.append(
    h(
      "div",
      { class: "side-head" },
      svg(
        "svg",
        { class: "mark", viewBox: "0 0 24 24", "aria-hidden": "true" },
        svg("rect", { class: "back", width: 24, height: 24, rx: 6 }),
        svg("path", { class: "stop", d: "M6 7h2.6v10H6zm4.2 0h2.6v10h-2.6z" }),
        svg("path", { class: "go", d: "m14.6 7 5.4 5-5.4 5z" }),
      ),
      name,
    ),
    nav,
    h(
      "div",
      { class: "side-list-head" },
      h("h2", { class: "grow" }, "Conversations"),
      filter,
      h(
        "a",
        {
          class: "btn quiet icon",
          href: "#/",
          "aria-label": "New conversation",
          title: "New conversation (N)",
        },
        icon("plus"),
      ),
    ),
    h("div", { class: "side-search" }, search, order),
    list,
    who,
    h(
      "div",
      { class: "side-foot" },
      dot,
      state,
      h("span", { class: "grow" }),
      h("span", { class: "ellipsis" }, location.host),
      h("a", { href: "docs", title: "The HTTP API, and forms to try it" }, "API"),
      bell(context),
    ),
  );

  let typing;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => load(), 200);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && search.value) {
      search.value = "";
      load();
    } else if (event.key === "ArrowDown" || event.key === "Enter") move(1);
    else return;
    event.preventDefault();
  });
  filter.addEventListener("change", () => load());
  order.addEventListener("change", () => {
    browser.set(ORDER, order.value);
    load();
  });
  list.addEventListener("pointerleave", () => draw());
  // Afterwards, because `draw` itself takes away the element that has the focus.
  list.addEventListener("focusout", () => queueMicrotask(draw));

  /** Reads the first page, or the next one; `anew`: all shown pages, because events were missed. */
  async function load(more = false, anew = false) {
    reading?.abort();
    const mine = (reading = new AbortController());
    const size = order.value === "created" ? PAGE : MOST;
    const query = new URLSearchParams({ limit: String(size) });
    if (search.value.trim()) query.set("q", search.value.trim());
    if (filter.value) query.set("status", filter.value);
    if (more) query.set("cursor", cursor);
    try {
      const whole = new URLSearchParams(query);
      if (anew) whole.set("limit", Math.min(MOST, Math.max(size, items.size)));
      const page = await get(`/conversations?${whole}`, mine.signal);
      const waiting = more ? [] : await waitingOnes(page, query, mine.signal);
      const same = list.dataset.query === `${query}`;
      const old = more || (same && page.next_cursor && !anew) ? [...items.values()] : [];
      const kept = more || old.length > page.conversations.length ? cursor : null;
      items.clear();
      const fresh = more ? [...old, ...page.conversations] : [...page.conversations, ...old, ...waiting];
      for (const one of fresh) {
        if (!items.has(one.id)) items.set(one.id, one); // pages that were loaded before stay
      }
      cursor = more ? (page.next_cursor ?? null) : (kept ?? page.next_cursor ?? null);
      if (!more) list.dataset.query = `${query}`;
      failed = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      failed = true;
    }
    // A page of a search may be empty without being the last.
    if (!items.size && cursor && !failed) return load(true);
    draw();
  }

  /** Those that wait, however old: with "Waiting first" they are at the top. */
  async function waitingOnes(page, query, signal) {
    if (order.value !== "waiting" || filter.value || !page.next_cursor) return [];
    const wanted = new URLSearchParams(query);
    wanted.set("status", "waiting_approval");
    return (await get(`/conversations?${wanted}`, signal)).conversations;
  }

  function loadSoon() {
    again ??= setTimeout(() => {
      again = null;
      load();
    }, AGAIN);
  }

  live.addEventListener("again", () => load(false, true));
  live.addEventListener("frames", ({ detail }) => {
    for (const event of detail) {
      const item = items.get(event.conversation_id);
      if (event.type === "conversation.deleted") items.delete(event.conversation_id);
      else if (!item || (event.type === "message.added" && !item.title)) loadSoon();
      else {
        if (event.status && event.status !== item.status && filter.value) loadSoon();
        Object.assign(item, { status: event.status ?? item.status, updated_at: event.at });
        const run = RUN_STATES[event.type];
        if (run) item.run = { ...item.run, state: run, code: event.body.code };
      }
    }
    draw();
  });
  approvals.addEventListener("change", () => draw());
  live.addEventListener("state", foot);
  setInterval(draw, 60_000); // "14 m"

  function foot() {
    state.textContent = { live: "Live", connecting: "Connecting", lost: "Reconnecting" }[live.state];
    dot.className = `dot ${live.state === "live" ? "good" : "ring"}`;
  }

  function draw() {
    for (const [id, row] of rows) if (!items.has(id)) rows.delete(id) && row.element.remove();
    let before = null;
    const wanted = ordered([...items.values()], order.value, (id) => approvals.count(id));
    const still = list.matches(":hover") || list.contains(document.activeElement);
    for (const item of still ? held(wanted, [...rows.keys()]) : wanted) {
      if (!rows.has(item.id)) rows.set(item.id, conversationRow(item.id));
      const row = rows.get(item.id);
      row.draw(item, approvals.count(item.id), item.id === current);
      const place = before ? before.nextSibling : list.firstChild;
      if (place !== row.element) list.insertBefore(row.element, place); // moving would take the focus away
      before = row.element;
      rows.delete(item.id);
      rows.set(item.id, row); // the rows are in the order that is shown
    }
    note.hidden = Boolean(cursor || items.size);
    const look = JSON.stringify([note.hidden, failed, list.dataset.query, search.value, filter.value]);
    if (look !== noted) note.replaceChildren(...[note.hidden ? "" : empty()].flat());
    noted = look; // a note that is remade would lose the focus in it
    if (!cursor) further.remove();
    else if (!further.isConnected) list.append(further); // it stays where it is, and may have the focus
  }

  /** Loads the next conversations, and focuses the first of them after a press of the button. */
  async function loadMore() {
    const before = new Set(rows.keys());
    await load(true);
    const first = [...rows].find(([id]) => !before.has(id));
    if (first && [further, document.body].includes(document.activeElement)) first[1].element.focus();
  }

  function empty() {
    if (failed)
      return [
        "The list cannot be read now. ",
        h("button", { class: "btn quiet", type: "button", onclick: () => load() }, "Try again"),
      ];
    if (list.dataset.query === undefined) return "";
    if (!search.value.trim() && !filter.value) return "No conversations yet";
    const all = () => {
      search.value = filter.value = "";
      load();
    };
    const what = search.value.trim()
      ? `No title contains “${search.value.trim()}”. `
      : "No conversation is in this state. ";
    return [what, h("button", { class: "btn quiet", type: "button", onclick: all }, "Show all")];
  }

  function move(step) {
    const links = [...list.querySelectorAll("a")];
    if (!links.length || !list.offsetParent) return false;
    const at = links.indexOf(document.activeElement);
    const start =
      at >= 0
        ? at + step
        : Math.max(
            0,
            links.findIndex((link) => link.ariaCurrent) + (links.some((link) => link.ariaCurrent) ? step : 0),
          );
    links[Math.min(links.length - 1, Math.max(0, start))].focus();
  }

  foot();
  return {
    show(route) {
      where.show(route);
      current = route.path[0] === "conversations" ? (route.path[1] ?? null) : null;
      draw();
    },
    /** `session`: the answer of `GET /session`. */
    update(session) {
      name.textContent = visible(context.agent.name);
      name.title = visible(context.agent.description ?? "");
      who.hidden = !session.subject;
      if (session.subject) who.replaceChildren(...signedInAs(session));
    },
    search() {
      if (!search.offsetParent) context.navigate("#/conversations");
      search.focus();
      search.select();
    },
    /** Focuses the conversation in the list; on a phone, shows the list. */
    back() {
      const row = rows.get(current)?.element;
      if (!element.offsetParent) context.navigate("#/conversations");
      else if (row) row.focus();
      else return false;
    },
    move,
  };
}

function conversationRow(id) {
  const dot = h("span", { class: "dot" }),
    title = h("span", { class: "ellipsis" });
  const when = h("time"),
    word = h("span", { class: "word ellipsis" });
  const element = h("a", { href: `#/conversations/${encodeURIComponent(id)}` }, dot, title, when, word);
  return {
    element,
    draw(item, waiting, current) {
      const state = stateOf(item, waiting);
      dot.className = `dot ${state.dot}`;
      setText(title, item.title || "Untitled");
      title.classList.toggle("untitled", !item.title);
      setText(when, ago(item.updated_at));
      when.dateTime = item.updated_at;
      setText(word, state.word);
      word.hidden = !state.word;
      word.className = `word ellipsis ${state.tone}`;
      if (current) element.setAttribute("aria-current", "page");
      else element.removeAttribute("aria-current");
    },
  };
}

function bell({ announce }) {
  if (!canNotify()) return null;
  const button = h("button", { class: "btn quiet icon", type: "button" }, icon("bell"));
  const draw = () => {
    const on = notifying();
    button.setAttribute("aria-pressed", String(on));
    button.title = on ? "Notifications of new approvals are on" : "Notify me of new approvals";
    button.setAttribute("aria-label", "Notify me of new approvals");
  };
  button.addEventListener("click", async () => {
    const on = await setNotifying(!notifying());
    announce(on ? "You get a notification when an approval waits." : "No notifications.");
    draw();
  });
  draw();
  return button;
}
