// The fold of events into lanes, bars and states, and what follows from it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { parseKey } from "../../../gateway/web/page/core/keys.js";
import { llm, Story } from "./story.mjs";

const bars = (lane) => lane.bars.map((bar) => [bar.kind, bar.from, bar.to]);
const states = (view) => Object.fromEntries(view.lanes.map((lane) => [lane.name, lane.state]));
const named = (view, name) => view.lanes.find((lane) => lane.name === name);

test("a key says where in the tree and which call", () => {
  assert.deepEqual(parseKey("1/.0.2@3.1!2:4.0"), {
    turn: 1,
    execution: "1/.0.2@3.1!2",
    path: "0.2.1",
    attempt: false,
    call: 4,
    index: 0,
  });
  assert.deepEqual(parseKey("12/:3"), {
    turn: 12,
    execution: "12/",
    path: "",
    attempt: false,
    call: 3,
    index: null,
  });
  assert.equal(parseKey("1/.0>").execution, "1/.0");
  assert.deepEqual(parseKey("1/.0!2!"), {
    turn: 1,
    execution: "1/.0!2",
    path: "0",
    attempt: true,
    call: null,
    index: null,
  });
  assert.equal(parseKey("1/.0:1.0~2").index, 0);
  assert.equal(parseKey("nonsense"), null);
});

test("model calls begin when what came before them ended", () => {
  const story = new Story(llm("one"));
  story
    .model(100, "1/:1", ["look"])
    .tool(120, 180, "1/:1.0")
    .batch(180, "1/:1")
    .model(250, "1/:2")
    .add(251, "run.finished", { run: "r1", text: "x" });
  assert.deepEqual(bars(story.view().lanes[0]), [
    ["model", 0, 100],
    ["tool", 120, 180],
    ["model", 180, 250],
  ]);
  assert.equal(story.view().lanes[0].state, "done");
});

test("nodes of a sequence begin one after the other, those of a parallel node together", () => {
  const both = { type: "parallel", name: "both", agents: [llm("a"), llm("b")] };
  const story = new Story({ type: "sequential", name: "all", agents: [llm("first"), both, llm("last")] });
  story.model(50, "1/.0:1").node(60, "1/.0").model(90, "1/.1.1:1").model(100, "1/.1.0:1");
  const view = story.view(200);
  assert.deepEqual(bars(named(view, "a")), [["model", 60, 100]]);
  assert.deepEqual(bars(named(view, "b")), [["model", 60, 90]]);
  assert.deepEqual(states(view), {
    all: "working",
    first: "done",
    both: "working",
    a: "working",
    b: "working",
    last: "idle",
  });
});

test("no more branches work than may at the same time", () => {
  const story = new Story({
    type: "parallel",
    name: "both",
    max_concurrency: 1,
    agents: [llm("a"), llm("b")],
  });
  story.model(50, "1/.0:1");
  assert.deepEqual(states(story.view(90)), { both: "working", a: "working", b: "idle" });
  story.node(60, "1/.0").model(100, "1/.1:1");
  assert.deepEqual(bars(named(story.view(110), "b")), [["model", 60, 100]]);
});

test("a model call under way has a bar up to now, and keeps it when its first words come", () => {
  const story = new Story(llm("one"));
  assert.deepEqual(bars(story.view(70).lanes[0]), [["model", 0, 70]]);
  story.spans.takeDeltas([{ type: "model.delta", key: "1/:1", attempt: 1, text: "Hel", model: "m" }], 40);
  const [bar] = story.spans.view(null, 80).lanes[0].bars;
  assert.deepEqual(
    [bar.id, bar.to, bar.first, bar.word, bar.label],
    ["1/:1", 80, 40, "writing", "3 characters so far"],
  );
  assert.equal(story.spans.find("1/:1").id, "1/:1");
});

