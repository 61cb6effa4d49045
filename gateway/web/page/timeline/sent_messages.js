// The messages that a model was sent, rebuilt from the events before its call. Pure. They are not complete:
// tool descriptions, values of variables, and cuts to fit the model's context are in no event.

import { isIn, loopAround, nodeOf, parseKey } from "../core/keys.js";

const PLACEHOLDER = /(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}/g;

/** Messages as `{role, text, calls?, name?}`, in order, for the model call `bar`, of all `events`. */
export function sentMessages(events, bar, turns) {
  const key = parseKey(bar.key),
    turn = turns.find((each) => each.number === key.turn);
  const lane = turn?.byPath.get(key.path);
  if (!lane) return [];
  const before = upTo(events, bar),
    calls = callsOf(before),
    messages = [];
  const iteration = /.*@(\d+)/.exec(key.execution)?.[1];
  const values = { ...sessionOf(before, turn), user_message: turn.message, ...(iteration && { iteration }) };
  const prompt = String(lane.spec.prompt ?? "").replace(PLACEHOLDER, (whole, name) =>
    Object.hasOwn(values, name) ? values[name] : whole,
  );
  if (prompt) messages.push({ role: "system", text: prompt });
  const replies = before.filter(
    ({ type, body }) => type === "step.finished" && body.kind === "model" && !body.error,
  );
  if (lane.type === "llm" && lane.spec.history !== "turn") {
    for (const each of turns.filter(({ number }) => number < turn.number)) {
      messages.push({ role: "user", text: each.message });
      for (const { body } of replies) {
        const own = body.node === lane.name && parseKey(body.key).turn === each.number;
        if (own && body.tool_calls?.length) messages.push(...exchange(body, calls));
      }
      const answer = each.end && answerOf(each.end);
      if (answer) messages.push({ role: "assistant", text: answer });
    }
  }
  messages.push({ role: "user", text: turn.message });
  if (Number(iteration) > 1) {
    const loop = loopAround(key.execution);
    for (const { body } of replies) {
      const isEarlier = loopAround(nodeOf(body.key)) === loop && !isIn(body.key, loop, iteration);
      if (body.node === lane.name && isEarlier) messages.push(...exchange(body, calls));
    }
    messages.push({ role: "user", text: `Iteration ${iteration}.` });
  }
  for (const { body } of replies) {
    const each = parseKey(body.key);
    if (each.execution === key.execution && each.call < key.call) messages.push(...exchange(body, calls));
  }
  return messages;
}

function upTo(events, bar) {
  if (!bar.frame) return events;
  const end = events.findIndex((frame) => frame.seq === bar.frame.seq);
  return end < 0 ? events : events.slice(0, end);
}

/** The note about a run's end that later turns contain. */
function answerOf({ type, body }) {
  if (type === "run.cancelled") return "The run was cancelled.";
  if (type === "run.failed") return (body.code === "model_error" ? "LLM error: " : "") + body.message;
  return body.text;
}

function sessionOf(events, turn) {
  const values = {};
  let inside = false;
  for (const { type, body } of events) {
    if (type === "run.started") inside = body.turn === turn.number;
    else if (inside && type === "state.set") values[body.key] = body.value;
  }
  return values;
}

/** A reply and the results of its calls, with the arguments that were actually sent. */
function exchange(reply, calls) {
  const results = [];
  const sent = (reply.tool_calls ?? []).map((call, index) => {
    const { started, text } = calls.get(`${reply.key}.${index}`) ?? {};
    results.push({ role: "tool", name: call.name, text: text ?? "(no result was recorded)" });
    return { name: call.name, arguments: started && !started.facade ? started.arguments : call.arguments };
  });
  return reply.text || sent.length
    ? [{ role: "assistant", text: reply.text ?? "", calls: sent }, ...results]
    : [];
}

/** By key of the tool call: its last `tool.started`, and the text of its result. */
function callsOf(events) {
  const calls = new Map();
  for (const { type, body } of events) {
    const call = calls.get(body.key) ?? {};
    if (type === "tool.started") call.started = body;
    else if (type === "tool.finished") call.text = body.result?.content;
    else if (type === "step.finished" && body.kind === "call") call.text = body.content;
    else continue;
    calls.set(body.key, call);
  }
  return calls;
}
