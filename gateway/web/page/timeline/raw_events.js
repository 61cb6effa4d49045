// All events as they are stored: a list that draws only the rows in view, a filter by type, and a download.

import { h, icon } from "../core/dom.js";
import { stringify } from "../core/exact_json.js";
import { timeElement } from "../core/times.js";
import { jsonBlock } from "./value_block.js";
import { shorten, visible } from "../core/text.js";

const ROW = 28; // pixels; the same in timeline.css
const MARGIN = 12; // rows drawn above and below

export function rawEvents(feed) {
  const filter = h("select", { "aria-label": "Type of event", class: "field" }),
    tally = h("span", { class: "small muted", role: "status" });
  const save = h(
    "button",
    { class: "btn", type: "button", onclick: () => download(feed) },
    icon("down"),
    "Download",
  );
  const rows = h("div", { class: "event-rows", role: "list" }),
    list = h("div", { class: "event-list", tabindex: 0, role: "group", "aria-label": "Events" }, rows);
  const shown = h("div", { class: "event-shown", hidden: true });
  const element = h(
    "div",
    { class: "events" },
    h("div", { class: "row events-bar" }, filter, tally, save),
    list,
    shown,
  );
  const types = new Map();
  let counted = 0,
    found = [],
    foundIn = 0,
    chosen = null,
    end = true;

  function draw() {
    for (; counted < feed.events.length; counted += 1) {
      const { type } = feed.events[counted];
      types.set(type, (types.get(type) ?? 0) + 1);
    }
    drawFilter();
    for (; foundIn < feed.events.length; foundIn += 1) {
      if (!filter.value || feed.events[foundIn].type === filter.value) found.push(feed.events[foundIn]);
    }
    tally.textContent = filter.value
      ? `${found.length.toLocaleString()} of ${counted.toLocaleString()} events`
      : `${counted.toLocaleString()} events`;
    rows.style.height = `${found.length * ROW}px`;
    if (end) list.scrollTop = list.scrollHeight;
    drawRows();
  }

  function drawFilter() {
    const names = ["", ...[...types.keys()].sort()];
    names.forEach((name, index) => {
      const text = name ? `${name} (${types.get(name).toLocaleString()})` : "All types";
      let option = filter.options[index];
      if (option?.value !== name)
        filter.insertBefore((option = h("option", { value: name })), filter.options[index] ?? null);
      if (option.textContent !== text) option.textContent = text;
    });
  }

  function drawRows() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - MARGIN);
    const last = Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + MARGIN);
    const focused = document.activeElement?.dataset?.seq;
    const had = new Map([...rows.children].map((each) => [each.firstChild.dataset.seq, each]));
    rows.replaceChildren(
      ...found.slice(first, last).map((frame, index) => {
        const row = had.get(String(frame.seq)) ?? rowOf(frame);
        row.style.top = `${(first + index) * ROW}px`;
        row.setAttribute("aria-posinset", first + index + 1);
        row.setAttribute("aria-setsize", found.length);
        row.firstChild.setAttribute("aria-expanded", String(chosen === frame.seq));
        return row;
      }),
    );
    if (focused && !rows.contains(document.activeElement))
      rows.querySelector(`[data-seq="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  function rowOf(frame) {
    const start = Object.fromEntries(Object.entries(frame.body ?? {}).slice(0, 12));
    const text = shorten(stringify(start), 220);
    return h(
      "div",
      { role: "listitem", class: "event-row" },
      h(
        "button",
        {
          type: "button",
          class: "event",
          "data-seq": String(frame.seq),
          "aria-expanded": "false",
          onclick: () => choose(frame),
        },
        h("span", { class: "num faint" }, String(frame.seq)),
        timeElement(frame.at),
        h("span", { class: `mono ellipsis ${toneOf(frame)}` }, frame.type),
        h("span", { class: "mono faint ellipsis" }, visible(text)),
      ),
    );
  }

  function choose(frame) {
    chosen = chosen === frame.seq ? null : frame.seq;
    shown.hidden = chosen === null;
    const shut = h(
      "button",
      { class: "btn quiet icon", type: "button", "aria-label": "Close event", onclick: () => choose(frame) },
      icon("x"),
    );
    if (chosen !== null) {
      shown.replaceChildren(
        h("div", { class: "row" }, h("h2", { class: "mono grow" }, `${frame.seq} ${frame.type}`), shut),
        jsonBlock(frame),
      );
    }
    drawRows();
  }

  filter.addEventListener("change", () => {
    [found, foundIn, end] = [[], 0, false];
    list.scrollTop = 0;
    draw();
  });
  list.addEventListener(
    "scroll",
    () => {
      end = list.scrollTop + list.clientHeight >= list.scrollHeight - ROW;
      drawRows();
    },
    { passive: true },
  );
  return { element, draw };
}

function toneOf({ type, body }) {
  if (body?.error || body?.result?.is_error || ["run.failed", "tool.unknown"].includes(type)) return "is-bad";
  return type === "approval.requested" || type === "run.waiting" ? "is-wait" : "";
}

/** The events as JSON Lines. Pure. */
export function jsonLines(events) {
  return events.map((frame) => `${stringify(frame)}\n`).join("");
}

function download(feed) {
  const address = URL.createObjectURL(new Blob([jsonLines(feed.events)], { type: "application/jsonl" }));
  const link = h("a", { href: address, download: `conversation-${feed.id}.jsonl` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
