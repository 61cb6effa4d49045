// Arguments that go through the form: what is not touched stays the same, to the last digit.

import assert from "node:assert/strict";
import test from "node:test";

const page = new URL("../../../gateway/web/page/", import.meta.url);
const { compare, countValues, differences } = await import(new URL("approval/argument_diff.js", page));
const { fieldsOf, placeMistakes, read, rebuild, typeLabel } = await import(
  new URL("approval/argument_fields.js", page)
);
const { equal, parse, stringify } = await import(new URL("core/exact_json.js", page));

const SCHEMA = {
  type: "object",
  required: ["service", "change_id", "strategy"],
  properties: {
    service: { type: "string" },
    environment: { enum: ["staging", "production"] },
    change_id: { type: "integer" },
    ratio: { type: "number" },
    dry: { type: "boolean" },
    steps: { type: "array", items: { type: "integer" } },
    strategy: { $ref: "#/$defs/Strategy" },
    note: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
    free: { type: "object" },
    pair: { type: "array", prefixItems: [{ type: "string" }] },
    either: { oneOf: [{ type: "string" }, { type: "integer" }] },
  },
  $defs: {
    Strategy: { type: "object", properties: { kind: { const: "canary" }, pause: { type: "number" } } },
  },
};

const TEXT =
  '{"service":"exporter","environment":"staging","change_id":9007199254740993,"ratio":1.0,"dry":false,' +
  '"steps":[5,25,18446744073709551616],"strategy":{"kind":"canary","pause":1e2},"note":null,' +
  '"free":{"a":[1,{"b":2}]},"pair":["x",1],"either":3,"unknown":"kept"}';

const kinds = (field) => Object.fromEntries(field.fields.map((each) => [each.name, each.kind]));
const at = (field, ...path) =>
  path.reduce((found, name) => found.fields.find((each) => each.name === name), field);
const changing = (field, value) => (each) => (each === field ? value : undefined);

test("a form has a field for what it can express, and JSON for the rest", () => {
  assert.deepEqual(kinds(fieldsOf(SCHEMA, parse(TEXT))), {
    service: "text",
    environment: "choice",
    change_id: "integer",
    ratio: "number",
    dry: "boolean",
    steps: "list",
    strategy: "object",
    note: "text",
    free: "json",
    pair: "json",
    either: "json",
    unknown: "json",
  });
});

test("without a change, the result is the very same value", () => {
  const value = parse(TEXT);
  assert.equal(
    rebuild(fieldsOf(SCHEMA, value), () => undefined),
    value,
  );
  assert.equal(stringify(value), TEXT);
});

test("a change leaves all other values as they were, byte for byte", () => {
  const value = parse(TEXT);
  const form = fieldsOf(SCHEMA, value);
  const made = rebuild(form, changing(at(form, "strategy", "pause"), read("number", "250")));
  assert.equal(stringify(made), TEXT.replace("1e2", "250"));
  assert.deepEqual(
    differences(value, made).map(({ path }) => path),
    [["strategy", "pause"]],
  );
});

test("a typed whole number keeps all its digits", () => {
  const form = fieldsOf(SCHEMA, parse(TEXT));
  const made = rebuild(form, changing(at(form, "change_id"), read("integer", "9007199254740995")));
  assert.equal(stringify(made), TEXT.replace("9007199254740993", "9007199254740995"));
});

test("typing the same again is no change", () => {
  const value = parse(TEXT);
  const form = fieldsOf(SCHEMA, value);
  assert.equal(rebuild(form, changing(at(form, "change_id"), read("integer", "9007199254740993"))), value);
  assert.equal(rebuild(form, changing(at(form, "free"), read("json", '{ "a": [1, {"b": 2}] }'))), value);
});

test("a value that does not fit its schema is edited as JSON", () => {
  const form = fieldsOf(
    SCHEMA,
    parse('{"service":5,"environment":"moon","steps":["x"],"strategy":null,"dry":"no"}'),
  );
  for (const name of ["service", "environment", "steps", "strategy", "dry"])
    assert.equal(kinds(form)[name], "json", name);
});

test("objects that are nested deeply are edited as JSON", () => {
  let schema = { type: "string" };
  let value = "x";
  for (let level = 0; level < 7; level += 1) {
    schema = { type: "object", properties: { inner: schema } };
    value = { inner: value };
  }
  let field = fieldsOf(schema, value);
  while (field.kind === "object") [field] = field.fields;
  assert.equal(field.kind, "json");
  assert.equal(field.path.length, 4);
});

test("a schema that refers to itself ends", () => {
  const schema = { $ref: "#/$defs/A", $defs: { A: { $ref: "#/$defs/A" } } };
  assert.equal(fieldsOf(schema, { a: 1 }).kind, "json");
});

test("names that objects have anyway are only names", () => {
  const value = parse('{"__proto__":{"x":1},"constructor":2,"service":"a"}');
  const form = fieldsOf(SCHEMA, value);
  const made = rebuild(form, changing(at(form, "service"), { value: "b" }));
  assert.equal(stringify(made), '{"__proto__":{"x":1},"constructor":2,"service":"b"}');
});

