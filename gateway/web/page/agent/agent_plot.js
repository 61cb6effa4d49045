// Model usage by day as bars, with the same numbers as a table for assistive technology.

import { ticks } from "./agent_runs.js";
import { h, svg } from "../core/dom.js";
import { count, money } from "../core/times.js";

const HEIGHT = 208, BOTTOM = 20, TOP = 16;
const LETTER = 6.5; // pixels, about
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

const MEASURES = {
  cost: {
    name: "Cost",
    parts: [["cost", "b1", "Cost"]], // field of a day, class of its bar, name
    axis: (value) => `$${Number(value.toPrecision(6))}`,
    say: money,
  },
  tokens: {
    name: "Tokens",
    parts: [["input", "b1", "In"], ["output", "b2", "Out"]],
    axis: (value) => SHORT.format(value),
    say: count,
  },
};

/** `update(days)` draws, and keeps the chosen measure. */
export function usagePlot() {
  let days = [], chosen = null;
  const drawing = h("div", { class: "agent-drawing" });
  const legend = h("div", { class: "agent-legend small muted" });
  const table = h("table", { class: "visually-hidden" });
  const buttons = Object.entries(MEASURES).map(([key, { name }]) => {
    const attributes = { class: "btn quiet", type: "button", "aria-pressed": "false" };
    return h("button", { ...attributes, onclick: () => choose(key) }, name);
  });
  const group = h("div", { class: "row", role: "group", "aria-label": "What the bars show" }, buttons);
  const watcher = new ResizeObserver(() => draw());
  watcher.observe(drawing);

  function choose(key) {
    chosen = key;
    draw();
  }

  function draw() {
    const key = chosen ?? (days.some((day) => day.cost > 0) ? "cost" : "tokens"), measure = MEASURES[key];
    for (const [at, each] of Object.keys(MEASURES).entries()) {
      buttons[at].setAttribute("aria-pressed", String(each === key));
    }
    const width = drawing.clientWidth;
    if (width && days.length) drawing.replaceChildren(picture(days, measure, width));
    legend.replaceChildren(...measure.parts.map((part) => legendOf(part, days, measure)));
    table.replaceChildren(...tableOf(days, measure));
  }

  return {
    element: h("div", { class: "block agent-plot" }, group, drawing, legend, table),
    update(newer) {
      days = newer;
      draw();
    },
    close: () => watcher.disconnect(),
  };
}

function legendOf([field, tone, name], days, { say }) {
  const sum = days.reduce((all, day) => all + day[field], 0);
  const sample = svg("svg", { viewBox: "0 0 16 8", "aria-hidden": "true" },
    svg("rect", { class: tone, width: 16, height: 8, rx: 2 }));
  return h("span", {}, sample, `${name} ${say(sum)}`);
}

function tableOf(days, { name, parts, say }) {
  const heads = ["Day", ...parts.map(([, , part]) => part)].map((each) => h("th", { scope: "col" }, each));
  const rows = days.filter((day) => day.conversations).map((day) =>
    h("tr", {},
      h("th", { scope: "row" }, DATE.format(day.date)),
      parts.map(([field]) => h("td", {}, say(day[field])))));
  return [h("caption", {}, `${name} by day`), h("tr", {}, heads), ...rows];
}

function picture(days, { parts, axis, say, name }, width) {
  const total = (day) => parts.reduce((sum, [field]) => sum + day[field], 0);
  const most = Math.max(...days.map(total)), marks = ticks(most);
  const y = (value) => TOP + (1 - value / marks.at(-1)) * (HEIGHT - TOP - BOTTOM);
  const left = 12 + LETTER * Math.max(...marks.map((mark) => axis(mark).length));
  const step = (width - left) / days.length, bar = Math.min(28, step * 0.64);
  const peak = most > 0 ? days.findIndex((day) => total(day) === most) : -1;
  const longest = LETTER * Math.max(...days.map((day) => DATE.format(day.date).length));
  // Days for each date that is written; the last date is moved to the left by up to a half.
  const every = Math.ceil((1.5 * longest + 8) / step);

  /** The middle of the bar, moved so that the label stays inside the picture. */
  const written = (text, middle, attributes) => {
    const over = middle + (LETTER * text.length) / 2 > width;
    const place = over ? { x: width, "text-anchor": "end" } : { x: middle, "text-anchor": "middle" };
    return svg("text", { ...place, ...attributes }, text);
  };
  const lines = marks.map((mark) => [
    svg("line", { class: "axis", x1: left, x2: width, y1: y(mark), y2: y(mark) }),
    svg("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, axis(mark)),
  ]);
  const bars = days.map((day, at) => {
    const from = left + at * step, middle = from + step / 2, date = DATE.format(day.date);
    let sum = 0;
    const pieces = parts.map(([field, tone]) => {
      const low = y(sum), high = y((sum += day[field])), height = low - high;
      const place = { x: middle - bar / 2, y: high, width: bar, height: Math.max(1, height) };
      return height > 0.1 && svg("rect", { class: tone, rx: 1, ...place });
    });
    return svg("g", {},
      svg("title", {}, `${date}: ${say(total(day))}`), pieces,
      svg("rect", { class: "hit", x: from, y: TOP, width: step, height: HEIGHT - TOP - BOTTOM }),
      (days.length - 1 - at) % every === 0 && written(date, middle, { y: HEIGHT - 4 }),
      at === peak && written(say(most), middle, { class: "peak", y: y(most) - 5 }));
  });
  const highest = peak < 0 ? "none" : `most on ${DATE.format(days[peak].date)}, ${say(most)}`;
  const size = { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}` };
  return svg("svg", { ...size, role: "img", "aria-label": `${name} by day: ${highest}` }, lines, bars);
}
