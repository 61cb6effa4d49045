// Logs of conversations, told for tests.

import { Spans } from "../../../gateway/web/page/timeline/spans.js";

export const llm = (name, more = {}) => ({
  type: "llm",
  name,
  prompt: `You are ${name}.`,
  model: "m",
  ...more,
});

/** A log that grows by what is told; times are milliseconds. */
export class Story {
  frames = [];

  constructor(tree) {
    this.add(0, "conversation.created", { prompt: "" });
    this.turn(0, 1, "go", tree);
  }
  add(at, type, body) {
    this.frames.push({ seq: this.frames.length + 1, type, at: new Date(at).toISOString(), body });
    return this;
  }
  turn(at, turn, text, tree) {
    this.add(at, "message.added", { text, command: `c${turn}` });
    return this.add(at, "run.started", { run: `r${turn}`, turn, command: `c${turn}`, tree_id: "t", tree });
  }
  model(at, key, calls = [], more = {}) {
    const tool_calls = calls.map((name) => ({ id: name, name, arguments: { n: 1 } }));
    const usage = { input_tokens: 10, output_tokens: 2 };
    return this.add(at, "step.finished", {
      key,
      kind: "model",
      node: "n",
      text: "hm",
      tool_calls,
      model: "m",
      usage,
      ...more,
    });
  }
  tool(from, to, key, more = {}) {
    this.add(from, "tool.started", {
      key,
      attempt: 1,
      tool: "look",
      server: "s",
      arguments: { n: 2 },
      effect: "read",
    });
    return this.add(to, "tool.finished", {
      key,
      attempt: 1,
      result: { content: "seen", is_error: false },
      ...more,
    });
  }
  batch(at, key) {
    return this.add(at, "batch.finished", { key });
  }
  node(at, key, more = { end: { text: "", rejected: false } }) {
    return this.add(at, "step.finished", { key, kind: "node", node: "n", ...more });
  }
  ask(at, id, key) {
    return this.add(at, "approval.requested", {
      id,
      question: `${key}~0`,
      key,
      tool_name: "look",
      tool_args: {},
    });
  }
  view(now = 0, which = null) {
    this.spans = new Spans();
    for (const frame of this.frames) this.spans.take([frame]);
    return this.spans.view(which, now);
  }
}
