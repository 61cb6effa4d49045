// The order of the list of conversations. Pure.

import { stateOf } from "../core/conversation_state.js";

export const ORDERS = { waiting: "Waiting first", activity: "Last active", created: "Newest first" };

/** The conversations in an order of `ORDERS`. `count(id)`: how many approvals of it are pending. */
export function ordered(items, order, count) {
  const by = order === "created" ? "created_at" : "updated_at";
  const keyed = items.map((item) => ({
    item,
    waits: order === "waiting" && stateOf(item, count(item.id)).tone === "wait",
    at: Date.parse(item[by]),
  }));
  // `sort` is stable: of the same time, the order of the agent counts.
  return keyed.sort((a, b) => b.waits - a.waits || b.at - a.at).map(({ item }) => item);
}

/** `wanted` with the ids that are shown already in the order of `shown`, so that no row moves under a
 * pointer. A new one comes behind its neighbour in `wanted`. */
export function held(wanted, shown) {
  const items = new Map(wanted.map((item) => [item.id, item]));
  const order = shown.filter((id) => items.has(id));
  const known = new Set(order);
  wanted.forEach(({ id }, index) => {
    if (!known.has(id)) order.splice(index ? order.indexOf(wanted[index - 1].id) + 1 : 0, 0, id);
  });
  return order.map((id) => items.get(id));
}
