// Use of models by day as bars, with the same numbers as a table for who does not see them.

import { h, svg } from "./dom.js";
import { dollars, ticks } from "./agent_runs.js";
import { count } from "./times.js";

const HEIGHT = 208, BOTTOM = 20, TOP = 16;
const LETTER = 6.5; // pixels, about
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

const MEASURES = {
  cost: { name: "Cost", parts: [["cost", "b1", "Cost"]], axis: axisMoney, say: dollars },
  tokens: { name: "Tokens", parts: [["input", "b1", "In"], ["output", "b2", "Out"]], axis: (value) => SHORT.format(value), say: count },
};

/** `update(days)` draws; a measure that is chosen stays chosen. */
export function usagePlot() {
  let days = [], chosen = null;
  const drawing = h("div", { class: "agent-drawing" });
  const legend = h("div", { class: "agent-legend small muted" });
  const table = h("table", { class: "visually-hidden" });
  const buttons = Object.entries(MEASURES).map(([key, { name }]) =>
    h("button", { class: "btn quiet", type: "button", "aria-pressed": "false", onclick: () => choose(key) }, name));
  const element = h("div", { class: "block agent-plot" },
    h("div", { class: "row", role: "group", "aria-label": "What the bars show" }, buttons), drawing, legend, table);
  new ResizeObserver(() => draw()).observe(drawing);

  function choose(key) {
    chosen = key;
    draw();
  }

  function draw() {
    const costs = days.some((day) => day.cost > 0);
    const key = chosen ?? (costs ? "cost" : "tokens");
    Object.keys(MEASURES).forEach((each, at) => buttons[at].setAttribute("aria-pressed", String(each === key)));
    const measure = MEASURES[key];
    const sums = measure.parts.map(([field, tone, name]) => [tone, name, days.reduce((sum, day) => sum + day[field], 0)]);
    if (drawing.clientWidth) drawing.replaceChildren(picture(days, measure, drawing.clientWidth));
    legend.replaceChildren(...sums.map(([tone, name, sum]) =>
      h("span", {}, svg("svg", { viewBox: "0 0 16 8", "aria-hidden": "true" },
        svg("rect", { class: tone, width: 16, height: 8, rx: 2 })), `${name} ${measure.say(sum)}`)));
    table.replaceChildren(
      h("caption", {}, `${measure.name} by day`),
      h("tr", {}, h("th", { scope: "col" }, "Day"), measure.parts.map(([, , name]) => h("th", { scope: "col" }, name))),
      ...days.filter((day) => day.conversations).map((day) =>
        h("tr", {}, h("th", { scope: "row" }, DATE.format(day.date)),
          measure.parts.map(([field]) => h("td", {}, measure.say(day[field]))))));
  }

  return {
    element,
    update(newer) {
      days = newer;
      draw();
    },
  };
}

function picture(days, { parts, axis, say, name }, width) {
  const total = (day) => parts.reduce((sum, [field]) => sum + day[field], 0);
  const most = Math.max(...days.map(total)), marks = ticks(most);
  const y = (value) => TOP + (1 - value / marks.at(-1)) * (HEIGHT - TOP - BOTTOM);
  const left = 12 + LETTER * Math.max(...marks.map((mark) => axis(mark).length));
  const step = (width - left) / days.length, bar = Math.min(28, step * 0.64);
  const skip = Math.ceil(52 / step);
  const peak = most > 0 ? days.findIndex((day) => total(day) === most) : -1;
  const lines = marks.map((mark) => [
    svg("line", { class: "axis", x1: left, x2: width, y1: y(mark), y2: y(mark) }),
    svg("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, axis(mark)),
  ]);
  const bars = days.map((day, at) => {
    const middle = left + (at + 0.5) * step;
    let from = 0;
    const pieces = parts.map(([field, tone]) => {
      const low = y(from), high = y((from += day[field]));
      return low - high < 0.1 ? null
        : svg("rect", { class: tone, x: middle - bar / 2, y: high, width: bar, height: Math.max(1, low - high), rx: 1 });
    });
    const late = (days.length - 1 - at) % skip === 0, date = DATE.format(day.date);
    /** In the middle of the bar, unless it would leave the picture. */
    const beside = (text, attributes) => svg("text", {
      ...attributes, ...(middle + (LETTER * text.length) / 2 > width ? { x: width, "text-anchor": "end" } : { x: middle, "text-anchor": "middle" }),
    }, text);
    return svg("g", {},
      svg("title", {}, `${date}: ${say(total(day))}`), pieces,
      svg("rect", { class: "hit", x: middle - step / 2, y: TOP, width: step, height: HEIGHT - TOP - BOTTOM }),
      late && beside(date, { y: HEIGHT - 4 }),
      at === peak && beside(say(most), { class: "peak", y: y(most) - 5 }));
  });
  const label = peak < 0 ? `${name} by day: none` : `${name} by day, most on ${DATE.format(days[peak].date)}: ${say(most)}`;
  return svg("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label }, lines, bars);
}

function axisMoney(value) {
  return `$${Number(value.toPrecision(6))}`;
}
