// The keys of the page. None acts while a text field has the focus, and none decides anything by itself.

import { h, icon } from "../core/dom.js";

const HELP = [
  ["N", "New conversation"],
  ["/", "Search conversations"],
  ["J", "Next in the list"],
  ["K", "Previous in the list"],
  ["Enter", "Open what has the focus"],
  ["X", "Select, in the inbox"],
  ["A", "Go to Approve"],
  ["E", "Go to Approve with changes"],
  ["R", "Go to Reject"],
  ["Esc", "Back, or close"],
  ["?", "Show these keys"],
];

/** Whether typing goes into this element. */
function textField(element) {
  if (element?.isContentEditable) return true;
  if (element?.localName === "input")
    return !["checkbox", "radio", "button", "submit"].includes(element.type);
  return element?.localName === "textarea" || element?.localName === "select";
}

/** `viewKeys` has the keys of the current view, which come before those of the page. */
export function onKeys(context, viewKeys) {
  const help = helpPanel();
  const page = {
    n: () => context.navigate("#/"),
    "/": () => context.side.search(),
    "?": () => help.toggle(),
    j: () => context.side.move(1),
    k: () => context.side.move(-1),
    a: () => focusButton("Approve"),
    e: () => focusButton("Approve with changes"),
    r: () => focusButton("Reject"),
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (textField(event.target)) {
      // Leaves the text field, because no shortcut acts while it has the focus.
      if (event.key === "Escape" && !event.isComposing) document.getElementById("main").focus();
      return;
    }
    if (event.key === "Escape" && help.close()) return;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const keys = viewKeys();
    const act = keys[event.key] ?? keys[name] ?? keys[name.toUpperCase()] ?? page[name];
    if (act && act(event) !== false) event.preventDefault();
  });
}

/** The first button of this accessible name that is on the page, or false. */
function focusButton(name) {
  const found = [...document.querySelectorAll("main button:not([disabled])")].find(
    (button) => button.offsetParent && (button.getAttribute("aria-label") ?? words(button)) === name,
  );
  if (!found) return false;
  found.scrollIntoView({ block: "nearest" });
  found.focus();
}

const words = (button) =>
  [...button.childNodes]
    .filter((node) => !/^kbd$/i.test(node.nodeName))
    .map((node) => node.textContent)
    .join("")
    .trim();

function helpPanel() {
  const close = h(
    "button",
    { class: "btn quiet icon", type: "button", "aria-label": "Close", onclick: () => shut() },
    icon("x"),
  );
  const panel = h(
    "section",
    { class: "help block", "aria-labelledby": "help-title", hidden: true },
    h("header", { class: "row" }, h("h2", { class: "grow", id: "help-title" }, "Keys"), close),
    h(
      "dl",
      {},
      HELP.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
    ),
    h(
      "p",
      { class: "small faint" },
      "No key acts while you type. A, E and R only move the focus; Enter presses the button.",
    ),
  );
  document.body.append(panel);
  let before = null;
  function shut() {
    if (panel.hidden) return false;
    panel.hidden = true;
    before?.focus?.();
    return true;
  }
  return {
    close: shut,
    toggle() {
      if (shut()) return;
      before = document.activeElement;
      panel.hidden = false;
      close.focus();
    },
  };
}
