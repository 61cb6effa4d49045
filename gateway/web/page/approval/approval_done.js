// An approval that is no longer pending: the decision, its author and time, the changes, and the reason.

import {
  argumentsOf,
  changesOf,
  decisionText,
  doneHeading,
  iconOf,
  standing,
  summary,
  toneOf,
  voidReason,
  votersOf,
} from "./approval_text.js";
import { countValues } from "./argument_diff.js";
import { pieces } from "./approval_head.js";
import { argumentTable, changeTable } from "./argument_table.js";
import { h, icon } from "../core/dom.js";
import { shorten, visible } from "../core/text.js";
import { duration, timeElement } from "../core/times.js";

/** "Approved with 2 changes by Mara". `second`: another person decided first. */
export function decidedBy(approval, second = false) {
  if (approval.state === "expired") return "Expired: no decision was made in time";
  if (approval.state !== "decided") return standing(approval);
  const text = decisionText(approval);
  const { decided_by, approved } = approval.decision ?? {};
  const by = approved && approval.votes ? votersOf(approval) : decided_by;
  const who = by ? ` by ${visible(by)}` : "";
  return second
    ? `Already ${text.charAt(0).toLowerCase()}${text.slice(1)}${who}, before you`
    : `${text}${who}`;
}

/** The head of the card: `tone`, `lines(title, extra)` when done, and `waiting` for its icon and words
 * until then. */
export function doneHead(approval, { second, inChat }) {
  const tone = toneOf(approval);
  const picture = { good: "check", bad: "x" }[tone] ?? (approval.state === "expired" ? "clock" : "x");
  const waiting = { icon: approval.kind === "tool" ? "pause" : iconOf(approval), text: standing(approval) };
  const lines = (title, extra) => {
    const at = approval.decision?.decided_at ?? (approval.state === "expired" ? approval.expires_at : null);
    title.replaceChildren(...pieces(doneHeading(approval)));
    const kind = h(
      "div",
      { class: "kind" },
      icon(picture),
      h("span", {}, decidedBy(approval, second), at ? [", ", timeElement(at)] : null),
    );
    return [
      kind,
      title,
      h("p", { class: "by" }, ends(approval, second, at), place(approval, extra, inChat)),
    ];
  };
  return { tone, waiting, lines };
}

function ends(approval, second, at) {
  if (second) return "Your decision changed nothing.";
  if (approval.state === "void") return visible(voidReason(approval));
  if (approval.state === "expired") return "No decision was made in time.";
  if (!at) return "";
  const seconds = (Date.parse(at) - Date.parse(approval.created_at)) / 1000;
  return seconds < 1 ? "Waited less than a second." : `Waited ${duration(seconds)}.`;
}

function place(approval, extra, inChat) {
  if (inChat) return [" ", h("a", { href: `#/approvals/${encodeURIComponent(approval.uuid)}` }, "Details")];
  const title = visible(shorten(extra?.conversation_title || "the conversation", 60));
  return [" ", h("a", { href: `#/conversations/${encodeURIComponent(approval.conversation_id)}` }, title)];
}

/** The rest of the card, as nodes. */
export function decidedBody(approval, { inChat, lost }) {
  const { decision } = approval;
  const changes = changesOf(approval);
  const inner = [];
  if (lost)
    inner.push(
      labelled("What you had typed, which was not used", h("pre", { class: "code" }, visible(lost))),
    );
  if (approval.superseded_by) {
    inner.push(
      h(
        "p",
        { class: "t13" },
        h(
          "a",
          { href: `#/approvals/${encodeURIComponent(approval.superseded_by)}` },
          "Go to the new question",
        ),
      ),
    );
  }
  if (decision?.reason) inner.push(h("blockquote", { class: "reason" }, visible(decision.reason)));
  if (changes.length)
    inner.push(
      changeTable(
        changes,
        countValues(approval.tool_args) - changes.filter(({ before }) => before !== undefined).length,
      ),
    );
  if (decision?.result)
    inner.push(
      labelled("Result that the model was told", h("pre", { class: "code" }, visible(decision.result))),
    );
  if (decision?.content && Object.keys(decision.content).length) {
    inner.push(labelled("Answer", argumentTable(decision.content, approval.input_schema)));
  }
  if (
    approval.kind === "elicitation" ||
    approval.kind === "checkpoint" ||
    !Object.keys(approval.tool_args).length
  )
    return inner;
  const title = changes.length ? "Arguments that were approved" : "Arguments";
  const head = h(
    "summary",
    {},
    icon("chev", "chev"),
    title,
    h("span", { class: "r ellipsis" }, visible(summary(approval, 80))),
  );
  inner.push(
    h(
      "details",
      { class: "sec", open: !inChat },
      head,
      h("div", { class: "in" }, argumentTable(argumentsOf(approval), approval.input_schema)),
    ),
  );
  return inner;
}

function labelled(label, element) {
  return h("div", { class: "stack" }, h("span", { class: "label" }, label), element);
}
