// The fields of a form for a JSON Schema, and the meaning of typed texts. Pure.

import { isObject } from "./argument_diff.js";
import { Exact, equal, parse, stringify } from "../core/exact_json.js";

const DEEPEST = 4; // objects in objects that become fields; below it JSON is easier to edit
const SCALARS = ["string", "integer", "number", "boolean"];
const ODD = ["oneOf", "anyOf", "allOf", "not", "if", "patternProperties", "prefixItems", "dependentSchemas"];

/** The form of `value` under `schema`, a tree of fields:
 *
 * `{kind, path, name, value, schema, description, required, nullable, options?, fields?, item?}`; `kind` is
 * "object" with `fields`, "list" with `item` (the kind of its items), "choice" with `options` (`{value,
 * label}`),
 * "text", "integer", "number", "boolean", or "json" for values that the others cannot express. `value` is
 * undefined where nothing is given. The fields have the order of the values, or with `asked` that of the
 * schema. */
export function fieldsOf(schema, value, { path = [], root = schema, required = true, asked = false } = {}) {
  const { type: shape, nullable } = simplified(schema, root);
  const description =
    [schema?.description, shape?.description].find((text) => typeof text === "string") ?? "";
  const base = { path, name: path.at(-1) ?? "", value, schema: shape ?? {}, description, required, nullable };
  const json = { ...base, kind: "json" };
  if (!shape) return json;
  const options = optionsOf(shape);
  if (options) {
    const known =
      value === undefined || value === null || options.some((option) => equal(option.value, value));
    return known && (value !== null || nullable) ? { ...base, kind: "choice", options } : json;
  }
  if (ODD.some((word) => word in shape)) return json;
  switch (shape.type) {
    case "object": {
      if (!isObject(shape.properties) || path.length >= DEEPEST) return json;
      if (value !== undefined && !isObject(value)) return json;
      if (value === undefined && path.length) return json;
      const given = value ?? {};
      const known = Object.keys(shape.properties);
      const names = [
        ...new Set(asked ? [...known, ...Object.keys(given)] : [...Object.keys(given), ...known]),
      ];
      const must = Array.isArray(shape.required) ? shape.required : [];
      const fields = names.map((name) => {
        const inner = Object.hasOwn(shape.properties, name) ? shape.properties[name] : undefined;
        const own = Object.hasOwn(given, name) ? given[name] : undefined;
        return fieldsOf(inner, own, { path: [...path, name], root, required: must.includes(name), asked });
      });
      return { ...base, kind: "object", fields };
    }
    case "array": {
      const { type: item } = simplified(shape.items, root);
      const choices = item && optionsOf(item);
      const kind = choices ? "choice" : kindOf(item?.type);
      if (!kind || (item && !choices && ODD.some((word) => word in item))) return json;
      const fits = (each) =>
        choices ? choices.some((option) => equal(option.value, each)) : isA(kind, each);
      if (value !== undefined && !(Array.isArray(value) && value.every(fits))) return json;
      return { ...base, kind: "list", item: kind, options: choices ?? undefined };
    }
    default: {
      const kind = kindOf(shape.type);
      if (!kind) return json;
      return value === undefined || isA(kind, value) || (value === null && nullable)
        ? { ...base, kind }
        : json;
    }
  }
}

function kindOf(type) {
  return SCALARS.includes(type) ? (type === "string" ? "text" : type) : null;
}

function isA(kind, value) {
  if (kind === "text") return typeof value === "string";
  if (kind === "boolean") return typeof value === "boolean";
  return typeof value === "number" || value instanceof Exact;
}

/** The schema without references and without "or null", and whether null fits. */
function simplified(schema, root, seen = 0) {
  if (!isObject(schema) || seen > 20) return { type: null, nullable: false };
  if (typeof schema.$ref === "string") {
    const found = pointed(root, schema.$ref);
    const { $ref, ...beside } = schema;
    return simplified(isObject(found) ? { ...found, ...beside } : null, root, seen + 1);
  }
  for (const word of ["anyOf", "oneOf"]) {
    if (!Array.isArray(schema[word])) continue;
    const others = schema[word].filter((each) => each?.type !== "null");
    if (others.length !== 1 || others.length === schema[word].length) continue;
    const { [word]: _, ...beside } = schema;
    return { ...simplified({ ...beside, ...others[0] }, root, seen + 1), nullable: true };
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((each) => each !== "null");
    const nullable = types.length < schema.type.length;
    return types.length === 1 ? { type: { ...schema, type: types[0] }, nullable } : { type: null, nullable };
  }
  if (schema.type === undefined && isObject(schema.properties))
    return { type: { ...schema, type: "object" }, nullable: false };
  return { type: schema, nullable: false };
}

