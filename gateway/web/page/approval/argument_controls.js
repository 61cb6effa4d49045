// The controls of a form. A control is `{field, element, input?, note, changed(), focus()}`; `changed()`
// is undefined for an untouched control, else `{value}`, `{gone: true}` or `{mistake}`.

import { read } from "./argument_fields.js";
import { isObject, same } from "./argument_diff.js";
import { h, icon } from "../core/dom.js";
import { equal, stringify } from "../core/exact_json.js";
import { visible } from "../core/text.js";

let ids = 0;

export const inputsIn = (element) => element.querySelectorAll("input,select,textarea");

export function controlOf(field, onchange, titles) {
  switch (field.kind) {
    case "choice":
      return field.options.length === 1 && field.value !== undefined
        ? fixed(field)
        : choice(field, onchange);
    case "boolean":
      return field.value === true || field.value === false
        ? checkbox(field, onchange)
        : yesOrNo(field, onchange);
    case "list":
      return field.item === "choice" ? checkboxes(field, onchange) : list(field, onchange);
    case "json":
      return jsonControl(field, null, onchange);
    default:
      return line(field, onchange, titles);
  }
}

function control(field, element, changed, input = element) {
  const note = h("span", { class: "err", id: `note-${++ids}`, hidden: true });
  return { field, element, input, note, changed, focus: () => (input ?? inputsIn(element)[0])?.focus() };
}

function fixed(field) {
  return control(field, h("span", {}, visible(field.options[0].label)), () => undefined, null);
}

function select(field, options, start, onchange) {
  const made = h("select", { id: `input-${++ids}`, onchange });
  options.forEach(({ label }, index) =>
    made.append(h("option", { value: index, selected: index === start }, visible(label))),
  );
  return control(field, made, () =>
    Number(made.value) === start ? undefined : options[Number(made.value)].outcome,
  );
}

function choice(field, onchange) {
  const options = field.options.map(({ value, label }) => ({ label, value, outcome: { value } }));
  if (field.nullable && !field.options.some(({ value }) => value === null)) {
    options.push({ label: "null", value: null, outcome: { value: null } });
  }
  return select(field, ...withNone(field, options), onchange);
}

/** Puts "not set" before the options if the value is, or may be, absent; selects the current option. */
function withNone(field, options) {
  const none = field.value === undefined || !field.required;
  const missing = field.value === undefined && field.required ? "Choose…" : "not set";
  const all = none ? [{ label: missing, value: undefined, outcome: { gone: true } }, ...options] : options;
  const start = all.findIndex(({ value }) =>
    value === undefined ? field.value === undefined : same(value, field.value),
  );
  return [all, start];
}

function yesOrNo(field, onchange) {
  const options = [true, false].map((value) => ({ label: value ? "yes" : "no", value, outcome: { value } }));
  if (field.nullable) options.push({ label: "null", value: null, outcome: { value: null } });
  return select(field, ...withNone(field, options), onchange);
}

function checkbox(field, onchange) {
  const made = h("input", { type: "checkbox", id: `input-${++ids}`, onchange });
  made.checked = field.value;
  return control(field, made, () => (made.checked === field.value ? undefined : { value: made.checked }));
}

const INPUT_TYPES = { email: "email", uri: "url", date: "date" };

function line(field, onchange, titles) {
  const text = field.value === undefined || field.value === null ? "" : String(field.value);
  const id = `input-${++ids}`;
  const placeholder =
    field.value === null ? "null" : titles ? null : field.value === undefined ? "not set" : null;
  const long =
    field.kind === "text" &&
    (/[\r\n]/.test(text) || text.length > 60 || (titles && field.schema.maxLength > 200));
  const made = long
    ? h("textarea", {
        id,
        rows: Math.min(12, Math.max(2, text.split("\n").length)),
        spellcheck: "false",
        oninput: onchange,
      })
    : h("input", {
        id,
        type: (titles && INPUT_TYPES[field.schema.format]) || "text",
        inputmode: { integer: "numeric", number: "decimal" }[field.kind],
        autocomplete: "off",
        spellcheck: "false",
        placeholder,
        oninput: onchange,
        onchange,
      });
  made.value = text;
  const start = made.value; // an input has no line breaks, a textarea only line feeds
  const shown =
    visible(text) === text ? made : h("span", { class: "hidden-marks" }, made, h("span", {}, visible(text)));
  return control(
    field,
    shown,
    () => {
      if (made.value === start) return undefined;
      if (made.value === "" && (field.kind !== "text" || field.value === undefined)) {
        if (field.nullable && field.value !== undefined) return { value: null };
        return field.required && field.kind !== "text" ? { mistake: "A number is needed." } : { gone: true };
      }
      return read(field.kind, made.value);
    },
    made,
  );
}

