// The state of a conversation as a word and a colour. Pure.

import { plural } from "./text.js";

export const RUN_STATES = {
  "run.started": "running",
  "run.resumed": "running",
  "run.waiting": "waiting",
  "run.auth_required": "auth_required",
  "run.finished": "finished",
  "run.failed": "failed",
  "run.cancelled": "cancelled",
};
const REASONS = {
  approval_expired: "no decision was made in time",
  context_too_large: "too much context",
  delegation_failed: "another agent failed",
  internal_error: "internal error",
  limit_reached: "limit reached",
  model_error: "model error",
  no_route: "no route",
  replay_mismatch: "log does not fit",
  timed_out: "timed out",
  tree_unavailable: "tree unavailable",
};

export const reason = (code) => REASONS[code] ?? code ?? "";

/** `item`: a conversation of the list; `waiting`: how many of its approvals are pending. */
export function stateOf(item, waiting) {
  if (item.status === "completed") return { dot: "ring", word: "completed", tone: "" };
  if (waiting || item.status === "waiting_approval") {
    const many = Math.max(1, waiting);
    return {
      dot: "wait",
      word: `${plural(many, "approval")} ${many === 1 ? "waits" : "wait"}`,
      tone: "wait",
    };
  }
  const state = item.run?.state;
  if (state === "running") return { dot: "live", word: "working", tone: "" };
  if (state === "auth_required") return { dot: "wait", word: "waits for a token", tone: "wait" };
  if (state === "failed") return { dot: "bad", word: `failed: ${reason(item.run.code)}`, tone: "bad" };
  if (state === "cancelled") return { dot: "ring", word: "stopped", tone: "" };
  return { dot: "ring", word: "", tone: "" };
}

/** The pill in the header; `log` is a ChatLog. */
export function pillOf(log) {
  if (log.completed) return { tone: "", sign: "check", word: "Completed" };
  if (log.pending.length) return { tone: "wait", sign: "pause", word: "Waits for you" };
  const words = {
    running: { tone: "live", sign: "load", word: "Working" },
    waiting: { tone: "wait", sign: "pause", word: "Waits for you" },
    auth_required: { tone: "wait", sign: "key", word: "Waits for a token" },
    failed: { tone: "bad", sign: "alert", word: "Failed" },
    cancelled: { tone: "", sign: "stop", word: "Stopped" },
  };
  return words[log.run?.state] ?? null;
}
