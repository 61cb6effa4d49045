// Arguments as a table: names, values, types. Every value is shown whole.

import { isObject } from "./argument_diff.js";
import { shapeOf, typeLabel } from "./argument_fields.js";
import { codeBox } from "../core/code_box.js";
import { h } from "../core/dom.js";
import { Exact, stringify } from "../core/exact_json.js";
import { visible } from "../core/text.js";

const LONG = 600; // characters of a text that has a box of its own
const DEEPEST = 6; // levels of indentation; below it JSON is easier to read

/** All arguments. `schema` names the types, if there is one. */
export function argumentTable(args, schema) {
  if (!Object.keys(args).length) return h("p", { class: "faint small" }, "Without arguments.");
  return h("dl", { class: "args" }, rows(args, shapeOf(schema, schema), 1, schema));
}

function rows(value, schema, depth, root) {
  const known = schema?.properties ?? {};
  const at = (name) => (Object.hasOwn(known, name) ? shapeOf(known[name], root) : undefined);
  return Object.entries(value).map(([name, inner]) => row(name, inner, at(name), depth, root));
}

function row(name, value, schema, depth, root) {
  const nested = isObject(value) && Object.keys(value).length && depth < DEEPEST;
  if (nested) return nest(name, rows(value, schema, depth + 1, root));
  if (Array.isArray(value) && value.some(isNested) && depth < DEEPEST) {
    const items = shapeOf(schema?.items, root);
    return nest(
      name,
      value.map((item, index) => row(String(index + 1), item, items, depth + 1, root)),
      "list",
    );
  }
  return h(
    "div",
    { class: "arg" },
    h("dt", { class: "k" }, visible(name)),
    h("dd", { class: "v" }, valueElement(value)),
    h("dd", { class: "ty" }, typeLabel(schema, value)),
  );
}

function nest(name, inner, type) {
  const title = h("dt", { class: "k" }, visible(name), type ? h("span", { class: "ty" }, type) : null);
  return h("div", { class: "nest" }, title, h("dd", {}, h("dl", {}, inner)));
}

const isNested = (value) => isObject(value) || Array.isArray(value);

/** One value as text, with invisible characters escaped. */
export function valueElement(value) {
  if (value === undefined) return h("span", { class: "faint" }, "not set");
  if (value === null) return h("span", { class: "faint" }, "null");
  if (value === "") return h("span", { class: "faint" }, "empty text");
  if (typeof value === "string") return longText(visible(value));
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number" || value instanceof Exact) return String(value);
  if (Array.isArray(value) && !value.length) return h("span", { class: "faint" }, "empty list");
  if (Array.isArray(value) && !value.some(isNested)) {
    return h(
      "span",
      { class: "steps" },
      value.map((item) => h("span", {}, valueElement(item))),
    );
  }
  return longText(visible(stringify(value, 2)));
}

/** A long text is shown whole, in a box that scrolls: nothing that is approved is left out. */
function longText(text) {
  return text.length <= LONG ? text : codeBox(h("pre", { class: "long", tabindex: "0" }, text), text);
}

/** A value beside the one that it replaces; a text has quotes if the other value is not a text. */
function told(value, other) {
  return typeof value === "string" && typeof other !== "string" && other !== undefined
    ? visible(stringify(value))
    : valueElement(value);
}

/** Changed values, old and new, and the number of unchanged ones. */
export function changeTable(changes, unchanged = 0) {
  const lines = changes.map(({ path, before, after }) =>
    h(
      "div",
      { class: "arg changed" },
      h(
        "dt",
        { class: "k" },
        path.map((name, index) => [index ? [".", h("wbr", {})] : null, visible(name)]),
      ),
      h(
        "dd",
        { class: "v" },
        before === undefined
          ? null
          : [h("span", { class: "visually-hidden" }, "before: "), h("del", {}, told(before, after))],
        h("span", { class: "visually-hidden" }, " now: "),
        h("ins", {}, after === undefined ? "removed" : told(after, before)),
      ),
    ),
  );
  const rest = unchanged === 1 ? "1 value as it was" : `${unchanged} values as they were`;
  return h(
    "div",
    {},
    h("dl", { class: "args" }, lines),
    unchanged ? h("p", { class: "faint small rest" }, rest) : null,
  );
}
