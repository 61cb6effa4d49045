// A form for arguments or answers, made from their schema. Untouched fields keep the identical value.

import { controlOf, inputsIn, jsonControl } from "./argument_controls.js";
import { isObject, same } from "./argument_diff.js";
import { fieldsOf, placeMistakes, rebuild, typeLabel } from "./argument_fields.js";
import { h } from "../core/dom.js";
import { equal } from "../core/exact_json.js";
import { visible } from "../core/text.js";

let ids = 0;

/** A form over `value`. With `titles` it is a questionnaire with the schema's titles, else a table with
 * names.
 *
 * Returns `{element, result(), show(mistakes), focus()}`: `result()` is `{value, mistakes}`, mistakes as a
 * Map from path to texts; `show` puts the server's mistakes at their fields. `onchange` is called after
 * each change. */
export function argumentForm(schema, value, { onchange = () => {}, titles = false } = {}) {
  const id = `form-${++ids}`;
  const general = h("div", { class: "err", id: `${id}-err`, hidden: true });
  const holder = h("div", {});
  const toggle = h(
    "button",
    { class: "btn quiet small", type: "button", onclick: () => swap() },
    "Edit as JSON",
  );
  const element = h(
    "div",
    { class: titles ? "form titled" : "form" },
    general,
    holder,
    titles ? null : toggle,
  );
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
    const told = fieldsOf(schema, value).fields?.filter(({ description }) => description) ?? [];
    const lines = told.map((each) => [
      h("dt", { class: "k" }, visible(each.name)),
      h("dd", {}, visible(each.description)),
    ]);
    return h(
      "div",
      { class: "stack" },
      control.row,
      lines.length > 0 && h("dl", { class: "alike hint" }, lines),
    );
  }

  function rowsOf(parent) {
    const inner = parent.fields.map((each) => {
      if (each.kind !== "object")
        return titles ? question(add(controlOf(each, changed, titles))) : line(each);
      const name = h(
        "span",
        { class: "k", id: `${id}-${++ids}` },
        visible(titles ? titleOf(each) : each.name),
      );
      const help = hintOf(each);
      const about = {
        class: "nest",
        role: "group",
        "aria-labelledby": name.id,
        "aria-describedby": help?.id,
      };
      return h("div", about, name, help, rowsOf(each));
    });
    return h("div", { class: parent.path.length ? "" : titles ? "stack g16" : "args" }, inner);
  }

  /** The description of a value, which its control is described by. */
  function hintOf({ description }, control = null) {
    const made = description
      ? h("span", { class: "hint", id: `${id}-${++ids}` }, visible(description))
      : null;
    if (made && control) {
      control.help = made.id;
      mark(control, "");
    }
    return made;
  }

  function line(each) {
    const control = add(controlOf(each, changed, titles));
    const label = control.input
      ? h("label", { class: "k", for: control.input.id }, visible(each.name))
      : h("span", { class: "k" }, visible(each.name));
    if (!control.input) control.element.setAttribute("aria-label", visible(each.name));
    const help = hintOf(each, control);
    const type = h("span", { class: "ty" }, typeLabel(each.schema, each.value));
    control.row = h(
      "div",
      { class: "arg" },
      label,
      h("span", { class: "v" }, control.element, help, control.note),
      type,
    );
    return control.row;
  }

  function question(control) {
    const { field: each, input, element: shown, note } = control;
    const plain = each.required || input?.type === "checkbox";
    const text = `${visible(titleOf(each))}${plain ? "" : " (optional)"}`;
    const help = hintOf(each, control);
    if (input?.type === "checkbox")
      control.row = h("div", {}, h("label", { class: "row" }, input, text), help, note);
    else if (input)
      control.row = h("div", { class: "question" }, h("label", { for: input.id }, text), shown, help, note);
    else {
      shown.setAttribute("aria-label", text);
      control.row = h("div", { class: "question" }, h("span", { class: "label" }, text), shown, help, note);
    }
    return control.row;
  }

  function changed() {
    for (const control of controls) {
      const now = control.changed();
      const differs =
        now?.mistake || !same(at(value, control.field.path), now ? now.value : control.field.value);
      control.row.classList.toggle("changed", Boolean(differs) && !titles);
      // New mistakes are shown on sending, because a growing row would move the button being pressed.
      if (!now?.mistake) mark(control, "");
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
    const placed =
      mistakes instanceof Map
        ? mistakes
        : placeMistakes(
            mistakes,
            controls.map(({ path }) => path),
          );
    for (const control of controls) mark(control, placed.get(control.path)?.join(" ") ?? "");
    const known = new Set(controls.map(({ path }) => path));
    const rest = [...placed]
      .filter(([path]) => !known.has(path) || path === "")
      .flatMap(([, texts]) => texts);
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
  for (const input of control.element.matches("input,select,textarea")
    ? [control.element]
    : inputsIn(control.element)) {
    if (mistake) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
    const told = [mistake && control.note.id, control.help].filter(Boolean).join(" ");
    if (told) input.setAttribute("aria-describedby", told);
    else input.removeAttribute("aria-describedby");
  }
}

const at = (value, path) =>
  path.reduce(
    (found, name) => (isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined),
    value,
  );
const titleOf = (field) => (typeof field.schema.title === "string" ? field.schema.title : field.name);
