// A form for arguments or answers, made from their schema. What a person does not touch stays the very same value.

import { fieldsOf, placeMistakes, read, rebuild, typeLabel } from "./argument_fields.js";
import { isObject } from "./argument_diff.js";
import { h, icon } from "./dom.js";
import { equal, parse, stringify } from "./exact_json.js";
import { visible } from "./text.js";

let ids = 0;

/** A form over `value`. With `titles` it is a questionnaire with the schema's titles, else a table with names.
 *
 * Returns `{element, result(), show(mistakes), focus()}`: `result()` is `{value, mistakes}`, mistakes as a Map from
 * path to texts; `show` puts the server's mistakes at their fields. `onchange` is called after each change. */
export function argumentForm(schema, value, { onchange = () => {}, titles = false } = {}) {
  const id = `form-${++ids}`;
  const general = h("div", { class: "err", id: `${id}-err`, hidden: true });
  const holder = h("div", {});
  const toggle = h("button", { class: "btn quiet small", type: "button", onclick: () => swap() }, "Edit as JSON");
  const element = h("div", { class: titles ? "form titled" : "form" }, general, holder, titles ? null : toggle);
  let controls = [];
  let field, asJson;

  function build(current, json) {
    asJson = json;
    field = fieldsOf(schema, current, { asked: titles });
    if (json || field.kind !== "object") field = { ...field, kind: "json", value: current, required: true };
    controls = [];
    holder.replaceChildren(...(field.kind === "json" ? [whole()] : [rowsOf(field)]));
    toggle.hidden = fieldsOf(schema, current).kind !== "object";
    toggle.textContent = json ? "Edit as a form" : "Edit as JSON";
  }

  function swap() {
    const { value: current, mistakes } = result();
    if (mistakes.size) return show([...mistakes.values()].flat());
    build(current, !asJson);
    changed();
    focus();
  }

  const add = (control) => {
    control.path = control.field.path.join(".");
    controls.push(control);
    return control;
  };

  function whole() {
    const control = add(jsonControl(field, "Arguments as JSON", changed));
    control.row = h("div", { class: "arg whole" }, control.element, control.note);
    return control.row;
  }

  function rowsOf(parent) {
    const inner = parent.fields.map((each) => {
      if (each.kind !== "object") return titles ? question(add(controlOf(each, changed, titles))) : line(each);
      const name = h("span", { class: "k", id: `${id}-${++ids}` }, visible(titles ? titleOf(each) : each.name));
      return h("div", { class: "nest", role: "group", "aria-labelledby": name.id }, name, rowsOf(each));
    });
    return h("div", { class: parent.path.length ? "" : titles ? "stack g16" : "args" }, inner);
  }

  function line(each) {
    const control = add(controlOf(each, changed, titles));
    const label = control.input
      ? h("label", { class: "k", for: control.input.id }, visible(each.name))
      : h("span", { class: "k" }, visible(each.name));
    if (!control.input) control.element.setAttribute("aria-label", visible(each.name));
    const help = each.schema.description ? h("span", { class: "hint" }, visible(each.schema.description)) : null;
    const type = h("span", { class: "ty" }, typeLabel(each.schema, each.value));
    control.row = h("div", { class: "arg" }, label, h("span", { class: "v" }, control.element, help, control.note), type);
    return control.row;
  }

  function question(control) {
    const { field: each, input, element: shown, note } = control;
    const text = `${visible(titleOf(each))}${each.required ? "" : " (optional)"}`;
    const help = each.schema.description ? h("span", { class: "hint" }, visible(each.schema.description)) : null;
    if (input?.type === "checkbox") control.row = h("div", {}, h("label", { class: "row" }, input, text), help, note);
    else if (input) control.row = h("div", { class: "question" }, h("label", { for: input.id }, text), shown, help, note);
    else {
      shown.setAttribute("aria-label", text);
      control.row = h("div", { class: "question" }, h("span", { class: "label" }, text), shown, help, note);
    }
    return control.row;
  }

  function changed() {
    for (const control of controls) {
      const now = control.changed();
      const differs = now?.mistake || !same(at(value, control.field.path), now ? now.value : control.field.value);
      control.row.classList.toggle("changed", Boolean(differs) && !titles);
      if (!now?.mistake) mark(control, ""); // a new one is told when it is sent: a row that grows would move the button
    }
    general.hidden = true;
    onchange();
  }

  function result() {
    const mistakes = new Map();
    const found = rebuild(field, (each) => {
      const control = controls.find((candidate) => candidate.field === each);
      const now = control?.changed();
      if (now?.mistake) mistakes.set(control.path, [now.mistake]);
      return now?.mistake ? undefined : now;
    });
    return { value: found !== undefined && equal(found, value) ? value : found, mistakes };
  }

  /** `mistakes`: texts, or a Map from path to texts. The focus goes to the first field with a mistake. */
  function show(mistakes) {
    const placed = mistakes instanceof Map ? mistakes : placeMistakes(mistakes, controls.map(({ path }) => path));
    for (const control of controls) mark(control, placed.get(control.path)?.join(" ") ?? "");
    const known = new Set(controls.map(({ path }) => path));
    const rest = [...placed].filter(([path]) => !known.has(path) || path === "").flatMap(([, texts]) => texts);
    const whole = controls.length === 1 && controls[0].path === "";
    general.replaceChildren(...(whole ? [] : rest).map((text) => h("p", {}, visible(text))));
    general.hidden = whole || !rest.length;
    (controls.find(({ path }) => placed.has(path)) ?? controls[0])?.focus();
  }

  function focus() {
    controls.find((control) => control.input || control.element.matches("[role=group]"))?.focus();
  }

  build(value, false);
  return { element, result, show, focus };
}

