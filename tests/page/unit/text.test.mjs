// Characters that hide or reorder others are spelt out.

import assert from "node:assert/strict";
import test from "node:test";

import { shorten, visible } from "../../../gateway/web/page/core/text.js";

test("marks of direction, and what cannot be seen", () => {
  assert.equal(visible("report\u202efdp.exe"), "report\\u{202e}fdp.exe");
  assert.equal(visible("a\u200bb\u2066c\ufeff\u00ad"), "a\\u{200b}b\\u{2066}c\\u{feff}\\u{ad}");
  assert.equal(visible("\u0000\u001b[31m\u007f"), "\\u{0}\\u{1b}[31m\\u{7f}");
  assert.equal(visible("\u{e0041}"), "\\u{e0041}");
});

test("fillers and variation selectors, as in runtime/visible_text.py", () => {
  for (const hidden of "\u034f\u115f\u17b4\u180b\u2800\u3164\ufe00\ufe0f\uffa0\ufff0\u{e0100}\u{e01ef}") {
    assert.equal(visible(`acc${hidden}ount`), `acc\\u{${hidden.codePointAt(0).toString(16)}}ount`);
  }
  for (const shown of ["❤️", "⚠︎", "1️⃣", "‼️", "a\u00a0b"]) assert.equal(visible(shown), shown);
  assert.equal(visible("1\ufe0f00"), "1\\u{fe0f}00");
  assert.equal(visible("❤\ufe0f\ufe0f"), "❤\ufe0f\\u{fe0f}");
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
