// The top of a card: the asking node, the time since, and the time left. The clock only changes text,
// which assistive technology does not announce.

import { askingAgent, timeLeft } from "./approval_text.js";
import { h, svg } from "../core/dom.js";
import { shorten, visible } from "../core/text.js";
import { duration, timeElement } from "../core/times.js";

const AROUND = 2 * Math.PI * 5;

/** Pieces of a heading as nodes. */
export function pieces(parts) {
  return parts.map((part) => (typeof part === "string" ? visible(part) : h("code", {}, visible(part.code))));
}

/** The time left, counted down: `{element, stop()}`. `over` is called when it has run out, `second` each
 * second. */
export function expiry(approval, over, second) {
  if (!approval.expires_at) {
    const timer = setInterval(second, 1000);
    return {
      element: h("span", { class: "expiry none" }, "does not expire"),
      stop: () => clearInterval(timer),
    };
  }
  const end = Date.parse(approval.expires_at);
  const whole = Math.max(1, end - Date.parse(approval.created_at));
  const ring = svg("circle", { cx: 7, cy: 7, r: 5 });
  const clock = svg(
    "svg",
    { class: "clock", viewBox: "0 0 14 14", "aria-hidden": "true" },
    svg("circle", { class: "rest", cx: 7, cy: 7, r: 5 }),
    ring,
  );
  const text = h("span", {});
  const element = h(
    "span",
    { class: "expiry", title: `${approval.expires_at.slice(0, 19).replace("T", " ")} UTC` },
    clock,
    text,
  );
  const tick = () => {
    second();
    const left = end - Date.now();
    text.textContent = left > 0 ? `expires in ${timeLeft(left)}` : "expires now";
    ring.setAttribute("stroke-dasharray", `${Math.max(0, Math.min(1, left / whole)) * AROUND} ${AROUND}`);
    if (left < -1000 && tick.told !== Math.floor(left / 5000)) {
      tick.told = Math.floor(left / 5000); // the agent needs a moment to see it
      over();
    }
  };
  tick();
  const timer = setInterval(tick, 1000);
  return { element, stop: () => clearInterval(timer) };
}

/** "Asked by NODE in CONVERSATION, TIME, waits 4 m": `{element, tick()}`. */
export function waited(approval, extra, inChat) {
  const address = `#/conversations/${encodeURIComponent(approval.conversation_id)}`;
  const by = ["Asked"];
  const agent = approval.kind === "proxy" ? askingAgent(approval) : null;
  if (agent) by.push(" by ", h("b", {}, visible(agent)));
  if (approval.node && approval.node !== agent)
    by.push(agent ? ", called by " : " by ", h("b", {}, visible(approval.node)));
  if (approval.kind === "elicitation") by.push(" during ", h("code", {}, visible(approval.tool_name)));
  const title = extra?.conversation_title
    ? visible(shorten(extra.conversation_title, 60))
    : "this conversation";
  if (inChat) by.push(", ");
  else by.push(" in ", h("a", { href: address }, title), ", ");
  const since = h("span", {});
  const tick = () => {
    const seconds = Math.floor((Date.now() - Date.parse(approval.created_at)) / 1000);
    since.textContent = `waits ${seconds < 10 ? `${Math.max(1, seconds)} s` : duration(seconds)}`;
  };
  tick();
  by.push(timeElement(approval.created_at), ", ", since);
  if (inChat)
    by.push(
      " · ",
      h("a", { href: `#/approvals/${encodeURIComponent(approval.uuid)}` }, "Open in the inbox"),
    );
  return { element: h("p", { class: "by" }, by), tick };
}
