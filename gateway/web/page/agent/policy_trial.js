// The box that tries other rules on the newest calls, and the result.

import { ApiError, postStream } from "../core/api.js";
import { h } from "../core/dom.js";
import { stringify } from "../core/exact_json.js";
import { plural, shorten, visible } from "../core/text.js";
import { count, timeElement } from "../core/times.js";

const OUTCOMES = ["run", "ask", "deny", "none", null];
const EXAMPLE = "rules:\n  - {tool: read_*, then: run}";
const LONGEST = 400; // characters of arguments that are shown

/** The section. `signal`: ends with the page. */
export function trial(signal) {
  const box = h("textarea", {
    class: "mono", rows: 6, spellcheck: "false", "aria-label": "Rules to try, in YAML", placeholder: EXAMPLE,
  });
  const button = h("button", { class: "btn primary", type: "submit" }, "Try");
  const status = h("span", { class: "small muted", role: "status" });
  const result = h("div", { class: "policy-trial" });
  const form = h("form", { class: "policy-trial", onsubmit: (event) => (event.preventDefault(), run()) },
    box, h("div", { class: "row" }, button, status));
  async function run() {
    button.disabled = true;
    result.replaceChildren();
    status.textContent = "Reading calls…";
    try {
      const frame = await last(box.value, signal, (calls) => {
        status.textContent = `${plural(calls, "call")} judged…`;
      });
      status.textContent = said(frame);
      result.replaceChildren(...shown(frame));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof ApiError)) throw error;
      status.textContent = "";
      const lines = error.body.errors ?? [error.message];
      result.replaceChildren(h("ul", { class: "agent-note bad policy-errors", role: "alert" },
        lines.map((line) => h("li", {}, visible(line)))));
    } finally {
      button.disabled = false;
    }
  }
  return [form, result];
}

async function last(rules, signal, progress) {
  let found = null;
  for await (const frame of postStream("/policy/replay", { rules }, signal)) {
    if (frame.summary) found = frame;
    else progress(Number(frame.calls));
  }
  if (!found) throw new ApiError(0, "unreachable", "The agent ended the replay early. Try again.");
  return found;
}

/** How many calls were judged, and what the result does not cover. */
export function said({ calls, cut, ignored, summary }) {
  const unknown = Number(summary.sure.unknown), damaged = Number(summary.damaged.events);
  return [
    `${plural(Number(calls), "call")} judged`,
    cut && "older ones are left out",
    unknown && `${count(unknown)} unknown`,
    damaged && `${plural(damaged, "event")} cannot be read`,
    ignored?.length && `not read: ${ignored.map((key) => shorten(visible(key), 40)).join(", ")}`,
  ].filter(Boolean).join("; ");
}

/** The rows of the table: the verdict on record, and the numbers of calls by the verdict now. */
export function matrix(verdicts) {
  const number = (was, now) =>
    Number(verdicts.find((each) => each.was === was && each.now === now)?.calls ?? 0);
  return OUTCOMES.map((was) => [was ?? "unknown", OUTCOMES.map((now) => number(was, now))])
    .filter(([, row]) => row.some(Boolean));
}

const USES = ["What decides", "Hits", "Changed", "Approved", "Edited", "Rejected", "Answered"];

function shown({ calls, summary, listed }) {
  if (!Number(calls)) return [h("p", { class: "muted" }, "No calls yet.")];
  const rows = matrix(summary.verdicts).map(([was, row]) => [was, ...row.map(count)]);
  const rules = summary.rules.map((each) => [
    visible(each.rule), count(each.hits), count(each.changed),
    ...["approved", "edited", "rejected", "answered"].map((name) => count(each.answers[name] ?? 0)),
  ]);
  return [
    ...refused(summary.changes.refused, listed.refused),
    table("Verdicts before and now", ["Was, now", ...OUTCOMES.map((each) => each ?? "unknown")], rows),
    table("The rules to try", USES, rules),
  ];
}

function refused(number, calls) {
  if (!Number(number)) return [h("p", { class: "is-good" }, "No call that a person refused would run.")];
  const more = Number(number) > calls.length ? `, the newest ${calls.length} of them` : "";
  return [
    h("h3", { class: "is-bad" }, `A person refused ${plural(Number(number), "call")} that would run${more}`),
    h("ul", { class: "policy-trial", "aria-label": "Refused calls that would run" }, calls.map((call) =>
      h("li", { class: "block agent-pad" },
        h("div", { class: "row wrap" },
          h("code", {}, visible(call.tool)),
          h("span", { class: "chip bad" }, visible(call.answer)),
          h("a", { class: "small", href: `#/conversations/${encodeURIComponent(call.conversation)}` },
            timeElement(new Date(Number(call.at) * 1000).toISOString()))),
        h("code", { class: "policy-keys" }, shorten(visible(stringify(call.arguments)), LONGEST)),
        h("p", { class: "small muted" }, `would run by ${visible(call.now.rule)} (${visible(call.sure)})`)))),
  ];
}

function table(name, heads, rows) {
  const head = heads.map((text, at) => h("th", { scope: "col", class: at ? "num" : "" }, text));
  const line = ([first, ...rest]) =>
    h("tr", {},
      h("th", { scope: "row", class: "policy-first" }, first),
      rest.map((text) => h("td", { class: "num" }, text)));
  return h("div", { class: "block agent-wrap", tabindex: "0", role: "region", "aria-label": name },
    h("table", { class: "agent-table policy-matrix", "aria-label": name },
      h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(line))));
}
