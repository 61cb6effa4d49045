// One conversation: its header, the chat, and the panel beside it. Without an id, a new one.

import { chat } from "./chat.js";
import { ChatLog } from "./chat_log.js";
import { composer } from "./composer.js";
import { conversationHeader } from "./conversation_header.js";
import { divider } from "../core/divider.js";
import { h, icon } from "../core/dom.js";
import { Feed } from "../core/feed.js";
import { firstVisit } from "./first_visit.js";
import * as outbox from "./outbox.js";
import { panel as timelinePanel } from "../timeline/panel.js";

const REPLAY = 100; // more events than this at once are history: drawn every 200 ms, not every frame

export function show(main, route, context) {
  const id = route.path[0] === "conversations" ? route.path[1] : undefined;
  return id === undefined ? firstVisit(main, context) : conversation(main, id, route, context);
}

/** The timeline, or a note in its place: a defect in the timeline must not break the chat. */
function safePanel(feed, context) {
  try {
    return timelinePanel(feed, context);
  } catch (error) {
    console.error(error);
    const element = h(
      "div",
      { class: "empty" },
      h("h2", {}, "The timeline cannot be shown"),
      h("p", {}, "The chat works without it."),
    );
    return { element, update() {}, select() {}, close() {} };
  }
}

function conversation(main, id, route, context) {
  const feed = new Feed(id),
    log = new ChatLog();
  const header = conversationHeader({ id, log, context });
  const parts = {
    log,
    id,
    context,
    select,
    stop: header.cancel,
    outbox: () => outbox.entries(id),
    agentName,
  };
  const talk = chat({ ...parts, retry: () => box.flush() });
  const box = composer({ ...parts, changed: () => talk.drawSending() });
  const side = h("div", { class: "side-pane" });
  const views = h("div", { class: "conversation", "data-show": "chat" }, talk.element, side);
  talk.element.id = "chat";
  const between = divider(views, {
    name: "chat",
    label: "Width of the chat",
    controls: talk.element.id,
    least: [360, 400],
  });
  const tabs = ["Chat", "Timeline"].map((word) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        "aria-selected": String(word === "Chat"),
        onclick: () => turnTo(word.toLowerCase()),
      },
      word,
    ),
  );
  const loading = h(
    "div",
    { class: "skeleton", "aria-hidden": "true" },
    Array.from({ length: 6 }, () => h("i")),
  );
  const panel = safePanel(feed, context);
  let wanted = route.query.get("at"),
    waiting = { events: [], deltas: [] },
    planned = false,
    replaying = false,
    closed = false;

  talk.element.prepend(loading);
  talk.element.append(box.element);
  side.append(panel.element);
  side.before(between.element);
  main.append(
    header.element,
    header.below,
    h("div", { class: "tabs narrow-tabs", role: "tablist", "aria-label": "View" }, tabs),
    views,
  );
  header.update();
  box.update();
  talk.drawSending();
  box.flush();

  feed.addEventListener("frames", ({ detail }) => {
    waiting.events.push(...detail.events);
    waiting.deltas.push(...detail.deltas);
    plan();
  });
  feed.addEventListener("state", () => changed(feed.state));

  function plan() {
    if (planned) return;
    planned = true;
    if (document.hidden || replaying)
      setTimeout(draw, 200); // hidden pages have no animation frames
    else requestAnimationFrame(draw);
  }

  function draw() {
    planned = false;
    if (closed) return;
    const frames = waiting;
    waiting = { events: [], deltas: [] };
    replaying = frames.events.length > REPLAY;
    const changes = log.take(frames);
    loading.remove();
    talk.update(changes);
    header.update();
    box.update();
    tell(frames.events);
    if (wanted && frames.events.length) select(wanted, false);
  }

  /** Announces approvals and ends of runs to assistive technology. Streamed text is not announced. */
  function tell(events) {
    const last = events.at(-1);
    if (!last || events.length > 50) return; // a replay is no news
    if (events.some(({ type }) => type === "approval.requested"))
      context.announce("An approval waits for you.");
    else if (last.type === "run.finished") context.announce("The agent has answered.");
    else if (last.type === "run.failed") context.announce("The run failed.");
  }

  function changed(state) {
    if (state === "live") box.flush();
    if (state === "deleted") gone("This conversation was deleted", "Nothing of it is kept.");
    if (state === "missing")
      gone("There is no such conversation", "It may have been deleted, or the link is incomplete.");
    if (state === "broken") {
      const { message, hint } = feed.problem;
      gone("This conversation cannot be read", `${message}${hint ? ` ${hint}` : ""}`);
    }
    if (state === "older" && !closed) {
      context.announce("An older copy of this conversation was restored.");
      context.navigate(location.hash); // all of the view is made again
    }
  }

  function gone(title, text) {
    if (closed) return;
    feed.close();
    context.setTitle(title);
    main.replaceChildren(
      h(
        "header",
        { class: "top" },
        h(
          "a",
          { class: "btn quiet icon only-narrow", href: "#/conversations", "aria-label": "Conversations" },
          icon("back"),
        ),
        h("h1", {}, title),
      ),
      h(
        "div",
        { class: "empty" },
        icon("question"),
        h("h2", {}, title),
        h("p", {}, text),
        h("a", { class: "btn", href: "#/" }, "New conversation"),
      ),
    );
  }

  /** The agent's name for an agent of one node; null for a tree, whose replies carry the names of its
   * nodes. */
  function agentName() {
    return log.root?.agents ? null : context.agent.name;
  }

  function select(key, byHand = true) {
    if (byHand) {
      history.replaceState(
        null,
        "",
        `#/conversations/${encodeURIComponent(id)}?at=${encodeURIComponent(key)}`,
      );
      if (matchMedia("(max-width: 1180px)").matches) turnTo("timeline");
    }
    wanted = null;
    panel.select(key);
  }

  function turnTo(what) {
    views.dataset.show = what;
    for (const tab of tabs) tab.setAttribute("aria-selected", String(tab.textContent.toLowerCase() === what));
    if (what === "chat") talk.toEnd();
    else panel.update();
  }

  if (wanted && matchMedia("(max-width: 1180px)").matches) turnTo("timeline");

  return {
    keys: { Escape: () => context.side.back() },
    /** Selects another step of the same conversation. False for any other address. */
    update(next) {
      if (next.path[1] !== id || feed.state === "older") return false;
      const key = next.query.get("at");
      if (key) select(key, false);
      return true;
    },
    close() {
      closed = true;
      for (const part of [feed, header, talk, box, panel, between]) part.close();
    },
  };
}