function list(field, onchange) {
  const holder = h("span", { class: "items", role: "group" });
  const items = [];
  let moved = false;
  const addItem = (value) => {
    const item = line(
      { kind: field.item, value, required: true, schema: {}, nullable: false },
      onchange,
      false,
    );
    item.input.setAttribute("aria-label", "Item");
    item.value = value;
    item.box = h("span", { class: "item-edit" }, item.element);
    item.box.append(
      h(
        "button",
        { class: "btn quiet icon", type: "button", "aria-label": "Remove item", onclick: () => drop(item) },
        icon("x"),
      ),
    );
    items.push(item);
    more.before(item.box);
    return item;
  };
  const drop = (item) => {
    const index = items.indexOf(item);
    items.splice(index, 1);
    item.box.remove();
    moved = true;
    (items[index] ?? items[index - 1])?.focus() ?? more.focus();
    if (!items.length) more.focus();
    onchange();
  };
  const more = h(
    "button",
    {
      class: "btn quiet icon",
      type: "button",
      "aria-label": "Add item",
      onclick: () => [(moved = true), addItem().focus(), onchange()],
    },
    icon("plus"),
  );
  holder.append(more);
  for (const value of field.value ?? []) addItem(value);
  return control(
    field,
    holder,
    () => {
      const read = items.map(
        (item) => item.changed() ?? { value: item.value ?? (field.item === "text" ? "" : undefined) },
      );
      if (!moved && items.every((item) => !item.changed())) return undefined;
      const wrong = read.find(({ mistake, gone, value }) => mistake || gone || value === undefined);
      if (wrong) return { mistake: wrong.mistake ?? "Fill in or remove the empty item." };
      if (!items.length && field.value === undefined) return undefined;
      return { value: read.map(({ value }) => value) };
    },
    null,
  );
}

function checkboxes(field, onchange) {
  const has = (value) => (field.value ?? []).some((each) => equal(each, value));
  const boxes = field.options.map(({ value, label }) => {
    const box = h("input", { type: "checkbox", onchange });
    box.checked = has(value);
    return { box, value, element: h("label", { class: "row" }, box, visible(label)) };
  });
  const element = h(
    "span",
    { class: "items", role: "group" },
    boxes.map((each) => each.element),
  );
  return control(
    field,
    element,
    () => {
      if (boxes.every(({ box, value }) => box.checked === has(value))) return undefined;
      const kept = (field.value ?? []).filter((each) =>
        boxes.some(({ box, value }) => box.checked && equal(value, each)),
      );
      return {
        value: [
          ...kept,
          ...boxes.filter(({ box, value }) => box.checked && !has(value)).map(({ value }) => value),
        ],
      };
    },
    null,
  );
}

export function jsonControl(field, label, onchange) {
  const text = field.value === undefined ? "" : stringify(field.value, 2);
  const made = h("textarea", {
    id: `input-${++ids}`,
    class: "json",
    rows: Math.min(16, Math.max(2, text.split("\n").length)),
    spellcheck: "false",
    placeholder: field.value === undefined ? "not set; JSON" : null,
    "aria-label": label,
    oninput: onchange,
    onchange,
  });
  made.value = text;
  const start = made.value;
  return control(field, made, () => {
    if (made.value === start) return undefined;
    if (!made.value.trim()) return field.required ? { mistake: "A value is needed." } : { gone: true };
    const outcome = read("json", made.value);
    if (label && !outcome.mistake && !isObject(outcome.value))
      return { mistake: "Arguments are a JSON object." };
    return outcome;
  });
}
