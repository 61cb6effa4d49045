// The wide view of a text: the whole window, monospace, wrapped or not, with a search.

import { copyButton } from "./copy_button.js";
import { h, icon } from "./dom.js";
import { browser } from "./storage.js";

const MOST = 2000; // places of a search that are marked
const WRAP = "stopgo.wrap";

/** The first `most` places of `words` in `text`, regardless of case, as `[start, end]`. Pure. */
export function placesOf(text, words, most = MOST) {
  const found = [];
  if (!words) return found;
  const pattern = new RegExp(words.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "giu");
  for (const each of text.matchAll(pattern)) {
    found.push([each.index, each.index + each[0].length]);
    if (found.length === most) break;
  }
  return found;
}

/** `text`: what is copied; `shown`: the form of it to read. Both have no hidden characters. */
export function openWide(title, text, shown = text) {
  const pre = h("pre", { class: "code", tabindex: "0", "aria-label": title }, shown);
  const words = h("input", {
    type: "search",
    placeholder: "Find in this text",
    "aria-label": "Find",
    oninput: find,
  });
  const tally = h("span", { class: "small muted nowrap", role: "status" });
  const wrap = h(
    "button",
    { class: "btn quiet", type: "button", onclick: () => setWrap(!isWrapped()) },
    "Wrap lines",
  );
  const dialog = h(
    "dialog",
    { class: "wide-view", "aria-label": title, onclose: () => dialog.remove() },
    h(
      "header",
      { class: "row" },
      h("h2", { class: "ellipsis grow" }, title),
      wrap,
      copyButton(text, pre),
      tool("Close", "x", () => dialog.close()),
    ),
    h(
      "div",
      { class: "row", role: "search" },
      words,
      tool("Previous place", "up", () => step(-1)),
      tool("Next place", "next", () => step(1)),
      tally,
    ),
    pre,
  );
  let marks = [],
    at = -1;

  const isWrapped = () => browser.get(WRAP) !== "no";
  function setWrap(on) {
    if (on) browser.remove(WRAP);
    else browser.set(WRAP, "no");
    pre.classList.toggle("wrap", on);
    wrap.setAttribute("aria-pressed", String(on));
  }

  function find() {
    const places = placesOf(shown, words.value);
    const parts = [];
    let end = 0;
    marks = places.map(([from, to]) => {
      const mark = h("mark", {}, shown.slice(from, to));
      parts.push(shown.slice(end, from), mark);
      end = to;
      return mark;
    });
    pre.replaceChildren(...parts, shown.slice(end));
    at = -1;
    if (marks.length) step(1);
    else tally.textContent = words.value ? "not found" : "";
  }

  function step(by) {
    if (!marks.length) return;
    marks[at]?.classList.remove("now");
    at = (at + by + marks.length) % marks.length;
    marks[at].classList.add("now");
    marks[at].scrollIntoView({ block: "center", inline: "nearest" });
    const of = marks.length.toLocaleString();
    tally.textContent = `${(at + 1).toLocaleString()} of ${of}${marks.length === MOST ? " or more" : ""}`;
  }

  words.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && words.value) {
      words.value = "";
      find();
    } else return;
    event.preventDefault();
  });
  // The keys of the page behind it do not act.
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  setWrap(isWrapped());
  document.body.append(dialog);
  dialog.showModal();
  pre.focus();
}

function tool(name, sign, onclick) {
  const attributes = { class: "btn quiet icon", type: "button", "aria-label": name, title: name, onclick };
  return h("button", attributes, icon(sign));
}
