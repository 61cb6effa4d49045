// The two sections that open below the arguments: the reason for asking, and earlier calls of the tool.

import { hintChips, shortValue, summaryOf, whyText } from "./approval_text.js";
import { differences, isObject } from "./argument_diff.js";
import { answerBar } from "../core/answer_bar.js";
import { codeBox } from "../core/code_box.js";
import { h, icon } from "../core/dom.js";
import { visible, plural } from "../core/text.js";
import { count, timeElement } from "../core/times.js";

/** The server's own hints. */
export function hints(approval, extra) {
  if (approval.kind === "elicitation" || approval.kind === "checkpoint") return null;
  const chips = hintChips(extra?.hints);
  const once = extra?.effect === "once" ? h("span", { class: "chip" }, "sent at most once") : null;
  if (!chips.length && !once) return null;
  return h(
    "div",
    { class: "row wrap chips" },
    chips.map(({ text, bad }) =>
      h("span", { class: bad ? "chip bad" : "chip" }, bad ? icon("alert") : null, text),
    ),
    chips.length && approval.server
      ? h("span", { class: "faint small" }, "as server ", h("code", {}, visible(approval.server)), " says")
      : null,
    once,
  );
}

/** Both sections, if there is something to show. */
export function reasons(approval, extra, { open = false } = {}) {
  return [why(approval, extra, open), history(approval, extra, open)].filter(Boolean);
}

function section(title, right, open, inner) {
  const head = h("summary", {}, icon("chev", "chev"), title, h("span", { class: "r" }, right));
  return h("details", { class: "sec", open, "data-name": title }, head, h("div", { class: "in" }, inner));
}

function why(approval, extra, open) {
  const rule = extra?.rule;
  const name = rule?.name ?? approval.rule;
  if (!name && !extra?.suggestion) return null;
  const parts = [];
  if (rule?.yaml) {
    const place = [rule.file, rule.line && `line ${rule.line}`].filter(Boolean).join(", ");
    const yaml = visible(rule.yaml.trimEnd());
    const lines = [place ? h("span", { class: "c" }, `# ${visible(place)}\n`) : null, h("mark", {}, yaml)];
    parts.push(code(yaml, lines));
  } else if (name) {
    parts.push(h("p", { class: "small muted" }, whyText(approval, name)));
  }
  if (extra?.suggestion) {
    parts.push(suggestion(extra.suggestion, Boolean(rule?.yaml)), earlierCalls(extra.calls));
  }
  if (approval.policy) {
    parts.push(h("p", { class: "small faint" }, "Policy ", h("code", {}, visible(approval.policy))));
  }
  return section("Why it asks", visible(name ?? ""), open, parts);
}

function suggestion(yaml, above) {
  const text = visible(yaml.trimEnd());
  const lead = `To let calls like this run without asking${above ? ", above that rule" : ""}:`;
  return [h("p", { class: "small muted" }, lead), code(text)];
}

/** How the calls went that the suggested rule would run; null if there are none. */
function earlierCalls(calls) {
  if (!Number(calls?.calls)) return null;
  const lead =
    `Of the last ${plural(Number(calls.calls), "call")} of this tool, ` +
    `${count(calls.would_run)} would have run:`;
  const bar = answerBar(calls, calls.would_run);
  return h("div", { class: "stack" }, h("p", { class: "small muted" }, lead), bar);
}

const code = (text, shown = text) => codeBox(h("pre", { class: "code", tabindex: "0" }, shown), text);

const OUTCOMES = { succeeded: "done", failed: "failed", unknown: "unknown" };
const DECISIONS = {
  approved: "approved",
  rejected: "rejected",
  respond: "answered",
  expired: "not decided",
  void: "no longer asked",
};

function history(approval, extra, open) {
  const past = (extra?.history ?? []).filter(({ uuid }) => uuid !== approval.uuid).slice(0, 10);
  if (!past.length) return extra && approval.kind === "tool" ? firstTime() : null;
  const failed = past.filter(({ outcome }) => outcome === "failed").length;
  const beads = h(
    "span",
    { class: "beads", "aria-hidden": "true" },
    past.map((each) => h("i", { class: beadClass(each) })),
  );
  const count = `${plural(past.length, "call")}${failed ? `, ${failed} failed` : ""}`;
  const rows = past.map((each) =>
    h(
      "tr",
      {},
      h(
        "td",
        { class: "nowrap" },
        h("a", { href: `#/approvals/${encodeURIComponent(each.uuid)}` }, timeElement(each.at)),
      ),
      h("td", {}, visible(pastArguments(each, approval))),
      h(
        "td",
        {},
        [each.decided_by, DECISIONS[each.decision] ?? each.decision].filter(Boolean).map(visible).join(": "),
      ),
      h(
        "td",
        { class: `num ${each.outcome === "failed" ? "bad" : ""}` },
        OUTCOMES[each.outcome] ?? (each.outcome || "not sent"),
      ),
    ),
  );
  const columns = ["When", "Arguments", "Decision", "Outcome"].map((text) => h("th", { scope: "col" }, text));
  const table = h(
    "table",
    { class: "hist" },
    h("thead", { class: "visually-hidden" }, h("tr", {}, columns)),
    h("tbody", {}, rows),
  );
  return section("The last times", [beads, ` ${count}`], open, table);
}

function beadClass({ outcome, decision }) {
  if (outcome === "failed") return "er";
  return outcome === "succeeded" || (outcome && decision === "approved") ? "" : "no";
}

/** The differences from the current arguments if they are few, else all arguments. */
function pastArguments({ arguments: args }, approval) {
  if (!isObject(args)) return "";
  const changes = differences(approval.tool_args, args);
  if (!changes.length) return "the same arguments";
  if (changes.length > 2) return shortValue(summaryOf(args), 80);
  return changes.map(({ path, after }) => `${path.join(".")} ${shortValue(after, 40)}`).join(", ");
}

function firstTime() {
  return h("p", { class: "small muted" }, "No call of this tool was decided before.");
}
