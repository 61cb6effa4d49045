// The page about the policy: the rules in their order, with what they decided and what people decided then.

import { ApiError, get } from "../core/api.js";
import { answerBar } from "../core/answer_bar.js";
import { h, icon } from "../core/dom.js";
import { plural, visible } from "../core/text.js";
import { ago, count, duration, timeElement } from "../core/times.js";
import { hintWords } from "./agent_tools.js";
import { agentTabs } from "./agent_tabs.js";
import { trial } from "./policy_trial.js";

const TONES = { run: "good", ask: "wait", deny: "bad" };
const WINDOWS = [
  ["hits_24h", "24 hours"],
  ["hits_7d", "7 days"],
  ["hits_30d", "30 days"],
];
const SPANS = WINDOWS.map(([, name]) => name);
const SAID = { run: "run", ask: "ask", deny: "be denied" };
const WAS = { run: "ran", ask: "asked" };

export function show(main, _route, context) {
  const gone = new AbortController();
  const body = h("div", { class: "agent-page" }, h("div", { class: "skeleton" }, h("i"), h("i"), h("i")));
  const since = h("span", { class: "small faint ellipsis" });
  main.append(
    h("header", { class: "top" },
      h("h1", { class: "nowrap" }, "Policy"), agentTabs("policy"), h("span", { class: "grow" }), since),
    h("div", { class: "scroll" }, body));
  read(body, since, context, gone.signal);
  return { close: () => gone.abort() };
}

async function read(body, since, context, signal) {
  try {
    const report = await get("/policy/report", signal);
    since.replaceChildren("Revision ", h("code", {}, visible(report.revision)), ", ", timeElement(report.at));
    body.replaceChildren(...sections(report, context.agent.tools ?? []), h("section", {},
      heading("Try other rules", "on the newest 100,000 calls; nothing is changed"), trial(signal)));
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof ApiError)) throw error;
    body.replaceChildren(note("bad", visible(error.message)));
  }
}

function sections(report, tools) {
  const calls = plural(Number(report.calls), "call");
  const notes = notesOf(report);
  return [
    notes.length && h("section", { class: "stack", "aria-label": "Notes" }, notes),
    h("section", {},
      heading("Rules", `${calls} in 30 days; the first rule that fits decides`), rules(report)),
    h("section", {},
      heading("Tools", "their hints, and how their calls went"),
      report.tools.length
        ? toolTable(report.tools, new Map(tools.map((each) => [each.name, each])))
        : h("p", { class: "muted" }, "No calls yet.")),
  ].filter(Boolean);
}

/** What the figures do not cover, each as a note. */
export function notesOf({ cut, unknown, damaged_events: damaged, calls }) {
  return [
    cut && `Only the newest ${plural(Number(calls), "call")} are counted; there are more.`,
    Number(unknown) > 0 && `The verdicts on ${plural(Number(unknown), "call")} are not on record.`,
    Number(damaged) > 0 && `${plural(Number(damaged), "event")} cannot be read and are left out.`,
  ].filter(Boolean).map((text) => note("wait", text));
}

// --------------------------------------------------------------------- rules

function rules({ rules: all, settings }) {
  const now = all.filter(({ current }) => current), former = all.filter(({ current }) => !current);
  const groups = [
    ["Rules, in their order", now.map(ruleRow)],
    ["Hints and settings, for calls that no rule fits", settings.map(settingRow)],
    ["Earlier rules", former.map(ruleRow)],
  ].filter(([, rows]) => rows.length);
  if (!groups.length) {
    return h("p", { class: "muted" }, "The policy has no rules, and no call was judged yet.");
  }
  return table("Rules", ["What decides", ...SPANS, "What people decided", "Median wait", "Last"], groups);
}

/** What a shadow rule would have decided: sentences. */
export function shadowWords(rule) {
  return rule.shadow_verdicts.map(({ action, was, hits_30d: number }) => {
    const went = was === "deny" ? (Number(number) === 1 ? "was denied" : "were denied") : WAS[was];
    return `${plural(Number(number), "call")} ${went}, and would ${SAID[action]}`;
  });
}

