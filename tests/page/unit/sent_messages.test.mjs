// What a model was sent, rebuilt from events.

import assert from "node:assert/strict";
import { test } from "node:test";

import { sentMessages } from "../../../gateway/web/page/timeline/sent_messages.js";
import { llm, Story } from "./story.mjs";

test("what a model was sent is rebuilt: prompt with values, earlier turns, exchanges", () => {
  const tree = {
    type: "sequential",
    name: "s",
    agents: [llm("a", { output_key: "k" }), llm("b", { prompt: "Use {k}, {x}." })],
  };
  const story = new Story(tree)
    .add(11, "run.finished", { run: "r1", text: "first answer" })
    .turn(20, 2, "again");
  story.node(21, "2/.0").add(21, "state.set", { key: "k", value: "v", node: "a" });
  story.model(30, "2/.1:1", ["look"]).tool(31, 32, "2/.1:1.0").batch(32, "2/.1:1").model(40, "2/.1:2");
  story.view();
  const sent = sentMessages(story.frames, story.spans.find("2/.1:2"), story.spans.turns);
  assert.deepEqual(
    sent.map(({ role, text }) => [role, text]),
    [
      ["system", "Use v, {x}."],
      ["user", "go"],
      ["assistant", "first answer"],
      ["user", "again"],
      ["assistant", "hm"],
      ["tool", "seen"],
    ],
  );
  assert.deepEqual(sent[4].calls, [{ name: "look", arguments: { n: 2 } }]);
});

test("of earlier turns, a model is sent its own calls with their results, and how each ended", () => {
  const story = new Story(llm("n"));
  story.model(1, "1/:1", ["look"]).tool(2, 3, "1/:1.0").model(4, "1/:2", [], { text: "ok" });
  story.add(5, "run.finished", { run: "r1", text: "ok" }).turn(10, 2, "more");
  story.model(11, "2/:1", ["look", "wipe"], { text: "" }).tool(12, 13, "2/:1.0");
  story.add(14, "run.cancelled", { run: "r2" }).turn(20, 3, "again");
  story.add(21, "run.failed", { run: "r3", code: "model_error", message: "down" }).turn(30, 4, "last");
  story.model(31, "4/:1").view();
  const sent = sentMessages(story.frames, story.spans.find("4/:1"), story.spans.turns);
  assert.deepEqual(
    sent.map(({ role, text, calls }) => [role, text, calls?.length ?? 0]),
    [
      ["system", "You are n.", 0],
      ["user", "go", 0],
      ["assistant", "hm", 1],
      ["tool", "seen", 0],
      ["assistant", "ok", 0],
      ["user", "more", 0],
      ["assistant", "", 2],
      ["tool", "seen", 0],
      ["tool", "(no result was recorded)", 0],
      ["assistant", "The run was cancelled.", 0],
      ["user", "again", 0],
      ["assistant", "LLM error: down", 0],
      ["user", "last", 0],
    ],
  );
});

test("in a loop, a model is sent its earlier iterations", () => {
  const story = new Story({ type: "loop", name: "l", max_iterations: 3, agents: [llm("n")] });
  story.model(10, "1/@1.0:1").node(11, "1/@1.0").model(20, "1/@2.0:1");
  story.view();
  const sent = sentMessages(story.frames, story.spans.find("1/@2.0:1"), story.spans.turns);
  assert.deepEqual(
    sent.map(({ role, text }) => [role, text]),
    [
      ["system", "You are n."],
      ["user", "go"],
      ["assistant", "hm"],
      ["user", "Iteration 2."],
    ],
  );
});
