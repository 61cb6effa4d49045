// Short parts of a card: the path of a question from another agent, the replaced approval, and the channels
// that were told.

import { channelsTold } from "./approval_text.js";
import { h, icon } from "../core/dom.js";
import { visible } from "../core/text.js";
import { timeElement } from "../core/times.js";

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

/** "Told: ops 10:04 (3 times), lead: not yet"; null without notifications, of which `given` are all. */
export function told(given) {
  const lines = channelsTold(given).map(({ channel, times, at, waits }, index) => [
    `${index ? ", " : ""}${visible(channel)}`,
    times ? [" ", timeElement(at)] : `: ${waits ? "not yet" : "not reached"}`,
    times > 1 ? ` (${times} times)` : "",
  ]);
  return lines.length ? h("p", { class: "small muted" }, "Told: ", lines) : null;
}
