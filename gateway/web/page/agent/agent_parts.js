// The parts of an agent and their states: servers, remote agents, models and the node tree.

import { codeBox } from "../core/code_box.js";
import { h, icon } from "../core/dom.js";
import { byNode, policyWords } from "../core/policy_words.js";
import { plural, visible } from "../core/text.js";

const STATES = {
  connected: ["good", "connected"],
  connecting: ["wait", "connecting"],
  disconnected: ["bad", "disconnected"],
  auth_required: ["wait", "needs a token"],
  reached: ["good", "reached"],
  unreachable: ["bad", "unreachable"],
  unknown: ["ring", "not contacted yet"],
  ready: ["good", "ready"],
  stopping: ["wait", "stopping"],
};

const TYPES = {
  llm: "calls a model",
  sequential: "runs its nodes in order",
  parallel: "runs its nodes at the same time",
  loop: "repeats its nodes",
  router: "chooses one node",
  approval: "asks a person",
  a2a: "calls another agent",
};

const ICONS = { llm: "chat", approval: "pause", a2a: "hop", router: "agent" };

/** A state as `[tone, word]`. An unknown state is shown as it is. */
export const partState = (state) => STATES[state] ?? ["ring", visible(state)];

/** The parts with a bad or waiting state, or with an error. */
export const withProblems = (parts) =>
  parts.filter((part) => !["good", "ring"].includes(partState(part.state)[0]) || part.error);

/** Labels of transports; for others, the name in capitals. */
const TRANSPORTS = { stdio: "stdin and stdout", program: "function calls" };

/** A card for each server, in the order of the file. `health`: the states of the servers. */
export function serverCards(servers, health) {
  const states = new Map(health.map((part) => [part.name, part]));
  return h("div", { class: "agent-cards" }, servers.map((server) => {
    const part = states.get(server.name) ?? { state: "connecting" };
    return card(server.name, part, server.where, [
      ["Tools", part.state === "connected" ? server.tools : server.tools || "not listed yet"],
      ["Calls at once", String(server.max_concurrency)],
      ["Transport", TRANSPORTS[server.transport] ?? server.transport.toUpperCase()],
    ], server.required ? null : "Optional: the agent is ready without it.");
  }));
}

/** A card for each remote agent. `agents`: their names and states. */
export function agentCards(agents, tree) {
  const urls = new Map(remotes(tree));
  return h("div", { class: "agent-cards" },
    agents.map((part) => card(part.name, part, urls.get(part.name) ?? "", [], null)));
}

function card(name, part, where, facts, note) {
  const [tone, word] = partState(part.state);
  const failing = tone === "bad" || (part.error && tone !== "good");
  const quiet = tone === "good" || tone === "ring";
  return h("article", { class: `block agent-card ${failing ? "off" : ""}` },
    h("h3", { class: "row" },
      h("span", { class: `dot ${tone}` }),
      h("span", { class: "ellipsis grow" }, visible(name)),
      h("span", { class: `small ${quiet ? "faint" : `is-${tone}`}` }, word)),
    where && h("p", { class: "mono faint ellipsis", title: visible(where) }, visible(where)),
    part.error && errorBlock(name, part.error),
    facts.length > 0 && h("dl", { class: "agent-facts" },
      facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, String(value))))),
    note && h("p", { class: "small faint" }, note),
    part.left_out?.length > 0 && leftOut(part.left_out));
}

function errorBlock(name, text) {
  const label = `Error of ${visible(name)}`;
  const shown = visible(text);
  return codeBox(h("pre", { class: "code wraps", tabindex: 0, "aria-label": label }, shown), shown);
}

function leftOut(tools) {
  return h("details", { class: "small" },
    h("summary", {}, `${plural(tools.length, "tool")} left out`),
    h("ul", { class: "stack" }, tools.map((each) => h("li", {}, visible(each)))));
}

/** A table of the models. `health`: the states of the models that were used. */
export function modelTable(models, health) {
  const states = new Map(health.map((part) => [part.name, part]));
  const stateFor = ({ name }) => states.get(name) ?? { state: "not used yet" };
  const heads = [["Model", ""], ["State", ""], ["$ per M in", "num"], ["$ per M out", "num"]];
  return h("div", { class: "block agent-wrap" }, h("table", { class: "agent-table" },
    h("thead", {}, h("tr", {}, heads.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)))),
    h("tbody", {}, models.map((model) => modelRow(model, stateFor(model))))));
}

function modelRow(model, part) {
  const [tone, word] = partState(part.state), whole = `${model.provider}:${model.model}`;
  const price = (key) => (model.prices ? `$${Number(model.prices[key])}` : "unknown");
  return h("tr", {},
    h("td", {},
      h("code", {}, visible(model.name)),
      whole !== model.name && h("span", { class: "small faint agent-line" }, visible(whole)),
      part.error && h("span", { class: "small is-bad agent-line" }, visible(part.error))),
    h("td", { class: "nowrap" }, h("span", { class: "row" }, h("span", { class: `dot ${tone}` }), word)),
    h("td", { class: "num" }, price("input")),
    h("td", { class: "num" }, price("output")));
}

/** The node tree as nested lists. */
export function treeList(node, tools) {
  return h("ul", { class: "agent-tree" }, treeItem(node, byNode(tools)));
}

function treeItem(node, policies) {
  const own = policies.has(node.name) && `tools: ${policyWords(policies.get(node.name))}`;
  const facts = [TYPES[node.type], node.model, node.url, own].filter(Boolean).map(visible).join(", ");
  return h("li", {},
    h("span", { class: "agent-node" },
      icon(ICONS[node.type] ?? "down"),
      h("code", {}, visible(node.name)), h("span", { class: "chip" }, visible(node.type)),
      h("span", { class: "small faint" }, facts)),
    node.description && h("p", { class: "small muted" }, visible(node.description)),
    node.children && h("ul", {}, node.children.map((child) => treeItem(child, policies))));
}

/** The remote agents in the tree as `[name, url]`. */
function remotes(node) {
  const own = node.url ? [[node.agent ?? node.name, node.url]] : [];
  return [...own, ...(node.children ?? []).flatMap(remotes)];
}
