// The tools by server: what each does, what it says of itself, whether it runs, asks or is denied, and why.

import { h, icon } from "./dom.js";
import { shorten, visible } from "./text.js";

const TONES = { run: "good", ask: "wait", deny: "bad" };
const SAID = {
  "readOnlyHint: true": "It says it only reads",
  "destructiveHint: false": "It says it destroys nothing",
  "destructiveHint: true": "It says it may destroy something",
  "approval.unannotated: run": "It says nothing about itself",
  "approval.unannotated: ask": "It says nothing about itself",
  "as its tools say": "As the tools in it",
};
const LONGEST = 160;
const COLUMNS = 5;

/** Why a call runs, asks or is denied, in a few words. */
export function reasonWords({ rule, reason }) {
  return rule ? visible(rule.name) : (SAID[reason] ?? visible(reason));
}

/** What a tool says of itself, as `[tone, word]`. */
export function hintWords({ readOnlyHint, destructiveHint, idempotentHint }) {
  const words = [];
  if (readOnlyHint) words.push(["", "reads only"]);
  if (destructiveHint) words.push(["bad", "destructive"]);
  if (destructiveHint === false && !readOnlyHint) words.push(["", "not destructive"]);
  if (idempotentHint && !readOnlyHint) words.push(["", "idempotent"]);
  return words;
}

/** Tools in the order of the servers; those of a server that is one tool stand below it. */
export function groups(tools, servers) {
  const found = new Map(servers.map((server) => [server.name, []]));
  for (const tool of tools) {
    const name = tool.server ?? "";
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(tool, ...(tool.inside ?? []).map((each) => ({ ...each, within: tool.name })));
  }
  return [...found].filter(([, list]) => list.length);
}

/** `opened` holds the tools whose reasons are shown in full, and outlives the table. */
export function toolTable({ tools, servers }, opened) {
  const body = h("tbody", {});
  for (const [server, list] of groups(tools, servers)) {
    body.append(h("tr", { class: "group" }, h("th", { colspan: COLUMNS, scope: "rowgroup" },
      server ? visible(server) : "Other agents", h("span", { class: "faint" }, ` ${list.length}`))));
    for (const tool of list) body.append(...rows(tool, opened));
  }
  const heads = [["Tool", ""], ["What it does", "wide"], ["Hints", "wide"], ["Policy", ""], ["Because of", ""]];
  return h("div", { class: "block agent-wrap" },
    h("table", { class: "agent-table agent-tools" },
      h("thead", {}, h("tr", {}, heads.map(([name, only]) => h("th", { scope: "col", class: only }, name)))), body));
}

function rows(tool, opened) {
  const key = `${tool.within ?? ""} ${tool.name}`, more = details(tool);
  const detail = h("tr", { class: "detail", hidden: !opened.has(key) }, h("td", { colspan: COLUMNS }, more));
  const words = [reasonWords(tool), tool.depends_on_arguments && h("span", { class: "faint" }, " or by its arguments")];
  const toggle = more.length
    ? h("button", {
        class: "agent-why", type: "button", "aria-expanded": String(opened.has(key)), "data-focus": `why ${key}`,
        onclick(event) {
          detail.hidden = !detail.hidden;
          opened[detail.hidden ? "delete" : "add"](key);
          event.currentTarget.setAttribute("aria-expanded", String(!detail.hidden));
        },
      }, icon("chev"), h("span", {}, words))
    : h("span", { class: "agent-because" }, words);
  const row = h("tr", {},
    h("td", { class: tool.within ? "inside" : "" }, h("code", {}, visible(tool.name))),
    h("td", { class: "muted wide" }, h("span", { class: "agent-said" }, shorten(visible(firstLine(tool.description)), LONGEST))),
    h("td", { class: "wide nowrap" }, h("span", { class: "row" }, hintWords(tool).map(([tone, word]) => h("span", { class: `chip ${tone}` }, word)))),
    h("td", {}, h("span", { class: `pill ${TONES[tool.policy] ?? ""}` }, tool.policy)),
    h("td", { class: "muted" }, toggle));
  return more.length ? [row, detail] : [row];
}

/** The rule with its place in the file, and where in the tree it is another one. */
function details(tool) {
  const parts = tool.rule ? [ruleBlock(tool.rule)] : [];
  const others = (tool.nodes ?? []).filter((each) => each.policy !== tool.policy || each.reason !== tool.reason);
  if (others.length) {
    parts.push(h("ul", { class: "agent-nodes" }, others.map((each) =>
      h("li", {}, "In node ", h("code", {}, visible(each.node)), " ",
        h("span", { class: `pill ${TONES[each.policy] ?? ""}` }, each.policy), ` ${reasonWords(each)}`,
        each.rule && ruleBlock(each.rule)))));
  }
  return parts;
}

function ruleBlock({ file, line, yaml }) {
  return h("div", { class: "stack" },
    h("span", { class: "label" }, `${visible(file)}, line ${line}`),
    h("pre", { class: "code", tabindex: 0, "aria-label": "The rule" }, visible(yaml.trimEnd())));
}

const firstLine = (text) => text.trim().split(/\n\s*\n/, 1)[0];
