// Short parts of a card: the path of a question from another agent, and the replaced approval.

import { h, icon } from "../core/dom.js";
import { visible } from "../core/text.js";

export function path(approval, own) {
  const names = [own, ...(approval.path ?? [approval.remote_agent_name])].filter(Boolean);
  const nodes = names.map((name, index) => [
    index ? h("li", { "aria-hidden": "true" }, icon("hop")) : null,
    h("li", { class: "agent" }, index === names.length - 1 ? h("b", {}, visible(name)) : visible(name)),
  ]);
  return h("ol", { class: "path", "aria-label": "From this agent to the one that asks" }, nodes);
}

export function replaced(approval) {
  const link = h(
    "a",
    { href: `#/approvals/${encodeURIComponent(approval.replaces)}` },
    "an earlier question",
  );
  return h("p", { class: "small muted" }, "This takes the place of ", link, ".");
}
