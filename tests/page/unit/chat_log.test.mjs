// What the chat makes of the events of a conversation.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ChatLog } from "../../../gateway/web/page/chat/chat_log.js";
import { nodeOf } from "../../../gateway/web/page/core/keys.js";

const AT = "2026-11-25T09:00:00.000Z";

function events(...pairs) {
  return pairs.map(([type, body = {}], index) => ({
    seq: index + 1,
    type,
    at: new Date(Date.parse(AT) + index * 1000).toISOString(),
    body,
  }));
}

const BEGIN = [
  ["conversation.created", {}],
  ["message.added", { text: "add lamp", command: "c1" }],
  ["run.started", { run: "r1", turn: 1, command: "c1", tree: { type: "llm", name: "agent" } }],
];
const CALLS = {
  key: "1/:1",
  kind: "model",
  node: "agent",
  text: "I add it.",
  tool_calls: [{ name: "add", arguments: { name: "lamp" } }],
};
const ASKED = { id: "u1", key: "1/:1.0", node: "agent", kind: "tool", tool_name: "add" };

const delta = (fields) => ({ type: "model.delta", key: "1/:1", node: "agent", attempt: 1, ...fields });

function logOf(...pairs) {
  const log = new ChatLog();
  log.take({ events: events(...BEGIN, ...pairs) });
  return log;
}

const kinds = (log) => log.items.map(({ kind }) => kind);
const reply = (log) => log.items.find(({ kind }) => kind === "reply");
const callsOf = (log) => log.items.flatMap(({ parts = [] }) => parts).flatMap(({ calls = [] }) => calls);

test("a message, a reply and its end", () => {
  const log = logOf(
    [
      "step.finished",
      { ...CALLS, tool_calls: [], usage: { input_tokens: 3, output_tokens: 2, cost_usd: 0.5 } },
    ],
    ["run.finished", { run: "r1", text: "I add it." }],
  );
  assert.deepEqual(kinds(log), ["message", "reply"]);
  assert.equal(log.title, "add lamp");
  assert.equal(log.run.state, "finished");
  assert.deepEqual(log.usage, { input: 3, output: 2, cost: 0.5 });
});

test("the text of a run that no node said is an answer", () => {
  const log = logOf(["run.finished", { run: "r1", text: "Rejected." }]);
  assert.deepEqual(kinds(log), ["message", "answer"]);
});

test("a call waits for its approval, runs and ends", () => {
  const log = logOf(["step.finished", CALLS], ["approval.requested", ASKED], ["run.waiting", {}]);
  assert.equal(callsOf(log)[0].state, "waiting");
  assert.deepEqual(log.pending, ["u1"]);
  const more = events(
    ...Array(6).fill(["", {}]),
    ["approval.voted", { id: "u1", decision: { approved: true }, voters: ["mara"], needed: 2 }],
    ["approval.resolved", { id: "u1", decision: { approved: true } }],
    ["run.resumed", {}],
    [
      "tool.started",
      { key: "1/:1.0", attempt: 1, tool: "add", server: "s", arguments: { name: "lamp" }, node: "agent" },
    ],
    ["tool.finished", { key: "1/:1.0", attempt: 1, result: { content: "made", is_error: false } }],
  ).slice(6);
  log.take({ events: more });
  const [call] = callsOf(log);
  assert.deepEqual([call.state, call.result, call.seconds], ["done", "made", 1]);
  assert.deepEqual(log.pending, []);
  assert.equal(log.items.find(({ kind }) => kind === "approval").state, "decided");
  assert.equal(log.run.state, "running");
});