test("a value can be left out, and one be added", () => {
  const form = fieldsOf(SCHEMA, parse('{"service":"a","ratio":2}'));
  assert.equal(stringify(rebuild(form, changing(at(form, "ratio"), { gone: true }))), '{"service":"a"}');
  assert.equal(
    stringify(rebuild(form, changing(at(form, "dry"), { value: true }))),
    '{"service":"a","ratio":2,"dry":true}',
  );
});

test("texts that are no numbers are told", () => {
  for (const text of ["", "1.5", "0x10", "1e3", "01", "ten", "9 9"])
    assert.ok(read("integer", text).mistake, text);
  for (const text of ["", "1,5", ".5", "NaN", '"1"', "true"]) assert.ok(read("number", text).mistake, text);
  assert.equal(stringify(read("number", "1.50").value), "1.50");
  assert.ok(read("json", "{").mistake);
});

test("differences count new and lost values, and lists as a whole", () => {
  const found = differences(
    parse('{"a":[1,2],"b":1,"c":{"d":1}}'),
    parse('{"a":[1,3],"c":{"d":1.0},"e":null}'),
  );
  assert.deepEqual(
    found.map(({ path }) => path.join(".")),
    ["a", "b", "c.d", "e"],
  );
  assert.equal(found[1].after, undefined);
  assert.equal(countValues(parse('{"a":[1,2],"b":{"c":1,"d":{}}}')), 2);
});

test("numbers beyond 2^53 differ when their digits do", () => {
  assert.equal(differences(parse('{"id":9007199254740992}'), parse('{"id":9007199254740993}')).length, 1);
  assert.ok(equal(parse("9007199254740993"), parse("9007199254740993")));
});

test("several calls are compared by what differs", () => {
  const calls = [
    '{"t":"A","r":"fixed","n":{"c":1}}',
    '{"t":"B","r":"fixed","n":{"c":1}}',
    '{"t":"C","r":"dup"}',
  ].map(parse);
  const { same, columns, rows, usual } = compare(calls);
  assert.deepEqual(same, []);
  assert.deepEqual(columns, ["t", "r", "n.c"]);
  assert.equal(usual.get("r"), "fixed");
  assert.equal(usual.get("t"), undefined);
  assert.equal(rows[2].get("n.c"), undefined);
});

test("no value hides behind another one, whatever their names are", () => {
  const { same } = compare(['{"a.b":1,"a":{"b":2,"":3},"":4}'].map(parse));
  assert.deepEqual(same, [
    ['"a.b"', 1],
    ["a.b", 2],
    ['a.""', 3],
    ['""', 4],
  ]);
});

test("a schema that no sane server writes still makes a form", () => {
  const odd = parse(
    '{"type":"object","properties":{"a":{"$ref":"#/%zz"},"b":{"enum":[{"toString":1},null,["x"]],"enumNames":[{"toString":1}]},' +
      '"c":{"oneOf":[{"const":1,"title":{"toString":1}}]},"d":{"type":"constructor"},"e":7,"__proto__":{"type":"string"}}}',
  );
  const field = fieldsOf(odd, parse('{"a":1,"c":1,"__proto__":"x"}'), { asked: true });
  assert.deepEqual(field.fields.map(({ name }) => name).sort(), ["__proto__", "a", "b", "c", "d", "e"]);
  assert.equal(at(field, "b").options[0].label, '{"toString":1}');
  assert.equal(
    rebuild(field, () => undefined),
    field.value,
  );
});

test("the server's mistakes are put where they belong", () => {
  const placed = placeMistakes(
    [
      "strategy.pause: -5 is less than the minimum of 0",
      "'service' is a required property",
      "steps.1: 'x' is not of type 'integer'",
      "what?",
    ],
    ["service", "strategy.pause", "steps"],
  );
  assert.deepEqual([...placed.keys()], ["strategy.pause", "service", "steps", ""]);
});

test("one mistake has one message, and the description of a value is kept", () => {
  // What jsonschema says of 5 for {"enum": ["a"], "type": "string"}, and of "" for minLength and pattern.
  const texts = [
    "kind: 5 is not one of ['a']",
    "kind: 5 is not of type 'string'",
    "name: '' is too short",
    "name: '' does not match",
  ];
  const placed = placeMistakes(texts, ["kind", "name"]);
  assert.deepEqual(
    [...placed],
    [
      ["kind", ["5 is not of type 'string'"]],
      ["name", ["'' is too short"]],
    ],
  );
  const described = { description: "How fast." };
  for (const schema of [
    { type: "integer", ...described },
    { type: ["integer", "string"], ...described },
    { anyOf: [{ type: "integer", description: "inside" }, { type: "null" }], ...described },
    { type: "object", properties: { a: {} }, ...described },
  ])
    assert.equal(fieldsOf(schema, undefined).description, "How fast.");
  assert.equal(fieldsOf({ type: "string", description: { no: "text" } }, "").description, "");
});

test("types are named in plain words", () => {
  assert.equal(typeLabel({ type: "integer" }, 1), "whole number");
  assert.equal(typeLabel({ enum: ["a", "b", "c"] }, "a"), "one of 3");
  assert.equal(typeLabel(undefined, ["a"]), "list");
  assert.equal(typeLabel({ anyOf: [{ type: "boolean" }, { type: "null" }] }, null), "yes or no");
});
