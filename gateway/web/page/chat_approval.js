// An approval in the flow of the chat: a pending one is a card at once, others become one when they come into view.

import { h, icon } from "./dom.js";
import { visible } from "./text.js";
import { timeElement } from "./times.js";

const WORDS = { void: "Withdrawn", expired: "Expired" };

export function approvalEntry(item, context, scroll) {
  const element = h("div", { class: "approval-entry" });
  let card = null, seen = null, closed = false;

  async function show() {
    if (card || closed) return;
    card = {};
    try {
      const { approvalCard } = await import("./approval_card.js");
      if (closed) return;
      card = approvalCard(item.uuid, context, { inChat: true });
      element.replaceChildren(card.element);
    } catch (error) {
      console.error(error);
      element.replaceChildren(line(item, true));
    }
  }

  if (item.state === "pending") show();
  else {
    element.append(line(item));
    seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      show();
    }, { root: scroll, rootMargin: "400px" });
    seen.observe(element);
  }
  return {
    element,
    update: () => card?.refresh?.(),
    close() {
      closed = true;
      seen?.disconnect();
      card?.close?.();
    },
  };
}

function line(item, link = false) {
  const yes = item.decision?.approved, action = item.decision?.action;
  const word = WORDS[item.state] ?? (item.state === "pending" ? "Waits for you" : (action ?? (yes === false ? "Rejected" : "Approved")));
  const name = h("code", {}, visible(item.tool || "a question"));
  return h("p", { class: "ends" }, icon(item.state === "pending" ? "pause" : yes === false ? "x" : "check"), word, " ",
    link ? h("a", { href: `#/approvals/${encodeURIComponent(item.uuid)}` }, name) : name, timeElement(item.at));
}
