// What the agent's page says of runs, use, tools and parts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { partState, withProblems } from "../../../gateway/web/page/agent/agent_parts.js";
import { days, runs, sums, ticks } from "../../../gateway/web/page/agent/agent_runs.js";
import { groups, hintWords, outcome, reasonWords } from "../../../gateway/web/page/agent/agent_tools.js";
import { ruleParts, shadowWords } from "../../../gateway/web/page/agent/policy.js";
import { matrix, said } from "../../../gateway/web/page/agent/policy_trial.js";
import { answerParts } from "../../../gateway/web/page/core/answer_bar.js";
import { parse } from "../../../gateway/web/page/core/exact_json.js";
import { byNode, policyWords, toolPolicies } from "../../../gateway/web/page/core/policy_words.js";
import { money } from "../../../gateway/web/page/core/times.js";

const conversation = (id, state, more = {}) => ({
  id,
  title: `title ${id}`,
  created_at: "2026-11-21T10:00:00.000Z",
  updated_at: `2026-11-21T10:0${id}:00.000Z`,
  usage: { input_tokens: 10, output_tokens: 2 },
  pending_approvals: [],
  approvals: [],
  run: state && { state, usage: {} },
  ...more,
});

test("failures come first, then what needs a person, the newest first", () => {
  const list = [
    conversation(1, "finished"), conversation(2, "waiting"), conversation(3, "failed"), conversation(4, null),
    conversation(5, "failed"), conversation(6, "running"), conversation(7, "auth_required"),
  ];
  assert.deepEqual(runs(list).map(({ id }) => id), [5, 3, 7, 2, 6, 1]);
});

test("sums over conversations", () => {
  const asked = (seconds, decision) => ({
    created_at: "2026-11-21T10:00:00.000Z",
    state: decision ? "decided" : "expired",
    decision: decision && { ...decision, decided_at: new Date(Date.UTC(2026, 10, 21, 10, 0, seconds)).toISOString() },
  });
  const approvals = [asked(10, { approved: true }), asked(30, { approved: false }), asked(20, { action: "retry" }), asked(0, null)];
  const found = sums([
    conversation(1, "failed", { approvals, usage: parse('{"input_tokens":10,"output_tokens":2,"cost_usd":0.10}') }),
    conversation(2, "finished", { usage: { input_tokens: 1, output_tokens: 1, cost_usd: 0.2 } }),
  ]);
  assert.equal(found.wait, 20);
  assert.deepEqual([found.runs, found.failed, found.approvals, found.rejected, found.expired], [2, 1, 4, 1, 1]);
  assert.equal(found.cost.toFixed(2), "0.30");
  assert.equal(found.tokens, 14);
});

test("nothing is known of the waits and the cost of no conversations", () => {
  assert.deepEqual([sums([]).wait, sums([]).cost], [null, null]);
});

test("days end with today, and leave out what is older", () => {
  const now = new Date(2026, 10, 21, 0, 30);
  const at = (day) => new Date(2026, 10, day, 12).toISOString();
  const made = days([
    conversation(1, null, { created_at: at(21), usage: { input_tokens: 5, output_tokens: 1, cost_usd: 1 } }),
    conversation(2, null, { created_at: at(21) }),
    conversation(3, null, { created_at: at(1) }),
  ], 14, now);
  assert.equal(made.length, 14);
  const { date, ...today } = made.at(-1);
  assert.equal(date.toDateString(), now.toDateString());
  assert.deepEqual(today, { cost: 1, input: 15, output: 3, conversations: 2 });
  assert.equal(made.slice(0, -1).every((day) => day.conversations === 0), true);
});

test("each day is there once when the clocks change", () => {
  const found = days([], 30, new Date(2026, 3, 10, 0, 5)).map(({ date }) => date.toDateString());
  assert.equal(new Set(found).size, 30);
});

test("an axis has round steps and room for the most", () => {
  assert.deepEqual(ticks(7), [0, 2, 4, 6, 8]);
  assert.deepEqual(ticks(4), [0, 1, 2, 3, 4]);
  assert.deepEqual(ticks(0), [0, 1]);
  for (const most of [0.0003, 0.7, 1, 99, 12345, 1e9]) {
    const marks = ticks(most);
    assert.ok(marks.at(-1) >= most * (1 - 1e-9) && marks.length <= 6, `${most}: ${marks}`);
  }
});

test("dollars are in cents, or as small as they are", () => {
  const amounts = [undefined, 0, 12.345, 0.5, 0.0123, 0.00041];
  assert.deepEqual(amounts.map(money), ["", "$0.00", "$12.35", "$0.50", "$0.012", "$0.00041"]);
});

test("a reason is the name of the rule, or the hint in words", () => {
  assert.equal(reasonWords({ rule: { name: "branches\u202e stay" }, reason: "x" }), "branches\\u{202e} stay");
  assert.equal(reasonWords({ rule: null, reason: "destructiveHint: true" }), "Declared destructive");
  assert.equal(reasonWords({ rule: null, reason: "approval.in_loop: run" }), "approval.in_loop: run");
});

