// Values as blocks of plain text: JSON with exact numbers, 64 Ki characters at first, never Markdown.

import { isObject } from "../approval/argument_diff.js";
import { codeBox } from "../core/code_box.js";
import { h } from "../core/dom.js";
import { Exact, equal, parse, stringify } from "../core/exact_json.js";
import { visible } from "../core/text.js";

const MOST = 65_536; // characters shown at first

export function field(name, ...content) {
  return h("div", { class: "part" }, h("span", { class: "label" }, name), content);
}

/** Text in a block; a button shows the rest of a long one. `wide`: another form of it for the wide view. */
export function bounded(text, wide = text) {
  const pre = h("pre", { class: "code wrap", tabindex: 0 });
  const box = codeBox(pre, text, wide);
  if (text.length <= MOST) {
    pre.textContent = text;
    return box;
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
  return h("div", { class: "stack" }, box, all);
}

/** A JSON value on lines of its own; a text as it is. In the wide view, texts of JSON have line breaks. */
export function jsonBlock(value) {
  if (typeof value === "string") return bounded(visible(value));
  return bounded(visible(jsonText(value)), visible(jsonText(value, { breaks: true })));
}

/** A text; JSON is indented. */
export function textBlock(text) {
  const value = /^\s*[[{]/.test(text) ? parsed(text) : undefined;
  return value === undefined ? bounded(visible(text)) : jsonBlock(value);
}

/** The text of a result, and the data that it does not repeat: `{text, data}`, each undefined if there is
 * none. The text is what the model reads: the runtime has added the data to it if the server's text lacks
 * them. Pure. */
export function resultParts({ content, structured }) {
  const data = structured ?? undefined;
  if (!content || data === undefined) return { text: content || undefined, data };
  const whole = parsed(content);
  const wrapped = isObject(data) && Object.values(data).length === 1 && Object.values(data)[0];
  if (wrapped === content || (whole !== undefined && (equal(whole, data) || equal(whole, wrapped))))
    return { text: content, data: undefined };
  const end = content.lastIndexOf("\n");
  const last = parsed(content.slice(end + 1));
  return { text: last !== undefined && equal(last, data) ? content.slice(0, end) : content, data };
}

function parsed(text) {
  try {
    return parse(text);
  } catch {
    return undefined; // it only looks like JSON
  }
}

const isScalar = (value) => value === null || typeof value !== "object" || value instanceof Exact;

/** Indented JSON, in which short lists of scalars stay on one line. With `breaks`, escaped line breaks become
 * line breaks, which is easier to read and no longer JSON. Pure. */
export function jsonText(value, { depth = 0, breaks = false } = {}) {
  if (isScalar(value)) return breaks ? broken(stringify(value)) : stringify(value);
  const list = Array.isArray(value);
  const short = list && value.every(isScalar) && stringify(value).length < 64;
  if (short && !(breaks && stringify(value).includes("\\n")))
    return `[${value.map((each) => stringify(each)).join(", ")}]`;
  const pad = "  ".repeat(depth + 1),
    end = "  ".repeat(depth);
  const inner = (each) => jsonText(each, { depth: depth + 1, breaks });
  const parts = list
    ? value.map(inner)
    : Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${inner(each)}`);
  if (!parts.length) return list ? "[]" : "{}";
  return `${list ? "[" : "{"}\n${pad}${parts.join(`,\n${pad}`)}\n${end}${list ? "]" : "}"}`;
}

/** Each escape of a line break as a line break; an escaped backslash before an "n" is none. */
const broken = (text) =>
  text.replace(/\\r\\n|\\(.)/g, (found, sign) => (sign === undefined || sign === "n" ? "\n" : found));
