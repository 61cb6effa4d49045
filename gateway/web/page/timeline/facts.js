// The facts of a bar, in words. Pure.

import { took } from "./call_text.js";
import { count, money } from "../core/times.js";
import { visible } from "../core/text.js";

export const KIND_NAMES = { model: "Model call", tool: "Tool call", wait: "Wait" };

/** `[tone, word]` of the pill of a bar. */
export function stateWord(bar) {
  if (bar.failed) return ["bad", bar.word];
  if (bar.live) return [bar.kind === "wait" ? "wait" : "live", bar.word];
  return [
    ["finished", "approved", "answered", "approved with changes"].includes(bar.word) ? "good" : "",
    bar.word,
  ];
}

/** Rows `[name, value]` of a bar; a third member marks a value that grows with a live bar. */
export function factsOf(bar) {
  const rows = [],
    add = (name, value, mark) =>
      value !== undefined && value !== null && value !== "" && rows.push([name, value, mark]);
  const name = bar.live ? "So far" : bar.kind === "wait" ? "Waited" : "Took";
  if (bar.kind === "model") modelFacts(bar, add);
  if (bar.kind === "tool") add("Server", bar.server && visible(bar.server));
  add(name, took((bar.to - bar.from) / 1000), bar.live ? "data-live" : undefined);
  if (bar.kind === "tool") toolFacts(bar, add);
  if (bar.kind === "wait" && bar.asked) waitFacts(bar, add);
  add(bar.kind === "wait" ? "Asked" : "Began", clock(bar.from));
  if (bar.kind === "wait" && !bar.live) add("Ended", clock(bar.to));
  return rows;
}

function modelFacts({ usage, frame, label, first, from, attempts, live, stream }, add) {
  add("Model", visible(live ? (stream?.model ?? "") : (frame?.body.model ?? label)));
  if (usage) {
    add("Tokens in", count(usage.input_tokens));
    if (usage.cached_tokens) add("Cached", count(usage.cached_tokens));
    if (usage.cache_write_tokens) add("Written to cache", count(usage.cache_write_tokens));
    add("Tokens out", count(usage.output_tokens));
    if (usage.cost_usd !== undefined && usage.cost_usd !== null) add("Cost", money(usage.cost_usd));
  }
  if (first) add("First token", `after ${took((first - from) / 1000)}`);
  if (attempts > 1) add("Attempts", String(attempts));
}

const EFFECTS = { read: "reads only", idempotent: "may be repeated", once: "sent at most once" };

function toolFacts({ effect, attempt, facade, ended }, add) {
  add("Effect", EFFECTS[effect] ?? effect);
  if (attempt) add("Attempt", String(attempt));
  if (facade) add("Called as", visible(facade));
  if (ended?.body.rejected) add("In that agent", "a person rejected a call");
}

function waitFacts({ asked, answered, live, word }, add) {
  const decision = answered?.body.decision;
  if (!live) add("Decision", word);
  if (decision?.decided_by) add("By", visible(decision.decided_by));
  if (decision?.claimed_by) add("On behalf of", visible(decision.claimed_by));
  if (asked.body.rule) add("Rule", visible(asked.body.rule));
  if (live && asked.body.expires) add("Expires", clock(Number(asked.body.expires) * 1000));
}

/** The time of day with milliseconds, in the reader's zone. */
function clock(ms) {
  const date = new Date(ms),
    two = (value, digits = 2) => String(value).padStart(digits, "0");
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map((each) => two(each)).join(":");
  return `${time}.${two(date.getMilliseconds(), 3)}`;
}