test("approvals of one tool that wait together are one item, those asked later another", () => {
  const ask = (id, tool_name = "add", kind = "tool") => [
    "approval.requested",
    { ...ASKED, id, tool_name, kind },
  ];
  const yes = (id) => ["approval.resolved", { id, decision: { approved: true } }];
  const log = logOf(
    ask("u1"),
    ask("x", "remove"),
    ask("u2"),
    ask("o", "add", "outcome_unknown"),
    yes("u1"),
    ask("u3"),
  );
  const groups = () =>
    log.items
      .filter(({ kind }) => kind === "approval")
      .map((item) => [item, ...item.more].map(({ uuid }) => uuid));
  assert.deepEqual(groups(), [["u1", "u2", "u3"], ["x"], ["o"]]);
  assert.deepEqual(
    ["u1", "u3", "x"].map((uuid) => log.itemOf(uuid)),
    ["au1", "au1", "ax"],
  );
  assert.deepEqual(log.pending, ["x", "u2", "o", "u3"]);
  const before = [...Array(9).fill(["", {}])];
  const more = events(...before, yes("u2"), yes("u3"), ask("u4")).slice(9);
  const changed = log.take({ events: more });
  assert.deepEqual(groups(), [["u1", "u2", "u3"], ["x"], ["o"], ["u4"]]);
  const [{ state, more: others }] = [...changed];
  assert.deepEqual([state, others.map((one) => one.state)], ["decided", ["decided", "decided"]]);
});

test("a node goes on below the card that it asked for", () => {
  const log = logOf(
    ["step.finished", CALLS],
    ["approval.requested", ASKED],
    ["approval.resolved", { id: "u1", decision: { approved: false } }],
    ["step.finished", { key: "1/:2", kind: "model", node: "agent", text: "Then not.", tool_calls: [] }],
  );
  assert.deepEqual(kinds(log), ["message", "reply", "approval", "reply"]);
  assert.equal(callsOf(log)[0].state, "rejected");
});

test("pieces of a reply grow, a higher attempt replaces them, and the whole reply ends them", () => {
  const log = logOf();
  log.take({ deltas: [delta({ text: "Hel" }), delta({ text: "lo" })] });
  const part = reply(log).parts[0];
  assert.deepEqual([part.text, part.live], ["Hello", true]);
  log.take({ deltas: [delta({ attempt: 2, text: "Good" }), delta({ attempt: 1, text: "late" })] });
  assert.equal(part.text, "Good");
  log.take({
    events: [{ seq: 4, type: "step.finished", at: AT, body: { ...CALLS, text: "Good day." } }],
    deltas: [delta({ attempt: 2, text: "!" })],
  });
  assert.deepEqual([part.text, part.live], ["Good day.", false]);
  assert.equal(reply(log).parts.filter(({ calls }) => !calls).length, 1);
});

test("a text that begins within a sentence says so", () => {
  const log = logOf();
  log.take({ deltas: [delta({ text: " of the story" })] });
  assert.equal(reply(log).parts[0].partial, true);
});

test("a call that is being written becomes the call", () => {
  const log = logOf();
  log.take({
    deltas: [
      delta({ call: { index: 0, name: "add", json: "{" } }),
      delta({ call: { index: 1, name: "gone", json: "" } }),
    ],
  });
  assert.deepEqual(
    callsOf(log).map(({ state }) => state),
    ["writing", "writing"],
  );
  log.take({ events: [{ seq: 4, type: "step.finished", at: AT, body: CALLS }] });
  assert.deepEqual(
    callsOf(log).map(({ tool, state }) => [tool, state]),
    [["add", "requested"]],
  );
});

test("what was not sent says why", () => {
  const log = logOf(
    ["step.finished", CALLS],
    ["step.finished", { key: "1/:1.0", kind: "call", node: "agent", outcome: "denied", content: "no" }],
  );
  assert.deepEqual([callsOf(log)[0].state, callsOf(log)[0].result], ["denied", "no"]);
});

test("a run that is cancelled leaves nothing open", () => {
  const log = logOf(
    ["step.finished", CALLS],
    ["approval.requested", ASKED],
    ["approval.void", { id: "u1", reason: "cancelled" }],
    ["run.cancelled", {}],
  );
  assert.equal(callsOf(log)[0].state, "cancelled");
  assert.deepEqual(kinds(log), ["message", "reply", "approval", "cancelled"]);
  assert.deepEqual(log.pending, []);
});

