// Texts that the browser does not keep.

import assert from "node:assert/strict";
import { test } from "node:test";

const kept = new Map();
globalThis.sessionStorage = {
  getItem: (name) => kept.get(name) ?? null,
  setItem(name, text) {
    if (text.length > 10) throw new DOMException("full", "QuotaExceededError");
    kept.set(name, text);
  },
  removeItem: (name) => kept.delete(name),
};
Object.defineProperty(globalThis, "localStorage", {
  get() {
    throw new DOMException("blocked", "SecurityError");
  },
});
const { browser, tab } = await import("../../../gateway/web/page/core/storage.js");

test("a text that is too long lasts as long as the page, and no older one comes back", () => {
  tab.set("draft", "short");
  tab.set("draft", "a long text");
  assert.equal(tab.get("draft"), "a long text");
  assert.equal(kept.size, 0);
  tab.set("draft", "short");
  assert.equal(tab.get("draft"), "short");
  tab.remove("draft");
  assert.equal(tab.get("draft"), null);
});

test("a browser that keeps nothing breaks nothing", () => {
  assert.equal(browser.get("name"), null);
  browser.set("name", "Mara");
  assert.equal(browser.get("name"), "Mara");
  browser.remove("name");
  assert.equal(browser.get("name"), null);
});
