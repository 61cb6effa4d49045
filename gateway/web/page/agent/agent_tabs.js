// The links between the pages about the agent.

import { h } from "../core/dom.js";

const PAGES = [
  ["", "#/agent", "Overview"],
  ["policy", "#/agent/policy", "Policy"],
];

export function agentTabs(current) {
  const links = PAGES.map(([name, href, text]) =>
    h("a", { class: "btn quiet", href, "aria-current": name === current ? "page" : null }, text));
  return h("nav", { class: "row agent-tabs", "aria-label": "About the agent" }, links);
}
