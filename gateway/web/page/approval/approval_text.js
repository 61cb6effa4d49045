// The words about approvals: headings, kinds, decisions, and one-line summaries. Pure.

import { Exact, stringify } from "../core/exact_json.js";
import { differences, flat, isObject } from "./argument_diff.js";
import { plural, shorten, visible } from "../core/text.js";

/** The kind whose words decide the approval: for a proxied question, the kind of the original question. */
export function decidedAs(approval) {
  if (approval.kind !== "proxy") return approval.kind;
  return ["outcome_unknown", "elicitation", "tool", "checkpoint"].includes(approval.remote_kind)
    ? approval.remote_kind
    : "proxy";
}

/** Whether a person may change the arguments. */
export function isEditable(approval) {
  return decidedAs(approval) === "tool";
}

export const KINDS = {
  tool: "Tool calls",
  proxy: "Of other agents",
  checkpoint: "Checkpoints",
  outcome_unknown: "Unknown outcomes",
  elicitation: "Questions of servers",
};

const ICONS = {
  tool: "tool",
  proxy: "hop",
  checkpoint: "flag",
  outcome_unknown: "broken",
  elicitation: "question",
};

export function iconOf(approval) {
  return ICONS[approval.kind] ?? "pause";
}

/** The agent that asks a proxied question: the last one on the path. */
export function askingAgent(approval) {
  return approval.path?.at(-1) ?? approval.remote_agent_name ?? "another agent";
}

/** The heading as pieces: text, or `{code}` for a name from code. None of it is a text of a model, of a
 * server or of another agent, which could pass for a question of this agent. */
export function heading(approval) {
  const tool = { code: approval.tool_name };
  const proxy = approval.kind === "proxy";
  const where = proxy
    ? ` in ${askingAgent(approval)}`
    : approval.server
      ? ` on ${whereOf(approval.server)}`
      : "";
  const goOn = [`${askingAgent(approval)} asks whether to go on`];
  switch (decidedAs(approval)) {
    case "outcome_unknown":
      return ["Did ", tool, proxy ? `${where} happen?` : " happen?"];
    case "elicitation":
      return [`${proxy ? askingAgent(approval) : approval.server} asks a question`];
    case "checkpoint":
      return proxy ? goOn : [firstLine(plain(approval.description)) || `Go on after ${approval.tool_name}?`];
    case "proxy":
      return goOn;
    default:
      return ["Run ", tool, `${where}?`];
  }
}

/** The heading of an approval that is no longer pending. */
export function doneHeading(approval) {
  const pieces = heading(approval);
  if (pieces[0] === "Run ") return [pieces[1], pieces[2].replace(/\?$/, "")];
  return pieces;
}

function whereOf(server) {
  return server.startsWith("a2a:") ? `agent ${server.slice(4)}` : server;
}

function firstLine(text = "") {
  return shorten(text.trim().split("\n", 1)[0], 140);
}

