// Texts to read: results, their wide view and its search; the order of conversations; the divider.

import assert from "node:assert/strict";
import test from "node:test";

import { held, ordered } from "../../../gateway/web/page/shell/conversation_order.js";
import { limitsOf } from "../../../gateway/web/page/core/divider.js";
import { gathered } from "../../../gateway/web/page/inbox/inbox_filters.js";
import { jsonText, resultParts } from "../../../gateway/web/page/timeline/value_block.js";
import { placesOf } from "../../../gateway/web/page/core/wide_view.js";

test("the texts of JSON have their line breaks in the wide view alone", () => {
  const value = { log: 'one\r\ntwo "three"\nfour', path: "C:\\new\\table", list: ["a\nb"] };
  assert.equal(jsonText(value).split("\n").length, 5);
  assert.deepEqual(jsonText(value, { breaks: true }).split("\n"), [
    "{",
    '  "log": "one',
    'two \\"three\\"',
    'four",',
    '  "path": "C:\\\\new\\\\table",',
    '  "list": [',
    '    "a',
    'b"',
    "  ]",
    "}",
  ]);
});

// Servers repeat structured content as text, which MCP asks for ("Structured Content" in its page on tools); FastMCP
// wraps a value that is no object as {"result": value}.
for (const [what, result, wanted] of [
  ["a text", { content: "a\nb" }, { text: "a\nb", data: undefined }],
  [
    "a text in a wrapper",
    { content: "a\nb", structured: { result: "a\nb" } },
    { text: "a\nb", data: undefined },
  ],
  ["a number in a wrapper", { content: "5", structured: { result: 5 } }, { text: "5", data: undefined }],
  ["the data as text", { content: '{"b": 1}', structured: { b: 1 } }, { text: '{"b": 1}', data: undefined }],
  ["data alone", { content: "", structured: { b: 1 } }, { text: undefined, data: { b: 1 } }],
  ["a text of its own", { content: "2 found", structured: { n: 2 } }, { text: "2 found", data: { n: 2 } }],
  [
    "data that were added",
    { content: '2 found\n{"n": 2}', structured: { n: 2 } },
    { text: "2 found", data: { n: 2 } },
  ],
  ["nothing", { content: undefined }, { text: undefined, data: undefined }],
])
  test(`a result is shown once: ${what}`, () => assert.deepEqual(resultParts(result), wanted));

test("a search finds words as they are, regardless of case, and no more than asked for", () => {
  const found = (text, words, most) => placesOf(text, words, most).map(([from, to]) => text.slice(from, to));
  assert.deepEqual(found("A.b a.B axb", "a.b"), ["A.b", "a.B"]);
  assert.deepEqual(found("GRÜSSE grüße", "grü"), ["GRÜ", "grü"]);
  assert.deepEqual(found("(*[\\^$.|?+-/]{1}", "[\\^$.|?+-/]{1}"), ["[\\^$.|?+-/]{1}"]);
  assert.deepEqual(found("aaaa", "a", 3).length, 3);
  assert.deepEqual(found("abc", ""), []);
});

const talk = (id, created, updated, run) => ({
  id,
  status: "active",
  created_at: `2026-01-0${created}T00:00:00Z`,
  updated_at: `2026-01-0${updated}T00:00:00.5Z`,
  run: run && { state: run },
});

test("conversations are in order of activity, those that wait for a person first", () => {
  const items = [
    talk("new", 5, 5),
    talk("token", 4, 4, "auth_required"),
    talk("old", 1, 7),
    talk("asks", 2, 2),
  ];
  const ids = (order) => ordered(items, order, (id) => (id === "asks" ? 3 : 0)).map(({ id }) => id);
  assert.deepEqual(ids("waiting"), ["token", "asks", "old", "new"]);
  assert.deepEqual(ids("activity"), ["old", "new", "token", "asks"]);
  assert.deepEqual(ids("created"), ["new", "token", "asks", "old"]);
});

test("a list under a pointer keeps its order, and takes in what is new", () => {
  const wanted = ["c", "new", "a", "b", "last"].map((id) => ({ id }));
  assert.deepEqual(
    held(wanted, ["a", "gone", "b", "c"]).map(({ id }) => id),
    ["a", "b", "last", "c", "new"],
  );
});

test("a divider leaves both panes their smallest width", () => {
  assert.deepEqual(limitsOf(1000, [360, 400]), [36, 60]);
  assert.deepEqual(limitsOf(700, [360, 400]), [50, 50]);
});

test("four of one tool in one conversation are one entry of the inbox, in the place of the first", () => {
  const ask = (uuid, tool_name, conversation_id = "c", kind = "tool") => {
    return { uuid, tool_name, conversation_id, kind, state: "pending", server: "s" };
  };
  const all = [ask("x", "other"), ..."1234".split("").map((id) => ask(id, "add")), ask("5", "add", "d")];
  all.push(ask("6", "add", "c", "outcome_unknown"));
  const entries = gathered(all);
  assert.deepEqual(
    entries.map(({ uuid, together }) => [uuid, together?.map((one) => one.uuid).join("")]),
    [
      ["x", undefined],
      ["1", "1234"],
      ["5", undefined],
      ["6", undefined],
    ],
  );
  assert.equal(gathered(all.slice(0, 4)).length, 4);
});