function mark(control, mistake) {
  control.note.textContent = visible(mistake);
  control.note.hidden = !mistake;
  for (const input of control.element.matches("input,select,textarea") ? [control.element] : inputsIn(control.element)) {
    if (mistake) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    if (mistake) input.setAttribute("aria-describedby", control.note.id);
    else input.removeAttribute("aria-describedby");
  }
}

const inputsIn = (element) => element.querySelectorAll("input,select,textarea");
const same = (a, b) => (a === undefined || b === undefined ? a === b : equal(a, b));
const at = (value, path) => path.reduce((found, name) => (isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined), value);
const titleOf = (field) => (typeof field.schema.title === "string" ? field.schema.title : field.name);

// A control: `{field, element, input?, note, changed(), focus()}`. `changed()` is undefined while nothing was touched,
// else `{value}`, `{gone: true}` or `{mistake}`.

function controlOf(field, onchange, titles) {
  switch (field.kind) {
    case "choice":
      return field.options.length === 1 && field.value !== undefined ? fixed(field) : choice(field, onchange);
    case "boolean":
      return field.value === true || field.value === false ? checkbox(field, onchange) : yesOrNo(field, onchange);
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
  options.forEach(({ label }, index) => made.append(h("option", { value: index, selected: index === start }, visible(label))));
  return control(field, made, () => (Number(made.value) === start ? undefined : options[Number(made.value)].outcome));
}

function choice(field, onchange) {
  const options = field.options.map(({ value, label }) => ({ label, value, outcome: { value } }));
  if (field.nullable && !field.options.some(({ value }) => value === null)) {
    options.push({ label: "null", value: null, outcome: { value: null } });
  }
  return select(field, ...withNone(field, options), onchange);
}

/** Puts "not set" before the options where that is, or may be, so; and says which option holds. */
function withNone(field, options) {
  const none = field.value === undefined || !field.required;
  const missing = field.value === undefined && field.required ? "Choose…" : "not set";
  const all = none ? [{ label: missing, value: undefined, outcome: { gone: true } }, ...options] : options;
  const start = all.findIndex(({ value }) => (value === undefined ? field.value === undefined : same(value, field.value)));
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
  const placeholder = field.value === null ? "null" : titles ? null : field.value === undefined ? "not set" : null;
  const long = field.kind === "text" && (/[\r\n]/.test(text) || text.length > 60 || (titles && field.schema.maxLength > 200));
  const made = long
    ? h("textarea", { id, rows: Math.min(12, Math.max(2, text.split("\n").length)), spellcheck: "false", oninput: onchange })
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
  const shown = visible(text) === text ? made : h("span", { class: "hidden-marks" }, made, h("span", {}, visible(text)));
  return control(field, shown, () => {
    if (made.value === start) return undefined;
    if (made.value === "" && (field.kind !== "text" || field.value === undefined)) {
      if (field.nullable && field.value !== undefined) return { value: null };
      return field.required && field.kind !== "text" ? { mistake: "A number is needed." } : { gone: true };
    }
    return read(field.kind, made.value);
  }, made);
}

function list(field, onchange) {
  const holder = h("span", { class: "items", role: "group" });
  const items = [];
  let moved = false;
  const addItem = (value) => {
    const item = line({ kind: field.item, value, required: true, schema: {}, nullable: false }, onchange, false);
    item.input.setAttribute("aria-label", "Item");
    item.value = value;
    item.box = h("span", { class: "item-edit" }, item.element);
    item.box.append(
      h("button", { class: "btn quiet icon", type: "button", "aria-label": "Remove item", onclick: () => drop(item) }, icon("x")),
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
    { class: "btn quiet icon", type: "button", "aria-label": "Add item", onclick: () => [(moved = true), addItem().focus(), onchange()] },
    icon("plus"),
  );
  holder.append(more);
  for (const value of field.value ?? []) addItem(value);
  return control(field, holder, () => {
    const read = items.map((item) => item.changed() ?? { value: item.value ?? (field.item === "text" ? "" : undefined) });
    if (!moved && items.every((item) => !item.changed())) return undefined;
    const wrong = read.find(({ mistake, gone, value }) => mistake || gone || value === undefined);
    if (wrong) return { mistake: wrong.mistake ?? "Fill in or remove the empty item." };
    if (!items.length && field.value === undefined) return undefined;
    return { value: read.map(({ value }) => value) };
  }, null);
}

function checkboxes(field, onchange) {
  const has = (value) => (field.value ?? []).some((each) => equal(each, value));
  const boxes = field.options.map(({ value, label }) => {
    const box = h("input", { type: "checkbox", onchange });
    box.checked = has(value);
    return { box, value, element: h("label", { class: "row" }, box, visible(label)) };
  });
  const element = h("span", { class: "items", role: "group" }, boxes.map((each) => each.element));
  return control(field, element, () => {
    if (boxes.every(({ box, value }) => box.checked === has(value))) return undefined;
    const kept = (field.value ?? []).filter((each) => boxes.some(({ box, value }) => box.checked && equal(value, each)));
    return { value: [...kept, ...boxes.filter(({ box, value }) => box.checked && !has(value)).map(({ value }) => value)] };
  }, null);
}

function jsonControl(field, label, onchange) {
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
    if (label && !outcome.mistake && !isObject(outcome.value)) return { mistake: "Arguments are a JSON object." };
    return outcome;
  });
}
