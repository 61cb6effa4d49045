// The parts of the agent with how they are: servers, other agents, models, and its tree.

import { h, icon } from "./dom.js";
import { plural, visible } from "./text.js";

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
  llm: "asks a model", sequential: "one after the other", parallel: "at the same time", loop: "again and again",
  router: "one of them", approval: "asks a person", a2a: "another agent",
};

/** `[tone, word]` of a state; one that is not known is shown as it is. */
export const stateOf = (state) => STATES[state] ?? ["ring", visible(state)];

/** Parts that are not as they should be. */
export const troubled = (parts) => parts.filter((part) => !["good", "ring"].includes(stateOf(part.state)[0]) || part.error);

/** Cards of the servers in the order of the file; `health` has their states. */
export function serverCards(servers, health) {
  const states = new Map(health.map((part) => [part.name, part]));
  return h("div", { class: "agent-cards" }, servers.map((server) => {
    const part = states.get(server.name) ?? { state: "connecting" };
    return card(server.name, part, server.where, [
      ["Tools", part.state === "connected" ? server.tools : server.tools || "not listed yet"],
      ["At a time", String(server.max_concurrency)],
      ["Spoken to by", server.transport === "stdio" ? "stdin and stdout" : server.transport.toUpperCase()],
    ], server.required ? null : "The agent is ready without it.");
  }));
}

export function agentCards(agents, tree) {
  const urls = new Map(remotes(tree));
  return h("div", { class: "agent-cards" }, agents.map((part) => card(part.name, part, urls.get(part.name) ?? "", [], null)));
}

function card(name, part, where, facts, note) {
  const [tone, word] = stateOf(part.state);
  const off = tone === "bad" || (part.error && tone !== "good");
  return h("article", { class: `block agent-card ${off ? "off" : ""}` },
    h("h3", { class: "row" }, h("span", { class: `dot ${tone}` }), h("span", { class: "ellipsis grow" }, visible(name)),
      h("span", { class: `small ${tone === "good" || tone === "ring" ? "faint" : `is-${tone}`}` }, word)),
    where && h("p", { class: "mono faint ellipsis", title: visible(where) }, visible(where)),
    part.error && h("pre", { class: "code wraps", tabindex: 0, "aria-label": `Error of ${visible(name)}` }, visible(part.error)),
    facts.length > 0 && h("dl", { class: "agent-facts" }, facts.map(([term, value]) =>
      h("div", {}, h("dt", {}, term), h("dd", {}, String(value))))),
    note && h("p", { class: "small faint" }, note),
    part.left_out?.length > 0 && h("details", { class: "small" },
      h("summary", {}, `${plural(part.left_out.length, "tool")} left out`),
      h("ul", { class: "stack" }, part.left_out.map((each) => h("li", {}, visible(each))))));
}

/** `health`: states by name. */
export function modelTable(models, health) {
  const states = new Map(health.map((part) => [part.name, part]));
  const price = ({ prices }, key) => (prices ? `$${Number(prices[key])}` : "unknown");
  return h("div", { class: "block agent-wrap" }, h("table", { class: "agent-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Model"), h("th", { scope: "col" }, "State"),
      h("th", { scope: "col", class: "num" }, "$ per M in"), h("th", { scope: "col", class: "num" }, "$ per M out"))),
    h("tbody", {}, models.map((model) => {
      const part = states.get(model.name) ?? { state: "not used yet" };
      const [tone, word] = stateOf(part.state), whole = `${model.provider}:${model.model}`;
      return h("tr", {},
        h("td", {}, h("code", {}, visible(model.name)), whole !== model.name && h("span", { class: "small faint block-line" }, visible(whole)),
          part.error && h("span", { class: "small is-bad block-line" }, visible(part.error))),
        h("td", { class: "nowrap" }, h("span", { class: "row" }, h("span", { class: `dot ${tone}` }), word)),
        h("td", { class: "num" }, price(model, "input")), h("td", { class: "num" }, price(model, "output")));
    }))));
}

/** The tree of nodes as nested lists. */
export function treeList(node) {
  return h("ul", { class: "agent-tree" }, treeItem(node));
}

function treeItem(node) {
  return h("li", {},
    h("span", { class: "agent-node" },
      icon({ llm: "chat", approval: "pause", a2a: "hop", router: "agent" }[node.type] ?? "down"),
      h("code", {}, visible(node.name)), h("span", { class: "chip" }, visible(node.type)),
      h("span", { class: "small faint" }, [TYPES[node.type], node.model && visible(node.model), node.url && visible(node.url)]
        .filter(Boolean).join(", "))),
    node.description && h("p", { class: "small muted" }, visible(node.description)),
    node.children && h("ul", {}, node.children.map(treeItem)));
}

/** The other agents in the tree with their addresses. */
function remotes(node) {
  const own = node.url ? [[node.agent ?? node.name, node.url]] : [];
  return [...own, ...(node.children ?? []).flatMap(remotes)];
}
