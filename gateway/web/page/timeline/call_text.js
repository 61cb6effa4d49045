// A tool call in one line. Pure.

import { parse, stringify } from "../core/exact_json.js";
import { shorten, visible } from "../core/text.js";
import { duration } from "../core/times.js";

const LENGTH = 160;
const STATES = {
  writing: { sign: "edit", word: "being written", tone: "is-live" },
  requested: { sign: "clock", word: "next", tone: "faint" },
  waiting: { sign: "pause", word: "waits", tone: "is-wait" },
  running: { sign: "load", word: "running", tone: "is-live", moves: true },
  done: { sign: "check", word: "finished", tone: "is-good", quiet: true },
  failed: { sign: "x", word: "failed", tone: "is-bad" },
  rejected: { sign: "x", word: "rejected", tone: "muted" },
  answered: { sign: "x", word: "not sent, answered by a person", tone: "muted" },
  expired: { sign: "clock", word: "expired", tone: "muted" },
  cancelled: { sign: "stop", word: "not sent", tone: "muted" },
  unknown: { sign: "question", word: "outcome unknown", tone: "is-wait" },
  denied: { sign: "x", word: "denied", tone: "is-bad" },
  not_found: { sign: "x", word: "no such tool", tone: "is-bad" },
  invalid: { sign: "x", word: "invalid", tone: "is-bad" },
  declined: { sign: "x", word: "declined", tone: "muted" },
  exit_loop: { sign: "hop", word: "left the loop", tone: "muted" },
};

/** `{sign, word, tone}` of a call. With `quiet`, only assistive technology gets the word. */
export function callState(call) {
  const state = STATES[call.state] ?? { sign: "question", word: String(call.state), tone: "muted" };
  return call.state === "cancelled" && call.began ? { ...state, word: "stopped" } : state;
}

/** The progress of a call, else its result, else its arguments. */
export function callSummary(call) {
  if (call.progress) {
    const { done, total, message } = call.progress;
    const share = total ? `${Math.floor((100 * done) / total)} %` : String(done);
    return shorten(visible(message ? `${share}, ${message}` : share), LENGTH);
  }
  if (
    ["done", "failed", "unknown", "denied", "not_found", "invalid", "declined"].includes(call.state) &&
    call.result
  ) {
    return resultLine(String(call.result));
  }
  return argumentsLine(call.arguments);
}

/** `name: lamp, value: 3`. */
export function argumentsLine(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object" || Array.isArray(value))
    return shorten(visible(oneLine(stringify(value))), LENGTH);
  const words = Object.entries(value).map(
    ([name, one]) => `${name}: ${typeof one === "string" ? one : stringify(one)}`,
  );
  return shorten(visible(oneLine(words.join(", ").slice(0, 2000))), LENGTH);
}

function resultLine(text) {
  if (text.startsWith("{") && text.length < 4000) {
    try {
      return argumentsLine(parse(text));
    } catch {
      // It only looks like JSON.
    }
  }
  return shorten(visible(oneLine(text.slice(0, 2000))), LENGTH);
}

const oneLine = (text) => text.replace(/\s+/g, " ").trim();

/** A duration; below 0.05 seconds in milliseconds. */
export const took = (seconds) =>
  seconds < 0.05 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : duration(seconds);
