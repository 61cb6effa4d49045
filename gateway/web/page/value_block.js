// Values as text blocks: JSON with exact numbers, at most 64 KiB until somebody asks for all, never Markdown.

import { h } from "./dom.js";
import { Exact, parse, stringify } from "./exact_json.js";
import { visible } from "./text.js";

const MOST = 65_536; // characters shown at first

export function field(name, ...content) {
  return h("div", { class: "part" }, h("span", { class: "label" }, name), content);
}

/** Text in a block; what is beyond the bound comes with a button. */
export function bounded(text, wrap = false) {
  const pre = h("pre", { class: wrap ? "code wrap" : "code", tabindex: 0 });
  if (text.length <= MOST) {
    pre.textContent = text;
    return pre;
  }
  pre.textContent = `${text.slice(0, MOST)}…`;
  const all = h(
    "button",
    { class: "btn", type: "button", onclick: showAll },
    `Show all ${text.length.toLocaleString()} characters`,
  );
  function showAll() {
    pre.textContent = text;
    all.remove();
    pre.focus();
  }
  return h("div", { class: "stack" }, pre, all);
}

/** A JSON value on lines of its own. */
export function codeBlock(value) {
  return bounded(visible(typeof value === "string" ? value : jsonText(value, 2)), true);
}

/** Like `stringify`, but lists and objects that fit into a line stay on one. */
export function jsonText(value, indent = 0, depth = 0) {
  if (!indent || value === null || typeof value !== "object" || value instanceof Exact)
    return stringify(value);
  const plain = stringify(value);
  const list = Array.isArray(value);
  if (
    list &&
    plain.length < 64 &&
    value.every((each) => each === null || typeof each !== "object" || each instanceof Exact)
  ) {
    return `[${value.map((each) => stringify(each)).join(", ")}]`;
  }
  const pad = " ".repeat(indent * (depth + 1)),
    end = " ".repeat(indent * depth);
  const parts = list
    ? value.map((each) => jsonText(each, indent, depth + 1))
    : Object.entries(value).map(
        ([name, each]) => `${JSON.stringify(name)}: ${jsonText(each, indent, depth + 1)}`,
      );
  if (!parts.length) return list ? "[]" : "{}";
  return `${list ? "[" : "{"}\n${pad}${parts.join(`,\n${pad}`)}\n${end}${list ? "]" : "}"}`;
}

/** Text that is JSON spread over lines; other text as it is. */
export function prettyText(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return jsonText(parse(text), 2);
  } catch {
    return text;
  }
}
