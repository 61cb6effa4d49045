// Tokens and cost per model call over the conversation, as plots, and totals by model.

import { textWidth } from "./bar_text.js";
import { h, svg } from "../core/dom.js";
import { count, money } from "../core/times.js";
import { plural, visible } from "../core/text.js";

const MOST = 120; // columns of a plot; with more calls, a column stands for several

/** The recorded model calls: `{model, node, input, cached, output, cost, failed, at}`. Pure. */
export function modelCallsOf(events) {
  const calls = [];
  for (const { type, at, body } of events) {
    if (type !== "step.finished" || body.kind !== "model") continue;
    const usage = body.usage ?? {},
      number = (value) => Number(value ?? 0);
    calls.push({
      at,
      node: body.node,
      model: body.model ?? body.hops?.at(-1)?.model ?? "unknown",
      failed: Boolean(body.error),
      input: number(usage.input_tokens),
      cached: number(usage.cached_tokens),
      output: number(usage.output_tokens),
      cost: usage.cost_usd === undefined || usage.cost_usd === null ? null : Number(usage.cost_usd),
    });
  }
  return calls;
}

/** Sums of calls. `cost` is null if no cost is known; `unpriced` counts calls with tokens and no price.
 * Pure. */
export function sumOf(calls) {
  const sum = { calls: calls.length, failed: 0, input: 0, cached: 0, output: 0, cost: null, unpriced: 0 };
  for (const call of calls) {
    for (const name of ["input", "cached", "output"]) sum[name] += call[name];
    sum.failed += call.failed;
    if (call.cost !== null) sum.cost = (sum.cost ?? 0) + call.cost;
    else if (call.input + call.output) sum.unpriced += 1;
  }
  return sum;
}

/** At most `most` columns, each the sum of as many calls in a row. Pure. */
export function columnsOf(calls, most = MOST) {
  const each = Math.ceil(calls.length / most) || 1,
    columns = [];
  for (let at = 0; at < calls.length; at += each) {
    columns.push({
      ...sumOf(calls.slice(at, at + each)),
      first: at + 1,
      last: Math.min(at + each, calls.length),
      call: calls[at],
    });
  }
  return columns;
}

