// The runs with failures first, and the sums over all conversations, as elements.

import { STATES } from "./agent_runs.js";
import { h } from "../core/dom.js";
import { ago, count, duration, money, timeElement } from "../core/times.js";
import { visible } from "../core/text.js";

const UNTITLED = "Without a title";
const HEADS = [
  ["Conversation", ""], ["State", ""], ["When", "num wide"], ["Tokens", "num wide"], ["Cost", "num"],
];

/** A row for each entry of `runs`. */
export function runTable(runs) {
  const heads = HEADS.map(([name, kind]) => h("th", { scope: "col", class: kind }, name));
  return h("div", { class: "block agent-wrap" },
    h("table", { class: "agent-table agent-runs" },
      h("thead", {}, h("tr", {}, heads)), h("tbody", {}, runs.map(row))));
}

function row(run) {
  const [tone, word] = STATES[run.state] ?? ["ring", visible(run.state)];
  const when = timeElement(run.at);
  when.textContent = ago(run.at);
  const link = h("a", { href: `#/conversations/${run.id}`, class: "ellipsis", "data-focus": run.id },
    visible(run.title) || UNTITLED);
  const cost = run.cost === undefined || run.cost === null;
  return h("tr", {},
    h("td", { class: "agent-run" }, h("span", { class: "row" }, h("span", { class: `dot ${tone}` }), link)),
    h("td", { class: tone === "ring" ? "muted nowrap" : `is-${tone} nowrap` }, said(run, word)),
    h("td", { class: "num faint wide" }, when),
    h("td", { class: "num wide" }, count(run.tokens)),
    h("td", { class: "num" }, cost ? h("span", { class: "faint" }, "unknown") : money(run.cost)));
}

function said(run, word) {
  if (run.state === "failed" && run.code) return h("code", {}, visible(run.code));
  return run.state === "waiting" && run.pending ? `${count(run.pending)} waiting` : word;
}

/** The items of a description list; unknown values are left out. */
export function stats(sums) {
  const percent = sums.failed ? `${((100 * sums.failed) / sums.runs).toFixed(1)} %` : "";
  const settled = [
    sums.rejected && `${count(sums.rejected)} rejected`,
    sums.expired && `${count(sums.expired)} expired`,
  ].filter(Boolean).join(", ");
  const each = sums.runs && sums.cost ? `${money(sums.cost / sums.runs)} each` : "";
  return [
    stat("Conversations", count(sums.runs)),
    stat("Failed", count(sums.failed), percent),
    stat("Approvals", count(sums.approvals), settled),
    sums.wait !== null && stat("Median wait for a person", duration(sums.wait)),
    stat("Tokens", count(sums.tokens)),
    sums.cost !== null && stat("Cost", money(sums.cost), each),
  ].filter(Boolean);
}

function stat(name, value, more) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value, more && h("small", {}, ` ${more}`)));
}
