// Characters that hide or reorder others are spelt out.

import assert from "node:assert/strict";
import test from "node:test";

import { shorten, visible } from "../../../gateway/web/page/text.js";

test("marks of direction, and what cannot be seen", () => {
  assert.equal(visible("report\u202efdp.exe"), "report\\u{202e}fdp.exe");
  assert.equal(visible("a\u200bb\u2066c\ufeff\u00ad"), "a\\u{200b}b\\u{2066}c\\u{feff}\\u{ad}");
  assert.equal(visible("\u0000\u001b[31m\u007f"), "\\u{0}\\u{1b}[31m\\u{7f}");
  assert.equal(visible("\u{e0041}"), "\\u{e0041}");
});

test("ordinary text of all languages stays", () => {
  const text = "Grüße, 漢字, עברית, tab\tand\nline";
  assert.equal(visible(text), text);
});

test("what is shortened keeps whole characters", () => {
  assert.equal(shorten("abc", 3), "abc");
  assert.equal(shorten("abcd", 3).length, 3);
  assert.ok(!/[\ud800-\udbff]…$/.test(shorten("ab😀cd", 4)));
});
