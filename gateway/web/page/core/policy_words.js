// How many tools run, ask or are denied, in words: for all nodes, or by node where they differ. Pure.

import { plural, visible } from "./text.js";

const MOST_NODES = 4; // nodes that a sentence names

/** "2 ask, 1 runs", or "all run": the policies of some tools. */
export function policyWords(policies) {
  const words = (one, many, policy) => {
    const number = policies.filter((each) => each === policy).length;
    if (!number) return null;
    if (number === policies.length && number > 1) return `all ${many}`;
    return `${number} ${number === 1 ? one : many}`;
  };
  return [words("asks", "ask", "ask"), words("runs", "run", "run"), words("is denied", "are denied", "deny")]
    .filter(Boolean).join(", ");
}

/** The policies of the tools that each node may use, by its name, in the order of the nodes. */
export function byNode(tools) {
  const found = new Map();
  for (const tool of tools) {
    for (const { node, policy } of tool.nodes ?? []) {
      if (!found.has(node)) found.set(node, []);
      found.get(node).push(policy);
    }
  }
  return found;
}

/** "2 ask, 1 runs", or with a tree whose nodes differ "in plan: 2 ask, 1 runs; in prepare: all run". */
export function toolPolicies(tools) {
  const nodes = byNode(tools);
  if (!nodes.size) return policyWords(tools.map(({ policy }) => policy));
  const alike = new Map();
  for (const [node, policies] of nodes) {
    const words = policyWords(policies);
    alike.set(words, [...(alike.get(words) ?? []), visible(node)]);
  }
  if (alike.size === 1) return [...alike.keys()][0];
  return [...alike].map(([words, names]) => {
    const more = names.length - MOST_NODES;
    const others = more > 0 ? ` and ${plural(more, "more node")}` : "";
    return `in ${names.slice(0, MOST_NODES).join(", ")}${others}: ${words}`;
  }).join("; ");
}
