// Texts that would deceive, and what a call says in one line.

import assert from "node:assert/strict";
import { test } from "node:test";

import { argumentsLine, callState, callSummary } from "../../../gateway/web/page/timeline/call_text.js";
import { parse } from "../../../gateway/web/page/core/exact_json.js";
import { allowed } from "../../../gateway/web/page/core/markdown.js";
import { plural, shorten, visible } from "../../../gateway/web/page/core/text.js";

test("what hides or reorders text is shown as an escape", () => {
  assert.equal(
    visible("a\u202eb\u200bc\u2066d\ufeff\u0007"),
    "a\\u{202e}b\\u{200b}c\\u{2066}d\\u{feff}\\u{7}",
  );
  assert.equal(visible("\u{e0041}\ud800"), "\\u{e0041}\\u{d800}");
  assert.equal(visible("a\ufe0f ❤️ é 日本 שלום 😀\tx\n"), "a\\u{fe0f} ❤️ é 日本 שלום 😀\tx\n");
});

test("a text is cut between characters", () => {
  assert.equal(shorten("ab😀cd", 4), "ab…");
  assert.equal(shorten("abcd", 4), "abcd");
  assert.equal(plural(1, "approval"), "1 approval");
  assert.equal(plural(2, "approval"), "2 approvals");
});

test("a call is told in one line, and large numbers keep their digits", () => {
  const value = parse('{"name": "lamp", "value": 9007199254740993, "more": {"a": [1.0]}}');
  assert.equal(argumentsLine(value), 'name: lamp, value: 9007199254740993, more: {"a":[1.0]}');
  assert.equal(callSummary({ state: "done", result: '{\n  "count": 0\n}' }), "count: 0");
  assert.equal(callSummary({ state: "failed", result: "no\n  way\u202e" }), "no way\\u{202e}");
  assert.equal(
    callSummary({ state: "running", arguments: {}, progress: { done: 1, total: 3, message: "halfway" } }),
    "33 %, halfway",
  );
  assert.equal(callState({ state: "cancelled", began: "x" }).word, "stopped");
});

test("links go only where a person may go", () => {
  for (const href of ["https://a.example", "http://a", "mailto:a@b.example"])
    assert.equal(allowed(href), true);
  for (const href of [
    "javascript:alert(1)",
    " javascript:x",
    "data:text/html,x",
    "//a.example",
    "/page",
    undefined,
  ])
    assert.equal(allowed(href), false);
});
