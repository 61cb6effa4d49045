// A block of code or text with its tools: a button that copies it, and one that shows it in the wide view.

import { copyButton } from "./copy_button.js";
import { h, icon } from "./dom.js";
import { openWide } from "./wide_view.js";

/** `pre` in a box with its tools. `text`: what is copied; `wide`: its form in the wide view. */
export function codeBox(pre, text, wide = text) {
  const open = h(
    "button",
    {
      class: "btn quiet icon",
      type: "button",
      "aria-label": "Wide view",
      title: "Wide view",
      onclick: () => openWide(titleOf(pre), text, wide),
    },
    icon("wide"),
  );
  return h("div", { class: "code-box" }, pre, h("div", { class: "code-tools" }, copyButton(text, pre), open));
}

/** The name of a block, or the nearest label or heading above it. */
function titleOf(pre) {
  if (pre.ariaLabel) return pre.ariaLabel;
  for (let at = pre.parentElement; at && at.localName !== "main"; at = at.parentElement) {
    const found = at.querySelector(":scope > .label, :scope > h2, :scope > h3, :scope > .row > :is(h2, h3)");
    if (found) return found.textContent;
  }
  return "Text";
}
