// An approval in the chat: a card if it is pending, else a line that becomes a card once it is in view.

import { approvalCard } from "./approval_card.js";
import { standing, toneOf } from "./approval_text.js";
import { h, icon } from "./dom.js";
import { visible } from "./text.js";
import { timeElement } from "./times.js";

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
    update: () => card?.refresh(),
    close() {
      seen?.disconnect();
      card?.close();
    },
  };
}

function line(item) {
  const sign = item.state === "expired" ? "clock" : toneOf(item) === "good" ? "check" : "x";
  return h(
    "p",
    { class: "ends" },
    icon(sign),
    standing(item),
    " ",
    h("code", {}, visible(item.tool || "a question")),
    timeElement(item.at),
  );
}
