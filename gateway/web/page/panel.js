// The pane beside the chat: Timeline, Events, State and Usage of one conversation.

import { detail } from "./detail.js";
import { h } from "./dom.js";
import { parseKey } from "./keys.js";
import { rawEvents } from "./raw_events.js";
import { sessionState } from "./session_state.js";
import { Spans } from "./spans.js";
import { shorten, visible } from "./text.js";
import { tree } from "./tree.js";
import { usage } from "./usage.js";
import { waterfall } from "./waterfall.js";

const TICK = 500; // milliseconds between redraws while a run is in progress

const TABS = { timeline: "Timeline", events: "Events", state: "State", usage: "Usage" };

/** `{element, update(), select(key), close()}`. `key`: of an event, of a bar, or the id of an approval. */
export function panel(feed, { announce }) {
  const spans = new Spans();
  let taken = 0,
    asked = 0,
    tab = "timeline",
    which = null,
    fold = true,
    range = null,
    marked = null,
    closed = false;
  let selected = null,
    several = null,
    wanted = null; // a key to select once its event arrives

  const fall = waterfall({ select: (bars) => (bars.length > 1 ? choose(null, bars) : choose(bars[0].id)) });
  const diagram = tree({ choose: mark });
  const about = detail({
    feed,
    spans,
    link: (key) => `#/conversations/${encodeURIComponent(feed.id)}?at=${encodeURIComponent(key)}`,
    select: choose,
    close: () => choose(null),
    zoom,
    announce,
  });
  const views = { events: rawEvents(feed), state: sessionState(), usage: usage() };

  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "About this conversation" });
  const counts = { events: h("span", { class: "count" }), state: h("span", { class: "count" }) };
  for (const [name, text] of Object.entries(TABS)) {
    tabs.append(
      h(
        "button",
        {
          role: "tab",
          type: "button",
          id: `tab-${name}`,
          "aria-controls": `pane-${name}`,
          onclick: () => open(name),
        },
        text,
        counts[name],
      ),
    );
  }
  tabs.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const all = [...tabs.children],
      at = all.indexOf(document.activeElement);
    const next = all[(at + by + all.length) % all.length];
    next.focus();
    next.click();
  });

  const axisButtons = [
    ["Work", true, "Long waits are shortened"],
    ["Clock", false, "All times are to scale"],
  ].map(([text, folds, title]) =>
    h(
      "button",
      { type: "button", title, "aria-pressed": String(folds === fold), onclick: () => setFold(folds) },
      text,
    ),
  );
  const turns = h("select", {
    class: "field",
    "aria-label": "Turn",
    hidden: true,
    onchange: () => {
      which = turns.value === "all" ? "all" : turns.value === "" ? null : Number(turns.value);
      setRange(null);
    },
  });
  const axis = h("div", { class: "seg", role: "group", "aria-label": "Time axis" }, axisButtons);
  const whole = h(
    "button",
    { class: "btn", type: "button", hidden: true, onclick: () => setRange(null) },
    "Show all",
  );
  const legend = h(
    "div",
    { class: "legend", "aria-hidden": "true" },
    [
      ["model", "model"],
      ["tool", "tool"],
      ["wait", "waits for a person"],
      ["failed", "failed"],
    ].map(([style, text]) => h("span", {}, h("i", { class: `swatch ${style}` }), text)),
  );
  const empty = h(
    "div",
    { class: "empty" },
    h("h2", {}, "Nothing has run yet"),
    h("p", {}, "Model calls, tool calls and waits appear here as they happen."),
  );
  const panes = {
    timeline: h(
      "div",
      { class: "pane-timeline" },
      diagram.element,
      fall.element,
      empty,
      legend,
      about.element,
    ),
    events: views.events.element,
    state: views.state.element,
    usage: views.usage.element,
  };
  for (const [name, pane] of Object.entries(panes)) {
    pane.id = `pane-${name}`;
    pane.setAttribute("role", "tabpanel");
    pane.setAttribute("aria-labelledby", `tab-${name}`);
  }
  const element = h(
    "section",
    { class: "panel", "aria-label": "Timeline" },
    h("div", { class: "panel-bar" }, tabs, whole, turns, axis),
    Object.values(panes),
  );

  function open(name) {
    tab = name;
    for (const each of tabs.children) {
      const is = each.id === `tab-${name}`;
      each.setAttribute("aria-selected", String(is));
      each.tabIndex = is ? 0 : -1;
    }
    for (const [each, pane] of Object.entries(panes)) pane.hidden = each !== name;
    axis.hidden = name !== "timeline";
    draw();
  }

  function setFold(folds) {
    fold = folds;
    axisButtons.forEach((button, index) =>
      button.setAttribute("aria-pressed", String((index === 0) === folds)),
    );
    draw();
  }

  function setRange(next) {
    range = next;
    draw();
  }

  /** Shows the time around some bars only. */
  function zoom(from, to) {
    const around = Math.max((to - from) * 0.1, 2);
    setRange({ from: from - around, to: to + around });
  }

  /** Toggles the mark of a node's lane. */
  function mark(path) {
    toNode(marked === path ? null : path);
  }

  function toNode(path) {
    [marked, wanted] = [path, null];
    draw();
    if (path !== null) fall.toLane(path);
  }

  function choose(id, bars = null) {
    [selected, several, wanted] = [id, bars, null];
    if (id === null && !bars) about.hide();
    const bar = id && spans.find(id);
    if (id && !bar) wanted = id;
    draw();
    if (bar) fall.reveal(bar.id);
  }

  /** Selects the bar with this key as soon as its event has arrived. */
  function select(key) {
    if (!key) return choose(null);
    const bar = spans.find(key),
      place = parseKey(key);
    if (!bar) {
      wanted = key;
      if (place?.call === null && spans.turns.at(-1)?.byPath.has(place.path)) toNode(place.path);
      return;
    }
    open("timeline");
    const latest = spans.latest?.number;
    if (which !== "all" && (which ?? latest) !== bar.turn) which = bar.turn === latest ? null : bar.turn;
    range = null;
    choose(bar.id);
  }

  function update() {
    if (!asked && !closed) asked = requestAnimationFrame(draw);
  }

  function draw() {
    cancelAnimationFrame(asked);
    asked = 0;
    if (take()) return;
    counts.events.textContent = taken.toLocaleString();
    counts.state.textContent = String(views.state.draw(feed.events));
    drawTurns();
    if (tab === "timeline") drawTimeline();
    else if (tab !== "state") views[tab].draw(feed.events);
  }

  /** Takes the new events, selects a requested bar that now exists, and draws everything. */
  function take() {
    if (taken === feed.events.length) return false;
    spans.take(feed.events.slice(taken));
    taken = feed.events.length;
    if (!wanted || !spans.find(wanted)) return false;
    select(wanted);
    return true;
  }

  function drawTurns() {
    turns.hidden = tab !== "timeline" || spans.turns.length < 2;
    whole.hidden = tab !== "timeline" || !range;
    if (turns.hidden) return;
    const latest = spans.latest.number;
    const option = ({ number, message }) =>
      h(
        "option",
        { value: number === latest ? "" : number },
        `Turn ${number}: ${shorten(visible(message).replace(/\s+/g, " "), 28)}`,
      );
    if (turns.options.length !== spans.turns.length + 1)
      turns.replaceChildren(...spans.turns.map(option).reverse(), h("option", { value: "all" }, "All turns"));
    turns.value = which === null || which === latest ? "" : String(which);
  }

  function drawTimeline() {
    const view = spans.view(which, Math.max(Date.now(), spans.last));
    const none = !view.lanes.length;
    empty.hidden = !none;
    for (const each of [fall.element, diagram.element, legend]) each.hidden = none;
    diagram.element.hidden = none || view.lanes.length < 2;
    if (none) return;
    diagram.draw(view, marked);
    fall.draw({ view, fold, range, selected, marked });
    const bars =
      several ??
      (selected === null
        ? []
        : view.lanes.flatMap((lane) => lane.bars.filter((bar) => bar.id === selected)));
    if (bars.length) about.show(bars);
  }

  const onFrames = ({ detail: { deltas } }) => {
    take();
    spans.takeDeltas(deltas, Date.now());
    if (wanted && spans.find(wanted)) select(wanted);
    update();
  };
  feed.addEventListener("frames", onFrames);
  const ticking = setInterval(() => {
    const live = spans.latest && spans.latest.to === null;
    if (live && tab === "timeline" && document.visibilityState === "visible") update();
  }, TICK);
  const resized = new ResizeObserver(update);
  resized.observe(element);
  open("timeline");

  function close() {
    closed = true;
    clearInterval(ticking);
    cancelAnimationFrame(asked);
    resized.disconnect();
    fall.close();
    feed.removeEventListener("frames", onFrames);
  }
  return { element, update, select, close };
}