test("a wait ends with its decision, and the time in which only people were waited for is a pause", () => {
  const story = new Story(llm("one"));
  story
    .model(10, "1/:1", ["look"])
    .ask(20, "u1", "1/:1.0")
    .add(25, "run.waiting", { run: "r1", on: ["u1"] });
  let view = story.view(500);
  assert.deepEqual(bars(view.lanes[0]), [
    ["model", 0, 10],
    ["wait", 20, 500],
  ]);
  assert.deepEqual(
    view.pauses.map(({ from, to, live }) => [from, to, live]),
    [[25, 500, true]],
  );
  assert.deepEqual([view.lanes[0].state, view.lanes[0].word], ["waits", "waits for a person"]);
  story.add(600, "approval.resolved", { id: "u1", decision: { approved: true, decided_by: "Mara" } });
  story.add(610, "run.resumed", { run: "r1" }).tool(620, 630, "1/:1.0").batch(630, "1/:1");
  view = story.view(700);
  assert.deepEqual(bars(view.lanes[0]), [
    ["model", 0, 10],
    ["wait", 20, 600],
    ["tool", 620, 630],
    ["model", 630, 700],
  ]);
  assert.deepEqual(
    view.pauses.map(({ from, to }) => [from, to]),
    [[25, 610]],
  );
  assert.equal(story.spans.find("u1").word, "approved");
});

for (const [what, body, word] of [
  ["resolved", { decision: { approved: false } }, "rejected"],
  ["void", { reason: "cancelled" }, "withdrawn"],
  ["expired", { on_expiry: "reject" }, "expired"],
  ["resolved", { decision: { approved: true, arguments: {} } }, "approved with changes"],
]) {
  test(`an approval can be ${word}`, () => {
    const story = new Story(llm("one")).model(10, "1/:1", ["look"]).ask(20, "u1", "1/:1.0");
    story.add(30, `approval.${what}`, { id: "u1", ...body });
    assert.equal(story.view().lanes[0].bars[1].word, word);
  });
}

test("branches wait and work on their own, and the group works while one does", () => {
  const story = new Story({ type: "parallel", name: "both", agents: [llm("a"), llm("b")] });
  story.model(10, "1/.0:1", ["look"]).ask(20, "u1", "1/.0:1.0");
  assert.deepEqual(states(story.view(30)), { both: "working", a: "waits", b: "working" });
  story.node(40, "1/.1").add(41, "run.waiting", { run: "r1", on: ["u1"] });
  assert.deepEqual(states(story.view(50)), { both: "waits", a: "waits", b: "done" });
});

test("a router is done once it chose, and what it did not choose says so", () => {
  const story = new Story({
    type: "router",
    name: "pick",
    agents: [llm("a"), { type: "sequential", name: "s", agents: [llm("b")] }],
  });
  assert.deepEqual(bars(story.view(5).lanes[0]), [["model", 0, 5]]);
  story.model(10, "1/:1").add(11, "step.finished", { key: "1/>", kind: "route", node: "pick", choice: 0 });
  const view = story.view(20);
  assert.deepEqual(states(view), { pick: "done", a: "working", s: "skipped", b: "skipped" });
  assert.equal(view.lanes[0].word, "chose a");
  assert.deepEqual(bars(named(view, "a")), [["model", 11, 20]]);
});

test("a loop counts, and each iteration begins after the one before", () => {
  const story = new Story({ type: "loop", name: "l", max_iterations: 5, agents: [llm("a"), llm("b")] });
  story.node(10, "1/@1.0").node(20, "1/@1.1").model(30, "1/@2.0:1").node(31, "1/@2.0");
  const view = story.view(40);
  assert.equal(view.lanes[0].lane.round, 2);
  assert.deepEqual(bars(named(view, "a")), [["model", 20, 30]]);
  assert.deepEqual(bars(named(view, "b")), [["model", 31, 40]]);
  assert.deepEqual(states(view), { l: "working", a: "done", b: "working" });
});

test("a node that is tried again begins when the attempt before failed", () => {
  const story = new Story({ type: "sequential", name: "s", agents: [llm("a", { retries: 1 })] });
  story.model(10, "1/.0:1", [], {
    error: { code: "model_error", message: "no" },
    text: undefined,
    tool_calls: undefined,
  });
  story.add(11, "step.finished", {
    key: "1/.0!",
    kind: "attempt",
    node: "a",
    error: { code: "model_error", message: "no" },
  });
  const view = story.view(30);
  assert.deepEqual(bars(named(view, "a")), [
    ["model", 0, 10],
    ["model", 11, 30],
  ]);
  assert.equal(named(view, "a").bars[0].failed, true);
  assert.equal(named(view, "a").bars[1].id, "1/.0!2:1");
});