function ruleRow(rule) {
  const chips = [h("span", { class: `pill ${TONES[rule.then]}` }, rule.then)];
  if (rule.shadow) chips.push(h("span", { class: "chip" }, "shadow"));
  if (!Number(rule.hits_30d)) chips.push(h("span", { class: "chip bad" }, icon("alert"), "never hit"));
  const [place, rest] = ruleParts(rule.text);
  const name = [
    h("span", {}, visible(place)),
    h("code", { class: "policy-keys" }, visible(rest)),
    shadowWords(rule).map((each) => h("span", { class: "small muted" }, each)),
  ].flat();
  return row(name, chips, rule);
}

const settingRow = (of) => row(h("code", {}, visible(of.text)), [], of);

/** A rule in words: its name or place, and its keys. */
export function ruleParts(text) {
  const found = /^(.*?rules\[\d+\])(?: "(.*)")? \((.*)\): \w+$/s.exec(text);
  const [, place, name, keys] = found ?? [null, text, null, ""];
  return [name ?? place, keys.replace(/; shadow: true$/, "")];
}

function row(name, chips, of) {
  const when = of.last_hit ? lately(of.last_hit) : faint("never");
  const wait = of.median_wait_seconds;
  return [
    named(name, chips),
    ...hits(of),
    cell("people", "People", answerBar(of) ?? faint("nothing")),
    cell("num", "Median wait", wait === undefined ? faint("–") : duration(Number(wait))),
    cell("num", "Last", when),
  ];
}

// --------------------------------------------------------------------- tools

function toolTable(found, known) {
  const groups = new Map();
  for (const each of found) {
    const before = groups.get(each.server) ?? [];
    groups.set(each.server, [...before, toolRow(each, known.get(each.tool))]);
  }
  const heads = ["Tool", ...SPANS, "How its calls went", "Denied", "Last"];
  return table("Tools", heads, [...groups].map(([server, rows]) => [visible(server), rows]));
}

function toolRow(tool, listed) {
  const hints = listed ? hintWords(listed) : [];
  const chips = hints.map(([tone, word]) => h("span", { class: `chip ${tone}` }, word));
  return [
    named(h("code", {}, visible(tool.tool)), chips),
    ...hits(tool),
    cell("people", "How its calls went", answerBar(tool, tool.hits_30d) ?? faint("nothing")),
    cell("num", "Denied", count(tool.denied)),
    cell("num", "Last", lately(tool.last_hit)),
  ];
}

// -------------------------------------------------------------------- pieces

const faint = (text) => h("span", { class: "faint" }, text);
const hits = (of) => WINDOWS.map(([key, label]) => cell("num", label, count(of[key])));

function named(name, chips) {
  const below = chips.length ? h("span", { class: "row wrap" }, chips) : null;
  return cell("name", "", h("div", { class: "policy-name" }, name, below));
}

function lately(at) {
  const made = timeElement(at);
  made.textContent = ago(at);
  return made;
}

/** `groups`: `[heading, rows]`, each row a list of cells. */
function table(name, heads, groups) {
  const columns = heads.map((text, at) =>
    h("th", { scope: "col", role: "columnheader", class: at && at !== 4 ? "num" : "" }, text));
  const parts = groups.flatMap(([title, rows]) => [
    h("tr", { class: "agent-group", role: "row" },
      h("th", { colspan: heads.length, scope: "rowgroup", role: "rowheader" }, title)),
    ...rows.map((cells) => h("tr", { role: "row" }, cells)),
  ]);
  return h("div", { class: "block agent-wrap" },
    h("table", { class: "agent-table policy-table", role: "table", "aria-label": name },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns)),
      h("tbody", { role: "rowgroup" }, parts)));
}

/** `label`: what a narrow page shows above the value. */
function cell(kind, label, ...content) {
  return h("td", { class: kind, role: "cell", "data-label": label }, content);
}

function heading(text, aside = "") {
  const said = aside && h("span", { class: "small faint" }, aside);
  return h("div", { class: "agent-heading" }, h("h2", {}, text), said);
}

function note(tone, ...content) {
  return h("div", { class: `agent-note ${tone}` }, icon("alert"), h("div", {}, content));
}
