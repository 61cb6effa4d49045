// A divider between two panes of a row: it moves with the mouse, a finger or the keys, and stays where it was
// put. The share of the first pane, in percent, is kept in the browser under `name`, and set as the property
// `--share` of the row, whose columns use it. Enter and a double click return to the original share.

import { h } from "./dom.js";
import { browser } from "./storage.js";

const STEP = 2; // percent, for an arrow key
const KEYS = { ArrowLeft: -STEP, ArrowRight: STEP, PageUp: -5 * STEP, PageDown: 5 * STEP };

/** The least and the most percent of the first pane in a row of `width` pixels, so that each pane has its
 * smallest width. Equal if there is no room to move. Pure. */
export function limitsOf(width, [first, second]) {
  const least = Math.ceil((100 * first) / width),
    most = Math.floor((100 * (width - second)) / width);
  return least < most ? [least, most] : [50, 50];
}

/** `row`: the element with both panes; `least`: their smallest widths in pixels. Returns `{element,
 * close()}`; the element belongs between the panes. */
export function divider(row, { name, label, controls, least }) {
  const place = `stopgo.divider.${name}`;
  const element = h("div", {
    class: "divider",
    role: "separator",
    tabindex: "0",
    title: "Drag, or use the arrow keys. A double click or Enter resets it.",
    "aria-orientation": "vertical",
    "aria-label": label,
    "aria-controls": controls,
    onpointerdown: begin,
    onpointermove: move,
    onpointerup: end,
    onpointercancel: end,
    ondblclick: reset,
    onkeydown: key,
  });
  let share = Number(browser.get(place)) || null; // null: that of the style sheet
  let held = null; // pixels from the pointer to the divider while it is dragged

  const limits = () => limitsOf(row.clientWidth || 1, least);
  const shown = () => (100 * (element.getBoundingClientRect().left - left())) / (row.clientWidth || 1);
  const left = () => row.getBoundingClientRect().left;

  function draw() {
    const [low, high] = limits();
    if (share === null) row.style.removeProperty("--share");
    else row.style.setProperty("--share", `${Math.min(high, Math.max(low, share))}%`);
    const now = { valuemin: low, valuemax: high, valuenow: Math.round(shown()) };
    for (const [part, value] of Object.entries(now)) element.setAttribute(`aria-${part}`, value);
    element.setAttribute("aria-valuetext", `${now.valuenow} %`);
  }

  /** Moves it within the limits. */
  function set(wanted) {
    const [low, high] = limits();
    share = Math.min(high, Math.max(low, wanted));
    draw();
  }

  function keep() {
    if (share === null) browser.remove(place);
    else browser.set(place, String(Math.round(share * 10) / 10));
  }

  function reset() {
    share = null;
    draw();
    keep();
  }

  function begin(event) {
    if (event.button) return;
    held = element.getBoundingClientRect().left - event.clientX;
    element.setPointerCapture(event.pointerId);
    row.classList.add("divided");
  }

  function move(event) {
    if (held !== null) set((100 * (event.clientX + held - left())) / row.clientWidth);
  }

  function end() {
    if (held === null) return;
    held = null;
    row.classList.remove("divided");
    keep();
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = limits();
    if (KEYS[event.key]) set(shown() + KEYS[event.key]);
    else if (event.key === "Home") set(low);
    else if (event.key === "End") set(high);
    else if (event.key === "Enter") reset();
    else return;
    event.preventDefault();
    keep();
  }

  const resized = new ResizeObserver(draw);
  resized.observe(row);
  return { element, close: () => resized.disconnect() };
}
