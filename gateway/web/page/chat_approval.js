// An approval in the flow of the chat: a pending one is a card at once, others become one when they come
// into view.

import { approvalCard } from "./approval_card.js";
import { h, icon } from "./dom.js";
import { visible } from "./text.js";
import { timeElement } from "./times.js";

const WORDS = { void: "Withdrawn", expired: "Expired" };

export function approvalEntry(item, context, scroll) {
  const element = h("div", { class: "approval-entry" });
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
    update: () => card?.refresh?.(),
    close() {
      seen?.disconnect();
      card?.close?.();
    },
  };
}

function line(item) {
  const yes = item.decision?.approved,
    action = item.decision?.action;
  const word = WORDS[item.state] ?? action ?? (yes === false ? "Rejected" : "Approved");
  return h(
    "p",
    { class: "ends" },
    icon(yes === false ? "x" : "check"),
    word,
    " ",
    h("code", {}, visible(item.tool || "a question")),
    timeElement(item.at),
  );
}
