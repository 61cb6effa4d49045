// A reply of a node in the chat: its texts as they stream, and its tool calls.

import { fillMarkdown } from "../core/markdown.js";
import { h, icon } from "../core/dom.js";
import { callState, callSummary, took } from "../timeline/call_text.js";
import { visible } from "../core/text.js";
import { timeElement } from "../core/times.js";

export function replyView(item, { select, name }) {
  const status = h("span", { class: "writing" });
  const head = h("header", { class: "message-head" }, h("b", {}, visible(name || "agent")));
  const body = h("div", { class: "stack" });
  const parts = new Map();
  const element = h("article", { class: "message" }, head, body);

  function update() {
    if (item.at && !head.querySelector("time")) head.append(timeElement(item.at));
    const live = item.parts.some((part) => part.live);
    status.textContent = live ? "writing" : "";
    if (live) head.append(status);
    else status.remove();
    for (const part of item.parts) {
      if (!parts.has(part.id)) {
        parts.set(part.id, part.calls ? callsView(part, select) : textView(part, select));
        body.append(parts.get(part.id).element);
      }
      parts.get(part.id).update();
    }
  }
  update();
  return { element, update };
}

function textView(part, select) {
  const prose = h("div", { class: "prose" });
  const text = document.createTextNode("");
  const partial = h(
    "span",
    { class: "faint", title: "The beginning appears when the text is complete", hidden: true },
    "… ",
  );
  const live = h(
    "p",
    { class: "plain" },
    partial,
    text,
    h("span", { class: "caret", "aria-hidden": "true" }),
  );
  const error = h("button", {
    class: "call-failed",
    type: "button",
    hidden: true,
    onclick: () => select(part.id),
  });
  const element = h("div", {}, prose, error);
  let shown = null;
  return {
    element,
    update() {
      if (part.live) {
        if (!live.isConnected) prose.replaceChildren(live);
        if (part.text.startsWith(text.data))
          text.appendData(part.text.slice(text.data.length)); // only the new text is laid out
        else text.data = part.text;
        partial.hidden = !part.partial;
        return;
      }
      if (shown !== part.text) {
        shown = part.text;
        partial.remove();
        live.querySelector(".caret")?.remove();
        fillMarkdown(prose, part.text);
      }
      error.hidden = !part.error;
      if (part.error) error.replaceChildren(icon("x"), "The model call failed");
    },
  };
}

function callsView(part, select) {
  const element = h("div", { class: "calls" });
  const rows = new Map();
  return {
    element,
    update() {
      for (const [call, row] of rows) {
        if (part.calls.includes(call)) continue;
        row.element.remove();
        row.pictures.remove();
        rows.delete(call);
      }
      for (const call of part.calls) {
        if (!rows.has(call)) {
          rows.set(call, callRow(call, select));
          element.append(rows.get(call).element, rows.get(call).pictures);
        }
        rows.get(call).update();
      }
      element.hidden = !rows.size;
    },
  };
}

function callRow(call, select) {
  const sign = h("span", { class: "call-sign" }),
    name = h("span", { class: "call-name ellipsis" }),
    what = h("span", { class: "call-what ellipsis" });
  const word = h("span", { class: "call-word" }),
    time = h("span", { class: "call-took" });
  const element = h(
    "button",
    { class: "call", type: "button", onclick: () => select(call.key) },
    sign,
    name,
    what,
    word,
    time,
  );
  const pictures = h("div", { class: "call-pictures", hidden: true });
  let state = null;
  return {
    element,
    pictures,
    update() {
      const addresses = call.pictures ?? [];
      if (addresses.length !== pictures.children.length) {
        pictures.replaceChildren(
          ...addresses.map((src, index) =>
            h("img", { src, alt: `Picture ${index + 1} in the result of ${visible(call.tool || "tool")}` }),
          ),
        );
        pictures.hidden = !addresses.length;
      }
      const now = callState(call);
      if (now.word !== state) {
        state = now.word;
        sign.replaceChildren(icon(now.sign, `${now.tone}${now.moves ? " spin" : ""}`));
        word.textContent = now.word;
        word.className = `call-word ${now.tone}${now.quiet ? " visually-hidden" : ""}`;
      }
      name.textContent = visible(call.tool || "tool");
      what.textContent = callSummary(call);
      time.textContent = call.seconds === null ? "" : took(call.seconds);
    },
  };
}