/** The first line of Markdown as plain text, for a heading. */
function plain(text = "") {
  return text.replace(/^#+\s+/, "").replace(/(\*\*|__|`)(.+?)\1/g, "$2");
}

/** The line above the heading. */
export function standing(approval) {
  switch (approval.state) {
    case "decided":
      return decisionText(approval);
    case "expired":
      return "Expired";
    case "void":
      return "No longer asked";
  }
  if (approval.kind === "proxy") return "Waits for you, asked by another agent";
  if (approval.requires?.quorum > 1) return votesText(approval);
  return (
    {
      outcome_unknown: "Unknown outcome",
      checkpoint: `Checkpoint ${approval.node ?? approval.tool_name}`,
    }[approval.kind] ?? "Waits for you"
  );
}

/** The persons who have approved: "Mara and Ben". */
export const votersOf = ({ votes = [] }) => votes.map(({ by }) => by).join(" and ");

/** "1 of 2 approvals, by Mara". */
function votesText(approval) {
  const by = votersOf(approval);
  return `${approval.votes?.length ?? 0} of ${approval.requires.quorum} approvals${by && `, by ${by}`}`;
}

const WORDS = {
  respond: "Answered",
  retry: "Sent once more",
  done: "Taken as done",
  failed: "Taken as failed",
  accept: "Answered",
  decline: "Declined",
  cancel: "Cancelled",
};

const TONES = { respond: "good", done: "good", retry: "good", accept: "good", failed: "bad" };

/** The arguments of the call: those that were approved, if they differ from those asked for. */
export const argumentsOf = ({ tool_args = {}, decision }) => decision?.arguments ?? tool_args;

/** The changes that were approved. */
export const changesOf = (approval) => differences(approval.tool_args ?? {}, argumentsOf(approval));

/** The decision in words, without author and time. */
export function decisionText(approval) {
  const { decision } = approval;
  if (!decision) return "Decided";
  if (decision.action) return WORDS[decision.action] ?? decision.action;
  if (!decision.approved) return "Rejected";
  const changes = changesOf(approval).length;
  return changes ? `Approved with ${plural(changes, "change")}` : "Approved";
}

/** The colour of a decided card: "good", "bad" or "". */
export function toneOf({ state, decision }) {
  if (state !== "decided" || !decision) return "";
  if (decision.action)
    return TONES[decision.action] ?? "";
  return decision.approved ? "good" : "bad";
}

/** A decision without an answer yet, in words. */
export function sentText(body) {
  if (body.action) return WORDS[body.action]?.toLowerCase() ?? body.action;
  return body.approved ? (body.arguments ? "approved with changes" : "approved") : "rejected";
}

/** Why an approval is void, for people. */
export function voidReason(approval) {
  if (approval.void_reason) return sentence(approval.void_reason);
  if (approval.superseded_by && approval.kind === "tool") {
    return "The tool changed while this waited, so it is asked anew.";
  }
  if (approval.superseded_by) return "Another question took its place.";
  return "The run or the call that it was about has ended.";
}

export function sentence(text) {
  const made = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(made) ? made : `${made}.`;
}

/** The description without the parts that repeat the tool's name and arguments, in Markdown; or "". */
export function addedDescription(approval) {
  const { description = "", tool_args: args = {} } = approval;
  const kind = decidedAs(approval);
  if (approval.kind === "elicitation") return "";
  if (approval.kind === "checkpoint") return belowHeading(description);
  const names = new Set(["args", ...Object.keys(args).map((name) => name.toLowerCase())]);
  const told = (line) => {
    const label = /^([\w-]+): /.exec(line)?.[1].toLowerCase();
    return label !== undefined && (names.has(label) || (label === "message" && "message" in args));
  };
  const paragraphs = description.split(/\n{2,}/).filter((paragraph) => {
    if (/^\*\*[^\n]*\*\*$/.test(paragraph.trim())) return false;
    // The heading of the card says it.
    if (approval.kind === "tool" && paragraph.startsWith("Server: ")) return false;
    // The foot of the card says it.
    if (approval.unshown && paragraph.startsWith("The question cannot be approved:")) return false;
    if (
      kind === "outcome_unknown" &&
      approval.kind !== "proxy" &&
      paragraph.startsWith("The call was sent, but")
    )
      return false;
    return !paragraph.split("\n").every(told);
  });
  return paragraphs.join("\n\n").trim();
}

/** Markdown without its first line, if that line is the complete heading of the card. */
function belowHeading(description) {
  const [first, ...rest] = description.trim().split("\n");
  return first.length <= 140 && !/[[\]`<>]/.test(first) ? rest.join("\n").trim() : description;
}

/** The cause of an unknown outcome, such as "the connection was lost"; or undefined. */
export function unknownReason(approval) {
  return /The call was sent, but (.+?)\. It may or may/s.exec(approval.description ?? "")?.[1];
}

/** Why a call asks, in a sentence, where no rule of the agent file says so. `name` is that of the rule. */
export function whyText(approval, name) {
  if (/Hint: /.test(name))
    return `The tool itself says ${visible(name)}. No rule of the agent file decides such calls.`;
  if (name.startsWith("approval.unannotated"))
    return `The server does not say whether the tool may do harm, and such calls ask (${visible(name)}).`;
  if (name === "emergency stop") return "The agent was halted when the call was about to be sent.";
  if (approval.kind === "checkpoint")
    return "The tree has an approval node here: it always asks before it goes on.";
  if (approval.kind === "proxy")
    return "Another agent works on the call and asks. Such a question always goes to a person.";
  if (approval.kind === "outcome_unknown")
    return "The call may not be repeated by itself, and its outcome is unknown.";
  if (approval.kind === "elicitation")
    return "The tool server wants to know something in the course of the call.";
  return visible(name);
}

/** The hints of a server as chips `{text, bad}`. */
export function hintChips(hints) {
  const chips = [];
  const say = (value, yes, no, bad = false) => {
    if (value === true && yes) chips.push({ text: yes, bad });
    if (value === false && no) chips.push({ text: no, bad: false });
  };
  say(hints?.destructiveHint, "destructive", "not destructive", true);
  say(hints?.readOnlyHint, "only reads", null);
  say(hints?.idempotentHint, "idempotent", "not idempotent");
  say(hints?.openWorldHint, "reaches beyond its server", null);
  return chips;
}

/** A value on one line. */
export function shortValue(value, limit = 60) {
  let text;
  if (value === undefined) text = "not set";
  else if (typeof value === "string") text = value === "" ? '""' : value.replace(/\s+/g, " ");
  else if (typeof value === "boolean") text = value ? "yes" : "no";
  else if (value instanceof Exact) text = value.text;
  else if (
    Array.isArray(value) &&
    value.every((item) => item === null || typeof item !== "object" || item instanceof Exact)
  ) {
    text = value.length ? value.map((item) => shortValue(item, limit)).join(" ") : "[]";
  } else text = stringify(value);
  return shorten(text, limit);
}

/** The arguments on one line, for a list: values, with the name where a value alone is unclear. */
export function summary(approval, limit = 90) {
  if (approval.kind === "elicitation") {
    const fields = Object.keys(approval.input_schema?.properties ?? {}).length;
    const wanted = approval.url ? "an address to visit" : `${plural(fields, "field")} to fill in`;
    return `${wanted}: \u201c${shortValue(approval.message ?? "", limit)}\u201d`;
  }
  if (approval.kind === "checkpoint") return "The tree asks before it goes on";
  const none = approval.unshown ? "not shown" : "without arguments";
  return shorten(summaryOf(argumentsOf(approval)), limit) || none;
}

export function summaryOf(args) {
  if (!isObject(args)) return "";
  const parts = flat(args)
    .filter(([path]) => path !== "")
    .map(([path, value]) => {
      const named = typeof value !== "string" || value.length < 2;
      return named ? `${path.split(".").at(-1)} ${shortValue(value)}` : shortValue(value);
    });
  return parts.join(", ");
}

/** A key: approvals with the same key can be decided together. Null: this one cannot; only the arguments of
 * calls are compared, so whatever has a question of its own has to be read. */
export function groupOf(approval) {
  const kind = decidedAs(approval);
  if (kind !== "tool" || approval.state !== "pending" || approval.unshown) return null;
  const { tool_name, server, remote_agent_name, path } = approval;
  return JSON.stringify([approval.kind, kind, tool_name, server ?? "", remote_agent_name ?? "", path ?? []]);
}

/** So many approvals of one tool that wait together are one card with a table. */
export const TOGETHER = 4;

/** Time left as a clock, "29:52", or in larger units if it is long. */
export function timeLeft(milliseconds) {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  if (seconds >= 86_400)
    return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} m`;
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** What has become of notifications, the oldest first, for each channel: `times` that one has arrived, `at`
 * for the last of these, and whether one `waits`. */
export function channelsTold(given) {
  const channels = new Map();
  for (const { channel, state, at } of given ?? []) {
    const known = channels.get(channel) ?? { channel, times: 0, at: null, waits: false };
    if (state === "arrived") Object.assign(known, { times: known.times + 1, at });
    known.waits ||= state === "pending";
    channels.set(channel, known);
  }
  return [...channels.values()];
}