/** The schema without references and without "or null"; null if it allows several types. */
export function shapeOf(schema, root) {
  return simplified(schema, root).type;
}

function pointed(root, reference) {
  if (!reference.startsWith("#/")) return null;
  let at = root;
  for (const part of reference.slice(2).split("/")) {
    const name = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (at === null || typeof at !== "object" || !Object.hasOwn(at, name)) return null;
    at = at[name];
  }
  return at;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a lone "%" stands for itself
  }
}

/** `{value, label}` of each value that fits, if there are few; else null. */
function optionsOf(schema) {
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((value, index) => ({ value, label: asText(names[index] ?? value) }));
  }
  if (Object.hasOwn(schema, "const")) return [{ value: schema.const, label: asText(schema.const) }];
  const list = schema.oneOf ?? schema.anyOf;
  if (
    Array.isArray(list) &&
    list.length &&
    list.every((each) => isObject(each) && Object.hasOwn(each, "const"))
  ) {
    return list.map((each) => ({ value: each.const, label: asText(each.title ?? each.const) }));
  }
  return null;
}

function asText(value) {
  return typeof value === "string" ? value : stringify(value);
}

/** The meaning of a typed text for a scalar of this kind: `{value}`, or `{mistake}`. */
export function read(kind, text) {
  switch (kind) {
    case "text":
      return { value: text };
    case "integer":
      return /^-?(0|[1-9]\d*)$/.test(text.trim())
        ? { value: parse(text) }
        : { mistake: "This is not a whole number." };
    case "number":
      try {
        const value = parse(text);
        if (isA("number", value)) return { value };
      } catch {
        // reported as a mistake below
      }
      return { mistake: "This is not a number. Write it like 12, -0.5 or 1e6." };
    case "boolean":
      return { value: text === "true" };
    default:
      try {
        return { value: parse(text) };
      } catch (error) {
        return { mistake: `This is not JSON: ${error.message}` };
      }
  }
}

/** The value with a person's changes. `changed(field)` is undefined for an untouched field, else `{value}` or
 * `{gone: true}`. Unchanged parts of the result are the identical values. */
export function rebuild(field, changed) {
  if (field.kind !== "object") {
    const own = changed(field);
    if (!own) return field.value;
    if (own.gone) return undefined;
    return field.value !== undefined && equal(field.value, own.value) ? field.value : own.value;
  }
  const own = changed(field);
  if (own) return own.value;
  const entries = field.fields.map((inner) => [inner, rebuild(inner, changed)]);
  if (entries.every(([inner, value]) => value === inner.value)) return field.value;
  return Object.fromEntries(
    entries.filter(([, value]) => value !== undefined).map(([inner, value]) => [inner.name, value]),
  );
}

/** The server's mistakes (`path: text`) by field: a Map from path, "" for the whole. A value can break
 * several rules at once, such as its type and a list of choices: only the type is told, or else the first. */
export function placeMistakes(mistakes, paths) {
  const placed = new Map();
  const longest = [...paths].sort((a, b) => b.length - a.length);
  for (const mistake of mistakes) {
    const missing = /^(?:([^:]*): )?'([^']+)' is a required property/.exec(mistake);
    const named = missing ? [missing[1], missing[2]].filter(Boolean).join(".") : "";
    const fits = (path) =>
      path && (path === named || mistake.startsWith(`${path}:`) || mistake.startsWith(`${path}.`));
    const path = longest.find(fits) ?? "";
    const text =
      missing && path === named
        ? "A value is needed here."
        : path
          ? mistake.replace(`${path}: `, "")
          : mistake;
    placed.set(path, [...(placed.get(path) ?? []), text]);
  }
  for (const [path, texts] of placed)
    if (path) placed.set(path, [texts.find((text) => text.includes("is not of type")) ?? texts[0]]);
  return placed;
}

/** The type of a value, in two words at most. */
export function typeLabel(schema, value) {
  const { type: shape } = simplified(schema, schema);
  const options = shape && optionsOf(shape);
  if (options) return options.length === 1 ? "fixed" : `one of ${options.length}`;
  const type = shape?.type ?? typeOf(value);
  const words = {
    string: "text",
    integer: "whole number",
    number: "number",
    boolean: "yes or no",
    array: "list",
    object: "object",
  };
  return (
    (shape?.type === "string" &&
      { date: "date", "date-time": "time", email: "address", uri: "address" }[shape.format]) ||
    words[type] ||
    ""
  );
}

function typeOf(value) {
  if (Array.isArray(value)) return "array";
  if (value instanceof Exact) return "number";
  return value === null ? "null" : typeof value;
}
