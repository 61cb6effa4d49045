// Keys of events, taken apart: `1/.0.2@3.1!2:4.0` is the first tool call of a node's fourth reply in turn 1.

/** `STEP` of `actors/log/words/keys.py`, which a test compares. */
const STEP = /^(\d+)\/((?:[.@!]\d+)*)(?:([!>])|:(\d+)(?:\.(\d+))?)?$/;

/** `execution`: the key of the node's execution; `path`: its place in the tree ("0.2.1"); `call`, `index`:
 * numbers of the model call and of its tool call, or null; `attempt`: whether an attempt of the node
 * failed. */
export function parseKey(key) {
  const [, turn, below, mark, call, index] = STEP.exec(key.replace(/[~?^].*$/, "")) ?? [];
  if (turn === undefined) return null;
  return {
    turn: Number(turn),
    execution: `${turn}/${below}`,
    path: pathOf(below),
    attempt: mark === "!",
    call: call === undefined ? null : Number(call),
    index: index === undefined ? null : Number(index),
  };
}

/** The key of the node of a model call or a tool call: "1/.0" for "1/.0:2.1". */
export const nodeOf = (key) => parseKey(key)?.execution ?? key;

/** The nearest loop around an execution. */
export const loopAround = (execution) => execution.slice(0, execution.lastIndexOf("@"));

/** Whether a key is in an iteration of a loop. */
export const isIn = (key, loop, iteration) => key.startsWith(`${loop}@${iteration}.`);

/** The position of an execution in the tree, without iterations and attempts. */
export function pathOf(execution) {
  return [...execution.matchAll(/\.(\d+)/g)].map((found) => found[1]).join(".");
}

/** The last step down to an execution: its parent, ".", "@" or "!", and the number; null for the root. */
export function lastStep(execution) {
  const found = /^(.*)([.@!])(\d+)$/.exec(execution);
  return found && { above: found[1], mark: found[2], number: Number(found[3]) };
}

/** An execution without its own attempt, under which the end of the node is recorded. */
export const withoutAttempt = (execution) => execution.replace(/!\d+$/, "");