test("failures are told: of a tool, of a call that was not sent, of a node, of the run", () => {
  const story = new Story({ type: "sequential", name: "s", agents: [llm("a"), llm("b")] });
  story.model(10, "1/.0:1", ["look", "gone"]);
  story.tool(11, 20, "1/.0:1.0", { result: { content: "no", is_error: true } });
  story.add(21, "step.finished", {
    key: "1/.0:1.1",
    kind: "call",
    node: "a",
    outcome: "not_found",
    content: "no such tool",
  });
  story
    .node(30, "1/.0", { error: { code: "x", message: "y" } })
    .add(31, "run.failed", { run: "r1", code: "x", message: "y" });
  const view = story.view();
  assert.deepEqual(
    named(view, "a").bars.map((bar) => [bar.label, bar.word, bar.failed]),
    [
      ["m", "finished", false],
      ["look", "failed", true],
      ["gone", "no such tool", true],
    ],
  );
  assert.deepEqual(states(view), { s: "failed", a: "failed", b: "idle" });
  assert.equal(named(view, "b").word, "did not run");
});

test("attempts of a call have bars of their own, and what is under way when a run ends is cut off", () => {
  const story = new Story(llm("one"))
    .model(10, "1/:1", ["look"])
    .tool(11, 12, "1/:1.0", { need: { kind: "answers" } });
  story.add(20, "tool.started", {
    key: "1/:1.0",
    attempt: 2,
    tool: "look",
    server: "s",
    arguments: {},
    effect: "once",
  });
  story.add(30, "run.cancelled", { run: "r1" });
  const [, first, second] = story.view().lanes[0].bars;
  assert.deepEqual(
    [first.word, second.id, second.to, second.word],
    ["asked first", "1/:1.0#2", 30, "cut off"],
  );
  assert.equal(story.view().lanes[0].word, "cancelled");
});

test("a token that is wanted is a wait of the root", () => {
  const story = new Story(llm("one")).add(10, "run.auth_required", { run: "r1", server: "s" });
  const view = story.view(50);
  assert.deepEqual(
    [view.lanes[0].word, view.lanes[0].bars[0].label],
    ["waits for a token", "waits for a token"],
  );
  story.add(60, "run.resumed", { run: "r1" });
  assert.deepEqual(bars(story.view(70).lanes[0]), [
    ["wait", 10, 60],
    ["model", 60, 70],
  ]);
});

test("the latest turn is shown, an earlier one, or all of them with the time between folded", () => {
  const story = new Story(llm("one"))
    .model(10, "1/:1")
    .add(11, "run.finished", { run: "r1", text: "first answer" });
  story.turn(1000, 2, "again").model(1010, "2/:1").add(1011, "run.finished", { run: "r2", text: "x" });
  assert.deepEqual(bars(story.view().lanes[0]), [["model", 1000, 1010]]);
  assert.deepEqual(bars(story.spans.view(1, 0).lanes[0]), [["model", 0, 10]]);
  const all = story.spans.view("all", 0);
  assert.deepEqual(bars(all.lanes[0]), [
    ["model", 0, 10],
    ["model", 1000, 1010],
  ]);
  assert.deepEqual(
    all.pauses.map(({ from, to, why }) => [from, to, why]),
    [[11, 1000, "between turns"]],
  );
});

test("events of kinds that are not known change nothing", () => {
  const story = new Story(llm("one"))
    .add(5, "tool.mystery", { key: "1/:1.0" })
    .add(6, "step.finished", { key: "9/:1", kind: "new" });
  story.add(7, "mystery.new", {}).add(8, "approval.resolved", { id: "nobody" });
  assert.deepEqual(states(story.view(9)), { one: "working" });
});

test("a call that waits for a person is found by its own key, and by that of its approval", () => {
  const story = new Story(llm("one")).model(10, "1/:1", ["look"]).ask(20, "u1", "1/:1.0");
  story.view();
  for (const key of ["1/:1.0", "1/:1.0~0", "u1"]) assert.equal(story.spans.find(key).id, "1/:1.0~0");
  story
    .add(30, "approval.resolved", { id: "u1", decision: { approved: true } })
    .tool(40, 50, "1/:1.0")
    .view();
  assert.equal(story.spans.find("1/:1.0").kind, "tool");
  assert.equal(story.spans.find("nothing"), null);
});

test("a run that ends while it wants a token got none", () => {
  const story = new Story(llm("one")).add(10, "run.auth_required", { run: "r1", server: "s" });
  story.add(20, "run.cancelled", { run: "r1" });
  const [wait] = story.view().lanes[0].bars;
  assert.deepEqual([wait.label, wait.word, wait.to], ["no token came", "cut off", 20]);
});
