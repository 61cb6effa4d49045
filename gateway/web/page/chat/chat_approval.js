// Approvals in the chat: a card for each that is pending, and one card with a table for many of one tool that
// wait together. One of the past is a line that becomes a card once it is in view.

import { approvalCard } from "../approval/approval_card.js";
import { standing, summary, TOGETHER, toneOf } from "../approval/approval_text.js";
import { bulk } from "../approval/bulk.js";
import { h, icon } from "../core/dom.js";
import { plural, visible } from "../core/text.js";
import { timeElement } from "../core/times.js";

/** `item`: an approval of a ChatLog, with those that were asked while it waited. */
export function approvalEntry(item, context, scroll) {
  const element = h("div", { class: "approval-entry" });
  const single = new Map(); // entries by uuid
  let together = null;
  const all = () => [item, ...item.more];

  function update() {
    if (together) return together.update();
    const waits = all().some(({ state }) => state === "pending");
    const many = all().length >= TOGETHER && !element.contains(document.activeElement);
    if (many) {
      closeSingle();
      if (waits) together = waiting(all, context);
      return element.replaceChildren(together?.element ?? past(all()));
    }
    for (const one of all()) {
      if (single.has(one.uuid)) single.get(one.uuid).update();
      else {
        single.set(one.uuid, entry(one, context, scroll));
        element.append(single.get(one.uuid).element);
      }
    }
  }

  function closeSingle() {
    for (const each of single.values()) each.close();
    single.clear();
  }

  update();
  return {
    element,
    update,
    close() {
      closeSingle();
      together?.close();
    },
  };
}

/** The card of many. The pending ones are those of the store, which is current; the rest is in the events. */
function waiting(all, { approvals, announce }) {
  const now = () => {
    const stored = new Map(approvals.pending.map((each) => [each.uuid, each]));
    return all()
      .map((one) => (one.state === "pending" ? stored.get(one.uuid) : approvalOf(one)))
      .filter(Boolean);
  };
  const element = h(
    "div",
    {},
    h("div", { class: "skeleton", "aria-hidden": "true" }, h("i"), h("i"), h("i")),
  );
  let card = null;
  function update() {
    const known = now();
    if (card) card.update(known);
    else if (known.length) {
      card = bulk(known, { announce });
      element.replaceChildren(card.element);
    }
  }
  approvals.addEventListener("change", update);
  update();
  return {
    element,
    update,
    close() {
      approvals.removeEventListener("change", update);
      card?.close();
    },
  };
}

/** An approval as `GET /approvals/{uuid}` tells it, from its events. */
const approvalOf = ({ uuid, at, state, decision, body }) => ({
  created_at: at,
  ...body,
  uuid,
  state,
  decision,
});

/** Many that were decided, in one line that opens. */
function past(all) {
  const words = new Map();
  for (const one of all) {
    const word = standing(one);
    words.set(word, (words.get(word) ?? 0) + 1);
  }
  const sum = [...words]
    .map(([word, number]) => `${number.toLocaleString()} ${word.toLowerCase()}`)
    .join(", ");
  const [first] = all;
  const lines = all.map((one) =>
    h(
      "li",
      { class: "ends" },
      icon(signOf(one)),
      h("a", { href: `#/approvals/${encodeURIComponent(one.uuid)}` }, visible(summary(approvalOf(one)))),
      standing(one),
    ),
  );
  return h(
    "details",
    { class: "past" },
    h(
      "summary",
      { class: "ends" },
      icon("chev", "chev"),
      plural(all.length, "approval"),
      " of ",
      h("code", {}, visible(first.tool)),
      `: ${sum}`,
      timeElement(first.at),
    ),
    h("ul", { class: "stack" }, lines),
  );
}

const signOf = (one) => (one.state === "expired" ? "clock" : toneOf(one) === "good" ? "check" : "x");

function entry(item, context, scroll) {
  const element = h("div", {});
  let card = null,
    seen = null;

  function show() {
    if (card) return;
    card = approvalCard(item.uuid, context, { inChat: true });
    element.replaceChildren(card.element);
  }

  if (item.state === "pending") show();
  else {
    element.append(line(item));
    seen = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        seen.disconnect();
        show();
      },
      { root: scroll, rootMargin: "400px" },
    );
    seen.observe(element);
  }
  return {
    element,
    update: () => card?.refresh(),
    close() {
      seen?.disconnect();
      card?.close();
    },
  };
}

function line(item) {
  return h(
    "p",
    { class: "ends" },
    icon(signOf(item)),
    standing(item),
    " ",
    h("code", {}, visible(item.tool || "a question")),
    timeElement(item.at),
  );
}
