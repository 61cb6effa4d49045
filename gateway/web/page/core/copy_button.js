// A button that copies a text.
//
// What is copied is what is shown: a hidden character arrives as its escape, and never unseen in a terminal.

import { announce } from "./announce.js";
import { h, icon } from "./dom.js";

const TOLD = 1500; // milliseconds that the button says that it has copied

/** If the browser refuses, which it does without https, `shown` is selected. */
export function copyButton(text, shown) {
  const button = h(
    "button",
    { class: "btn quiet icon", type: "button", "aria-label": "Copy", title: "Copy", onclick: copy },
    icon("copy"),
  );
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      announce("Copied.");
      button.replaceChildren(icon("check", "is-good"));
      setTimeout(() => button.replaceChildren(icon("copy")), TOLD);
    } catch {
      getSelection().selectAllChildren(shown);
      announce("The browser did not allow copying. The text is selected: copy it with the keyboard.");
    }
  }
  return button;
}
