// Values as blocks of plain text: JSON with exact numbers, 64 Ki characters at first, never Markdown.

import { h } from "./dom.js";
import { Exact, parse, stringify } from "./exact_json.js";
import { visible } from "./text.js";

const MOST = 65_536; // characters shown at first

export function field(name, ...content) {
  return h("div", { class: "part" }, h("span", { class: "label" }, name), content);
}

/** Text in a block; a button shows the rest of a long one. */
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
  return bounded(visible(typeof value === "string" ? value : jsonText(value)), true);
}

const isScalar = (value) => value === null || typeof value !== "object" || value instanceof Exact;

/** Indented JSON, in which short lists of scalars stay on one line. */
export function jsonText(value, depth = 0) {
  if (isScalar(value)) return stringify(value);
  const list = Array.isArray(value);
  if (list && value.every(isScalar) && stringify(value).length < 64)
    return `[${value.map((each) => stringify(each)).join(", ")}]`;
  const pad = "  ".repeat(depth + 1),
    end = "  ".repeat(depth);
  const parts = list
    ? value.map((each) => jsonText(each, depth + 1))
    : Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${jsonText(each, depth + 1)}`);
  if (!parts.length) return list ? "[]" : "{}";
  return `${list ? "[" : "{"}\n${pad}${parts.join(`,\n${pad}`)}\n${end}${list ? "]" : "}"}`;
}

/** JSON text, indented; any other text unchanged. */
export function prettyText(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return jsonText(parse(text));
  } catch {
    return text;
  }
}