/** A round number at or above `value`, as the top of an axis. Pure. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 2, 5, 10].find((each) => each * unit >= value * 0.999999);
}

export function usage() {
  const element = h("div", { class: "usage" });
  let seen = "";

  function draw(events) {
    const look = `${events.length} ${element.clientWidth}`;
    if (look === seen || !element.clientWidth) return;
    seen = look;
    const calls = modelCallsOf(events);
    if (!calls.length) {
      element.replaceChildren(
        h(
          "div",
          { class: "empty" },
          h("h2", {}, "No model was called yet"),
          h("p", {}, "Tokens and cost of each call appear here."),
        ),
      );
      return;
    }
    const sum = sumOf(calls),
      columns = columnsOf(calls),
      width = element.clientWidth - 32;
    element.replaceChildren(
      totals(sum),
      plot("Tokens per model call", columns, width, (each) => [each.input, each.output], count, [
        "in",
        "out",
      ]),
      sum.cost
        ? plot("Cost per model call", columns, width, (each) => [each.cost ?? 0], money, [])
        : noCost(sum),
      byModel(calls),
    );
  }
  return { element, draw };
}

function totals(sum) {
  const rows = [
    ["Model calls", count(sum.calls)],
    ["Tokens in", count(sum.input)],
    ["Cached", count(sum.cached)],
    ["Tokens out", count(sum.output)],
    ["Cost", costText(sum)],
  ];
  return h(
    "dl",
    { class: "facts big" },
    rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

function costText({ cost, unpriced }) {
  if (cost === null) return "not known";
  return unpriced ? `${money(cost)} or more` : money(cost);
}

function noCost(sum) {
  return h(
    "p",
    { class: "small muted" },
    sum.cost === null
      ? "The cost is not known: the agent file has no prices for these models."
      : "These calls cost nothing.",
  );
}

function plot(title, columns, width, valuesOf, tell, names) {
  const tall = 132,
    top = 12,
    bottom = 20;
  const sums = columns.map((each) => valuesOf(each).reduce((a, b) => a + b, 0)),
    most = Math.max(...sums),
    ceiling = roundUp(most);
  const left = 12 + Math.max(44, ...[0, 0.5, 1].map((share) => textWidth(tell(ceiling * share), 11))),
    space = width - left;
  const y = (value) => top + (tall - top - bottom) * (1 - value / ceiling),
    wide = Math.min(28, space / columns.length);
  const peak = columns[sums.indexOf(most)];
  const told = [
    `${title}: ${plural(columns.at(-1).last, "call")}`,
    `the most is ${tell(most)}, ${callText(peak)}`,
  ].join("; ");
  const each = columns[0].last,
    shown = each > 1 ? title.replace("model call", `${each} model calls`) : title;
  const picture = svg("svg", { width, height: tall, role: "img", "aria-label": told });
  for (const share of [0, 0.5, 1]) {
    picture.append(
      svg("line", { x1: left, x2: width, y1: y(ceiling * share), y2: y(ceiling * share), class: "axis" }),
      svg("text", { x: left - 8, y: y(ceiling * share) + 4, "text-anchor": "end" }, tell(ceiling * share)),
    );
  }
  columns.forEach((each, index) => {
    let at = 0;
    const x = left + index * wide + wide * 0.15,
      w = Math.max(1, wide * 0.7);
    const group = svg("g", {}, svg("title", {}, `${callText(each)}: ${tell(sums[index])}`));
    valuesOf(each).forEach((value, layer) => {
      const from = y(at),
        to = y((at += value));
      if (value)
        group.append(
          svg("rect", {
            x,
            y: to,
            width: w,
            height: Math.max(1, from - to - (layer ? 1 : 0)),
            class: `layer${layer}`,
          }),
        );
    });
    picture.append(group);
  });
  for (const [text, x, anchor] of endLabels(columns, left, wide * columns.length))
    picture.append(svg("text", { x, y: tall - 4, "text-anchor": anchor }, text));
  const legend = names.map((name, layer) => h("span", {}, h("i", { class: `swatch layer${layer}` }), name));
  return h(
    "figure",
    { class: "plot" },
    h(
      "figcaption",
      { class: "row" },
      h("h3", { class: "grow" }, shown),
      h("span", { class: "legend", "aria-hidden": "true" }, legend),
    ),
    picture,
  );
}

/** The labels below the first and the last column; one for both if two would touch. */
function endLabels(columns, left, span) {
  const [first, last] = [columns[0].first, columns.at(-1).last].map((each) => each.toLocaleString());
  if (columns.length === 1) return [[`call ${first}`, left, "start"]];
  const [start, end] = [`call ${first}`, `call ${last}`];
  if (textWidth(start, 11) + textWidth(end, 11) + 12 > span)
    return [[`calls ${first} to ${last}`, left, "start"]];
  return [
    [start, left, "start"],
    [end, left + span, "end"],
  ];
}

function callText({ first, last, call }) {
  return first === last
    ? `call ${first}, ${visible(call.node)} with ${visible(call.model)}`
    : `calls ${first} to ${last}`;
}

function byModel(calls) {
  const models = new Map();
  for (const call of calls) {
    if (!models.has(call.model)) models.set(call.model, []);
    models.get(call.model).push(call);
  }
  return h(
    "div",
    { class: "table", tabindex: "0", role: "group", "aria-label": "Totals by model" },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["Model", "Calls", "Failed", "In", "Cached", "Out", "Cost"].map((name, index) =>
            h("th", { scope: "col", class: index ? "num" : null }, name),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        [...models].map(([model, own]) => {
          const sum = sumOf(own);
          return h(
            "tr",
            {},
            h("th", { scope: "row", class: "mono" }, visible(model)),
            [
              count(sum.calls),
              count(sum.failed),
              count(sum.input),
              count(sum.cached),
              count(sum.output),
              costText(sum),
            ].map((text, index) =>
              h("td", { class: `num${index === 1 && sum.failed ? " is-bad" : ""}` }, text),
            ),
          );
        }),
      ),
    ),
  );
}
