// JSON that goes through the page comes out as it came in.

import assert from "node:assert/strict";
import test from "node:test";

import { equal, Exact, parse, stringify } from "../../../gateway/web/page/core/exact_json.js";

for (const text of [
  '{"id":9007199254740993,"ratio":1.0,"tiny":1e-7,"list":[1,-0,1E3,{"a":null}],"text":"\\u202e 9007199254740993"}',
  '{"__proto__":{"a":1},"constructor":2}',
  "[]",
  "{}",
  '"a\\"b\\\\"',
  "[true,false,null]",
]) {
  test(`as it was: ${text}`, () => {
    const made = stringify(parse(text));
    assert.ok(equal(parse(made), parse(text)));
    assert.deepEqual(JSON.parse(made), JSON.parse(text));
  });
}

test("numbers keep their digits", () => {
  const text = '{"id":9007199254740993,"ratio":1.0,"tiny":1e-7}';
  assert.equal(stringify(parse(text)), text);
  assert.ok(parse(text).id instanceof Exact);
});

test("a name of Object's own is a name like others", () => {
  const made = parse('{"__proto__":{"a":1}}');
  assert.deepEqual(Object.keys(made), ["__proto__"]);
  assert.equal({}.a, undefined);
});

test("numbers that differ beyond 2^53 are not the same", () => {
  assert.ok(!equal(parse("9007199254740993"), parse("9007199254740992")));
  assert.ok(equal(parse('{"a":1,"b":[2]}'), parse('{"b":[2],"a":1}')));
  assert.ok(!equal(parse('{"a":1}'), parse('{"a":1,"b":2}')));
});

test("what is not JSON is refused", () => {
  for (const text of ["", "{", "[1,]", "{a:1}", "01", "NaN"]) assert.throws(() => parse(text), SyntaxError);
});

test("indented text says the same", () => {
  const text = '{"a":[1,{"b":9007199254740993}],"c":{}}';
  assert.equal(stringify(parse(stringify(parse(text), 2))), text);
});

test("a number and a list of that number are not the same", () => {
  assert.ok(!equal(parse("1.0"), parse("[1.0]")));
  assert.ok(!equal(parse("[[1.0]]"), parse("[1.0]")));
});

test("a text of megabytes, and one that ends with backslashes", () => {
  assert.equal(parse(`{"a":"${"x".repeat(2e7)}"}`).a.length, 2e7);
  assert.deepEqual(parse('["\\\\","\\\\\\"",""]'), ["\\", '\\"', ""]);
});
