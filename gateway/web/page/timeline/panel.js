// The pane beside the chat: Timeline, Events, State and Usage of one conversation.

import { detail } from "./detail.js";
import { h } from "../core/dom.js";
import { parseKey } from "../core/keys.js";
import { rawEvents } from "./raw_events.js";
import { sessionState } from "./session_state.js";
import { Spans } from "./spans.js";
import { shorten, visible } from "../core/text.js";
import { tree } from "./tree.js";
import { usage } from "./usage.js";
import { waterfall } from "./waterfall.js";

const TICK = 500; // milliseconds between redraws while a run is in progress

const TABS = { timeline: "Timeline", events: "Events", state: "State", usage: "Usage" };

/** `{element, update(), select(key), close()}`. `key`: that of an event or a bar, or the id of an approval.
 *
 * `draw` takes the new events of the feed and redraws the open tab; `update` schedules that for the next
 * frame. */
export function panel(feed, { announce }) {
  const spans = new Spans();
  let taken = 0, // number of the feed's events in `spans`
    frame = 0, // id of the scheduled animation frame
    tab = "timeline",
    turn = null, // the turn to show: its number, "all", or null for the latest
    fold = true, // whether long waits are shortened
    range = null, // `{from, to}` of the zoom
    marked = null, // path of the node whose lane is marked
    closed = false;
  let selected = null, // id of the selected bar
    merged = null, // the bars of the selected block, if it has several
    wanted = null; // a key to select once its event arrives

  const chart = waterfall({ select: (bars) => (bars.length > 1 ? choose(null, bars) : choose(bars[0].id)) });
  const diagram = tree({ choose: mark });
  const details = detail({
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
          onclick: () => openTab(name),
        },
        text,
        counts[name],
      ),
    );
  }
  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...tabs.children],
      index = all.indexOf(document.activeElement);
    const next = all[(index + step + all.length) % all.length];
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
      turn = turns.value === "all" ? "all" : turns.value === "" ? null : Number(turns.value);
      setRange(null);
    },
  });
  const axis = h("div", { class: "seg", role: "group", "aria-label": "Time axis" }, axisButtons);
  const showAll = h(
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
      chart.element,
      empty,
      legend,
      details.element,
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
    h("div", { class: "panel-bar" }, tabs, showAll, turns, axis),
    Object.values(panes),
  );

  function openTab(name) {
    tab = name;
    for (const each of tabs.children) {
      const isOpen = each.id === `tab-${name}`;
      each.setAttribute("aria-selected", String(isOpen));
      each.tabIndex = isOpen ? 0 : -1;
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

  /** Shows only the times from `from` to `to`, with a margin. */
  function zoom(from, to) {
    const margin = Math.max((to - from) * 0.1, 2);
    setRange({ from: from - margin, to: to + margin });
  }

  /** Toggles the mark of a node's lane. */
  function mark(path) {
    showLane(marked === path ? null : path);
  }

  /** Marks the lane of a node and scrolls to it; null removes the mark. */
  function showLane(path) {
    [marked, wanted] = [path, null];
    draw();
    if (path !== null) chart.toLane(path);
  }

  /** Selects the bar `id`, or a block of merged `bars`, or nothing. */
  function choose(id, bars = null) {
    [selected, merged, wanted] = [id, bars, null];
    if (id === null && !bars) details.hide();
    const bar = id && spans.find(id);
    if (id && !bar) wanted = id;
    draw();
    if (bar) chart.reveal(bar.id);
  }

  /** Selects the bar with this key, now or as soon as its event arrives. For the key of a node without a bar,
   * shows the lane of the node. */
  function select(key) {
    if (!key) return choose(null);
    const bar = spans.find(key),
      place = parseKey(key);
    if (!bar) {
      wanted = key;
      if (place?.call === null && spans.turns.at(-1)?.byPath.has(place.path)) showLane(place.path);
      return;
    }
    openTab("timeline");
    const latest = spans.latest?.number;
    if (turn !== "all" && (turn ?? latest) !== bar.turn) turn = bar.turn === latest ? null : bar.turn;
    range = null;
    choose(bar.id);
  }

  function update() {
    if (!frame && !closed) frame = requestAnimationFrame(draw);
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    if (take()) return;
    counts.events.textContent = taken.toLocaleString();
    counts.state.textContent = String(views.state.draw(feed.events));
    drawTurns();
    if (tab === "timeline") drawTimeline();
    else if (tab !== "state") views[tab].draw(feed.events);
  }

  /** Takes the new events. If the wanted bar is among them, selects it, draws, and returns true. */
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
    showAll.hidden = tab !== "timeline" || !range;
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
    turns.value = turn === null || turn === latest ? "" : String(turn);
  }

  function drawTimeline() {
    const view = spans.view(turn, Math.max(Date.now(), spans.last));
    const isEmpty = !view.lanes.length;
    empty.hidden = !isEmpty;
    for (const each of [chart.element, legend]) each.hidden = isEmpty;
    diagram.element.hidden = view.lanes.length < 2;
    if (isEmpty) return;
    diagram.draw(view, marked);
    chart.draw({ view, fold, range, selected, marked });
    const bars =
      merged ??
      (selected === null
        ? []
        : view.lanes.flatMap((lane) => lane.bars.filter((bar) => bar.id === selected)));
    if (bars.length) details.show(bars);
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
  openTab("timeline");

  function close() {
    closed = true;
    clearInterval(ticking);
    cancelAnimationFrame(frame);
    resized.disconnect();
    chart.close();
    feed.removeEventListener("frames", onFrames);
  }
  return { element, update, select, close };
}
