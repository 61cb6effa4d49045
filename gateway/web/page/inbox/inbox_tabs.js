// The tabs of the inbox: one for each state of approvals.

import { h } from "../core/dom.js";

export const STATES = { pending: "Pending", decided: "Decided", expired: "Expired", void: "Void" };

/** `{element, show(state, waiting)}`; `choose` gets the state of the tab that a person chooses. */
export function stateTabs(choose) {
  const element = h("div", { class: "tabs", role: "tablist", "aria-label": "State" });
  const names = Object.keys(STATES);
  const onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(names[(tabs.findIndex(({ tab }) => tab === event.target) + step + names.length) % names.length]);
    element.querySelector("[aria-selected=true]").focus();
  };
  const tabs = names.map((state) => {
    const count = h("span", { class: "count wait", hidden: true });
    const onclick = () => choose(state);
    const tab = h("button", {
      role: "tab",
      type: "button",
      "aria-controls": "inbox-body",
      onclick,
      onkeydown,
    });
    tab.append(STATES[state], count);
    element.append(tab);
    return { state, tab, count };
  });
  const show = (chosen, waiting) => {
    for (const { state, tab, count } of tabs) {
      tab.setAttribute("aria-selected", String(state === chosen));
      tab.tabIndex = state === chosen ? 0 : -1;
      count.hidden = state !== "pending" || !waiting;
      count.textContent = waiting.toLocaleString();
    }
  };
  return { element, show };
}