test("a failure knows where it was", () => {
  const error = { code: "model_error", message: "no" };
  const log = logOf(
    ["step.finished", { key: "1/:1", kind: "model", node: "agent", error }],
    ["step.finished", { key: "1/", kind: "node", node: "agent", error }],
    ["run.failed", { code: "model_error", message: "no" }],
  );
  assert.deepEqual([log.items.at(-1).kind, log.items.at(-1).key], ["failure", "1/:1"]);
});

test("a token that is needed is asked for once", () => {
  const log = logOf(
    ["run.auth_required", { server: "s", status: 401 }],
    ["run.resumed", {}],
    ["run.auth_required", { server: "s", status: 403 }],
  );
  assert.deepEqual(
    log.items.filter(({ kind }) => kind === "auth").map(({ open }) => open),
    [false, true],
  );
});

test("a message that comes during a run has its turn later", () => {
  const log = logOf(["message.added", { text: "and a mug", command: "c2" }]);
  const queued = log.items.at(-1);
  assert.equal(queued.queued, true);
  log.take({
    events: [
      { seq: 6, type: "run.finished", at: AT, body: { text: "" } },
      { seq: 7, type: "run.started", at: AT, body: { command: "c2", turn: 2 } },
    ],
  });
  assert.equal(queued.queued, false);
});

test("what changed is all that is told", () => {
  const log = logOf(["step.finished", CALLS]);
  const changed = log.take({
    events: [
      {
        seq: 5,
        type: "tool.started",
        at: AT,
        body: { key: "1/:1.0", tool: "add", server: "s", attempt: 1, arguments: {} },
      },
    ],
  });
  assert.deepEqual([...changed], [reply(log)]);
});

test("keys name nodes", () => {
  assert.deepEqual(["1/.0:2.1", "1/.0@2.1!3:4", "1/.0>", "1/"].map(nodeOf), [
    "1/.0",
    "1/.0@2.1!3",
    "1/.0",
    "1/",
  ]);
});

test("10,000 events take less than 100 ms", () => {
  const many = [];
  for (let turn = 1; many.length < 10_000; turn += 1) {
    many.push(
      ["message.added", { text: "go on", command: `c${turn}` }],
      ["run.started", { turn, command: `c${turn}`, run: `r${turn}` }],
    );
    for (let call = 1; call <= 20; call += 1) {
      const key = `${turn}/.0:${call}`;
      many.push(
        [
          "step.finished",
          { key, kind: "model", node: "plan", text: "next", tool_calls: [{ name: "look", arguments: {} }] },
        ],
        [
          "tool.started",
          { key: `${key}.0`, attempt: 1, tool: "look", server: "s", arguments: {}, node: "plan" },
        ],
        ["tool.finished", { key: `${key}.0`, attempt: 1, result: { content: "found", is_error: false } }],
      );
    }
    many.push(["run.finished", { text: "next" }]);
  }
  const frames = events(...many);
  const timed = (batches) => {
    const log = new ChatLog(),
      began = performance.now();
    for (const batch of batches) log.take({ events: batch });
    return performance.now() - began;
  };
  const fastest = (batches) => Math.min(...Array.from({ length: 5 }, () => timed(batches))); // others use this machine too
  const whole = fastest([frames]),
    single = fastest(frames.map((frame) => [frame]));
  console.log(`${whole} ms at once, ${single} ms one by one`);
});

test("a message has the pictures that its user sent", () => {
  const log = new ChatLog();
  const pictures = [{ media_type: "image/gif", data: "QUJD" }];
  log.take({ events: events(["message.added", { text: "see", command: "c1", pictures }]) });
  assert.deepEqual(log.messages[0].pictures, ["data:image/gif;base64,QUJD"]);
});
