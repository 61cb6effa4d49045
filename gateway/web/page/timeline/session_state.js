// The session state, which nodes keep for later nodes: the values of each key, and the nodes that set them.

import { h } from "../core/dom.js";
import { timeElement } from "../core/times.js";
import { textBlock } from "./value_block.js";
import { visible } from "../core/text.js";

/** Keys in the order in which they were first set, with all their values, the latest last. Pure. */
export function sessionOf(events) {
  const keys = new Map();
  let turn = 0;
  for (const { type, at, body, seq } of events) {
    if (type === "run.started") turn = body.turn;
    if (type !== "state.set") continue;
    if (!keys.has(body.key)) keys.set(body.key, []);
    keys.get(body.key).push({ value: body.value, node: body.node, at, turn, seq });
  }
  return keys;
}

export function sessionState() {
  const element = h("div", { class: "session" });
  let seen = -1;

  function draw(events) {
    const keys = sessionOf(events);
    const last = Math.max(0, ...[...keys.values()].map((values) => values.at(-1).seq));
    if (last === seen) return keys.size;
    seen = last;
    const open = new Set([...element.querySelectorAll("details[open]")].map((each) => each.dataset.key));
    element.replaceChildren(...(keys.size ? [...keys].map((each) => entry(each, open)) : [empty()]));
    return keys.size;
  }
  return { element, draw };
}

function entry([key, values], open) {
  const { value, node, at, turn } = values.at(-1),
    earlier = values.slice(0, -1).reverse();
  return h(
    "section",
    { class: "kept" },
    h(
      "div",
      { class: "row" },
      h("h3", { class: "mono grow ellipsis" }, visible(key)),
      h("span", { class: "small muted nowrap" }, `by ${visible(node)}, turn ${turn}, `, timeElement(at)),
    ),
    textBlock(value),
    earlier.length
      ? h(
          "details",
          { "data-key": key, open: open.has(key) },
          h(
            "summary",
            { class: "small muted" },
            earlier.length === 1 ? "1 earlier value" : `${earlier.length} earlier values`,
          ),
          h(
            "div",
            { class: "stack" },
            earlier
              .slice(0, 50)
              .map((each) =>
                h(
                  "div",
                  { class: "part" },
                  h(
                    "span",
                    { class: "small muted" },
                    `by ${visible(each.node)}, turn ${each.turn}, `,
                    timeElement(each.at),
                  ),
                  textBlock(each.value),
                ),
              ),
          ),
        )
      : null,
  );
}

function empty() {
  return h(
    "div",
    { class: "empty" },
    h("h2", {}, "The session state is empty"),
    h("p", {}, "A node with an output_key keeps its answer here, for the prompts of the nodes after it."),
  );
}
