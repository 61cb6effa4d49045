// The table of tools by server: description, hints, policy (run, ask or deny) and the reason for the policy.

import { codeBox } from "../core/code_box.js";
import { h, icon } from "../core/dom.js";
import { plural, shorten, visible } from "../core/text.js";

const TONES = { run: "good", ask: "wait", deny: "bad", unused: "" };
const ORDER = ["deny", "ask", "run"];
/** Labels of the reasons that are not rules. */
const REASONS = {
  "readOnlyHint: true": "Declared read-only",
  "destructiveHint: false": "Declared not destructive",
  "destructiveHint: true": "Declared destructive",
  "approval.unannotated: run": "No destructive hint",
  "approval.unannotated: ask": "No destructive hint",
  "as its tools say": "Depends on the tools behind it",
};
const DESCRIPTION_LENGTH = 160;
const COLUMNS = ["Tool", "What it does", "Hints", "Policy", "Reason"];

/** The reason of a policy, in a few words: the name of the rule, or the hint or setting that decides. */
export function reasonWords({ rule, reason }) {
  return rule ? visible(rule.name) : (REASONS[reason] ?? visible(reason));
}

/** The hints of a tool, each as `[tone, word]`. */
export function hintWords({ readOnlyHint, destructiveHint, idempotentHint }) {
  const words = [];
  if (readOnlyHint) words.push(["", "reads only"]);
  if (destructiveHint) words.push(["bad", "destructive"]);
  if (destructiveHint === false && !readOnlyHint) words.push(["", "not destructive"]);
  if (idempotentHint && !readOnlyHint) words.push(["", "idempotent"]);
  return words;
}

/** The policies of a tool's calls, and `verdict` if all nodes have the same policy and reason. Only nodes
 * that may call the tool count; there may be none. */
export function outcome(tool) {
  const verdicts = tool.nodes ?? [tool];
  if (!verdicts.length) return { policies: ["unused"], verdict: null, words: "No node may use it" };
  const policies = ORDER.filter((each) => verdicts.some(({ policy }) => policy === each));
  const [first] = verdicts;
  const same = verdicts.every(({ policy, reason }) => policy === first.policy && reason === first.reason);
  if (!same) {
    const words = policies.length > 1 ? "Depends on the node" : "Different rules in different nodes";
    return { policies, verdict: null, words };
  }
  return { policies, verdict: first, words: reasonWords(first) };
}

/** `[server, tools]` in the order of the servers. The tools behind a server facade follow the facade. */
export function groups(tools, servers) {
  const found = new Map(servers.map((server) => [server.name, []]));
  for (const tool of tools) {
    const name = tool.server ?? "";
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(tool, ...(tool.inside ?? []).map((each) => ({ ...each, within: tool.name })));
  }
  return [...found].filter(([, list]) => list.length);
}

/** The table. `opened`: keys of the tools whose details are shown; the caller keeps it across redraws. */
export function toolTable({ tools, servers }, opened) {
  const body = h("tbody", { role: "rowgroup" });
  for (const [server, list] of groups(tools, servers)) {
    const number = list.filter((tool) => !tool.inside).length;
    const head = h("th", { colspan: COLUMNS.length, scope: "rowgroup", role: "rowheader" },
      server ? visible(server) : "Other agents",
      h("span", {}, plural(number, server ? "tool" : "agent")));
    body.append(h("tr", { class: "agent-group", role: "row" }, head));
    for (const tool of list) body.append(...rows(tool, opened));
  }
  // Explicit roles, because rows that a narrow page lays out as blocks would lose their implicit roles.
  const heads = COLUMNS.map((name) => h("th", { scope: "col", role: "columnheader" }, name));
  return h("div", { class: "block agent-wrap" },
    h("table", { class: "agent-table agent-tools", role: "table", "aria-label": "Tools" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)), body));
}

function rows(tool, opened) {
  const key = `${tool.within ?? ""} ${tool.name}`;
  const { policies, verdict, words } = outcome(tool);
  const more = details(tool, verdict);
  const detail = h("tr", { class: "agent-detail", role: "row", hidden: !opened.has(key) },
    h("td", { colspan: COLUMNS.length, role: "cell" }, more));
  const or = verdict?.depends_on_arguments && h("span", { class: "faint" }, ", or a rule on its arguments");
  const reason = [words, or];
  const description = shorten(visible(firstParagraph(tool.description)), DESCRIPTION_LENGTH);
  const hints = hintWords(tool).map(([tone, word]) => h("span", { class: `chip ${tone}` }, word));
  const cell = (name, ...content) => h("td", { class: name, role: "cell" }, content);
  const row = h("tr", { role: "row", class: tool.within ? "agent-inside" : "" },
    cell("name", h("code", {}, visible(tool.name))),
    cell("description muted", h("span", {}, description)),
    cell("hints", h("span", { class: "row" }, hints)),
    cell("policy", h("span", { class: "agent-policies" }, policies.map(pill))),
    cell("reason muted", more.length ? toggle(key, reason, detail, opened) : reason));
  return more.length ? [row, detail] : [row];
}

function toggle(key, words, detail, opened) {
  return h("button", {
    class: "agent-why", type: "button", "aria-expanded": String(opened.has(key)), "data-focus": `why ${key}`,
    onclick(event) {
      detail.hidden = !detail.hidden;
      if (detail.hidden) opened.delete(key);
      else opened.add(key);
      event.currentTarget.setAttribute("aria-expanded", String(!detail.hidden));
    },
  }, icon("chev"), h("span", {}, words));
}

/** The rule and its line in the file, or the policy and reason in each node of the tree. */
function details(tool, verdict) {
  if (verdict) return verdict.rule ? [ruleBlock(verdict.rule)] : [];
  const nodes = tool.nodes ?? [];
  if (!nodes.length) return [];
  return [h("ul", { class: "agent-nodes" }, nodes.map((each) =>
    h("li", { class: "stack" },
      h("span", { class: "row wrap" },
        pill(each.policy), h("code", {}, visible(each.node)),
        h("span", { class: "muted" }, reasonWords(each))),
      each.rule && ruleBlock(each.rule))))];
}

function ruleBlock({ file, line, yaml }) {
  const text = visible(yaml.trimEnd());
  return h("div", { class: "agent-rule" },
    h("span", { class: "label" }, `${visible(file)}, line ${line}`),
    codeBox(h("pre", { class: "code", tabindex: 0, "aria-label": "The rule" }, text), text));
}

const pill = (policy) => h("span", { class: `pill ${TONES[policy] ?? ""}` }, policy);

const firstParagraph = (text) => text.trim().split(/\n\s*\n/, 1)[0];