test("hints that matter", () => {
  assert.deepEqual(hintWords({ readOnlyHint: true, destructiveHint: false, idempotentHint: true }), [["", "reads only"]]);
  assert.deepEqual(hintWords({ destructiveHint: true, idempotentHint: true }), [["bad", "destructive"], ["", "idempotent"]]);
  assert.deepEqual(hintWords({}), []);
});

test("in a tree the nodes say what becomes of a call", () => {
  const run = { node: "a", policy: "run", reason: "r", rule: null }, ask = { node: "b", policy: "ask", reason: "s", rule: null };
  assert.deepEqual(outcome({ policy: "run", reason: "r", rule: null }).policies, ["run"]);
  assert.deepEqual(outcome({ policy: "run", reason: "x", nodes: [ask, { ...ask, node: "c" }] }).verdict, ask);
  const both = outcome({ policy: "run", nodes: [run, ask] });
  assert.deepEqual([both.policies, both.verdict, both.words], [["ask", "run"], null, "Depends on the node"]);
  assert.deepEqual(outcome({ policy: "run", nodes: [] }).policies, ["unused"]);
});

test("tools stand under their servers in the order of the file", () => {
  const tools = [{ name: "x", server: "two" }, { name: "all", server: "one", inside: [{ name: "in" }] }, { name: "a2a_b" }];
  const found = groups(tools, [{ name: "one" }, { name: "two" }, { name: "empty" }]);
  assert.deepEqual(found.map(([server, list]) => [server, list.map(({ name }) => name)]),
    [["one", ["all", "in"]], ["two", ["x"]], ["", ["a2a_b"]]]);
});

test("parts that need attention", () => {
  const parts = [{ state: "connected" }, { state: "unknown" }, { state: "disconnected" }, { state: "reached", error: "e" }];
  assert.equal(withProblems(parts).length, 2);
  assert.deepEqual(partState("new\u200b"), ["ring", "new\\u{200b}"]);
});

test("policies in words", () => {
  assert.equal(policyWords(["ask", "run", "ask"]), "2 ask, 1 runs");
  assert.equal(policyWords(["run", "run"]), "all run");
  assert.equal(policyWords(["ask"]), "1 asks");
  assert.equal(policyWords(["deny", "run", "run", "deny", "ask"]), "1 asks, 2 run, 2 are denied");
  assert.equal(policyWords([]), "");
});

test("the nodes of a tree say how many tools ask, where they differ", () => {
  const tool = (policy, nodes) => ({ policy, nodes: nodes && Object.entries(nodes).map(([node, policy]) => ({ node, policy })) });
  assert.equal(toolPolicies([tool("ask"), tool("ask"), tool("run")]), "2 ask, 1 runs");
  const tools = [tool("ask", { plan: "ask", prepare: "run" }), tool("ask", { plan: "ask", prepare: "run" }), tool("run", { plan: "run", prepare: "run" })];
  assert.equal(toolPolicies(tools), "in plan: 2 ask, 1 runs; in prepare: all run");
  assert.deepEqual([...byNode(tools)], [["plan", ["ask", "ask", "run"]], ["prepare", ["run", "run", "run"]]]);
  assert.equal(toolPolicies([tool("ask", { a: "run", b: "run" })]), "1 runs");
  const many = Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((name) => [name, name === "f" ? "ask" : "run"]));
  assert.equal(toolPolicies([tool("ask", many)]), "in a, b, c, d and 1 more node: 1 runs; in f: 1 asks");
});

test("the parts of a rule in words", () => {
  const text = 'approval.rules[0] "small values" (tool: add; arguments: value; shadow: true): run';
  assert.deepEqual(ruleParts(text), ["small values", "tool: add; arguments: value"]);
  assert.deepEqual(ruleParts('node "a (b)" approval.rules[12] (any call): deny'), ['node "a (b)" approval.rules[12]', "any call"]);
  assert.deepEqual(ruleParts("something else"), ["something else", ""]);
});

test("what a shadow rule would have decided", () => {
  const rule = { shadow_verdicts: [
    { action: "deny", was: "ask", hits_30d: 1 }, { action: "run", was: "deny", hits_30d: 20 },
  ] };
  assert.deepEqual(shadowWords(rule), ["1 call asked, and would be denied", "20 calls were denied, and would run"]);
});

test("a bar has only what happened", () => {
  const counts = { ran: 0, approved: 86, edited: 2, rejected: 0 };
  assert.deepEqual(answerParts(counts).map(([name, number]) => [name, number]), [["approved", 86], ["edited", 2]]);
  assert.deepEqual(answerParts({}), []);
});

test("what a replay says", () => {
  const summary = { sure: { unknown: 2 }, damaged: { events: 1 } };
  assert.equal(said({ calls: 3, cut: true, ignored: ["a\u202e"], summary }),
    "3 calls judged; older ones are left out; 2 unknown; 1 event cannot be read; not read: a\\u{202e}");
  const none = { sure: { unknown: 0 }, damaged: { events: 0 } };
  assert.equal(said({ calls: 1, cut: false, ignored: [], summary: none }), "1 call judged");
  const verdicts = [{ was: null, now: "run", calls: 1 }, { was: "ask", now: null, calls: 2 }];
  assert.deepEqual(matrix(verdicts), [["ask", [0, 0, 0, 0, 2]], ["unknown", [1, 0, 0, 0, 0]]]);
});
