// One turn of a conversation as lanes of bars. Model calls have no event at their beginning (`pace.js`).

import { parseKey } from "../core/keys.js";
import { lanesOf, laneState } from "./lanes.js";
import { Pace } from "./pace.js";

export class Turn {
  bars = new Map(); // by key
  to = null;
  state = "working"; // then "waits", "auth", "finished", "failed" or "cancelled"
  pauses = [];
  #streams = new Map(); // model calls in progress, by key

  constructor(body, tree, message, at) {
    Object.assign(this, { number: body.turn, treeId: body.tree_id, message, from: at });
    this.lanes = lanesOf(tree ?? { type: "llm", name: "agent" });
    this.byPath = new Map(this.lanes.map((lane) => [lane.path, lane]));
    this.pace = new Pace(this.byPath, at);
  }

  // ------------------------------------------------------------------------------------------------- events

  worked(frame, key, at) {
    this.#goOn(at);
    const { type, body } = frame;
    const lane = this.#touch(key);
    if (type === "tool.started") this.#toolStarted(lane, frame, at);
    else if (type === "tool.finished" || type === "tool.unknown") this.#toolEnded(frame, at);
    else if (type === "batch.finished")
      this.pace.replied(key.execution, { call: key.call, at, open: false, more: true });
    else if (type !== "step.finished") return;
    else if (body.kind === "model") this.#model(lane, frame, key, at);
    else if (body.kind === "call") this.#unsent(lane, frame, key, at);
    else if (body.kind === "route") this.pace.routes.set(key.execution, { choice: body.choice, at });
    else if (body.kind === "attempt") {
      this.pace.attemptFailed(key.execution, at);
      if (lane) lane.attempts = (lane.attempts ?? 1) + 1;
    } else if (body.kind === "node") this.#ended(lane, body, key.execution, at);
  }

  #touch(key) {
    this.pace.iterate(key.execution);
    const lane = this.byPath.get(key.path);
    for (let each = lane; each && !each.touched; each = each.parent) each.touched = true;
    return lane;
  }

  #add(lane, bar) {
    if (!lane || this.bars.has(bar.id)) return this.bars.get(bar.id);
    Object.assign(bar, { turn: this.number, path: lane.path, node: lane.name });
    this.bars.set(bar.id, bar);
    lane.bars.push(bar);
    lane.open.add(bar);
    if (bar.to !== null) lane.open.delete(bar);
    return bar;
  }

  #close(bar, at, word, failed = false) {
    if (!bar || bar.to !== null) return;
    Object.assign(bar, { to: Math.max(at, bar.from), word, failed });
    this.byPath.get(bar.path).open.delete(bar);
  }

  #model(lane, frame, key, at) {
    const { body } = frame,
      stream = this.#streams.get(body.key);
    this.#streams.delete(body.key);
    const hops = body.hops ?? [];
    this.#add(lane, {
      id: body.key,
      key: body.key,
      kind: "model",
      from: Math.min(at, this.pace.modelFrom(key.execution, key.call)),
      to: at,
      label: body.model ?? hops.at(-1)?.model ?? "model",
      usage: body.usage,
      hops,
      frame,
      first: stream?.first ?? null,
      attempts: Math.max(stream?.attempt ?? 1, hops.length + (body.error ? 0 : 1)),
      failed: Boolean(body.error),
      word: body.error ? "failed" : "finished",
    });
    this.pace.replied(key.execution, {
      call: key.call,
      at,
      open: (body.tool_calls ?? []).length > 0,
      more: false,
    });
  }

  #toolStarted(lane, frame, at) {
    const { key, attempt, tool, server, effect, facade } = frame.body;
    this.#add(lane, {
      id: attempt > 1 ? `${key}#${attempt}` : key,
      key,
      kind: "tool",
      from: at,
      to: null,
      label: tool,
      server,
      effect,
      facade,
      attempt,
      started: frame,
      word: "running",
      failed: false,
    });
  }

  #toolEnded(frame, at) {
    const { key, attempt, result, need } = frame.body;
    const bar = this.bars.get(attempt > 1 ? `${key}#${attempt}` : key);
    if (!bar) return;
    bar.ended = frame;
    if (frame.type === "tool.unknown") this.#close(bar, at, "outcome unknown", true);
    else if (need) this.#close(bar, at, need.kind === "credential" ? "needs a token" : "asked first");
    else this.#close(bar, at, result?.is_error ? "failed" : "finished", Boolean(result?.is_error));
  }

  #unsent(lane, frame, key, at) {
    const { outcome } = frame.body,
      call = this.#callOf(key);
    const words = {
      denied: "denied",
      not_found: "no such tool",
      invalid: "invalid arguments",
      declined: "declined",
      unknown: "outcome unknown",
      exit_loop: "ends the loop",
    };
    this.#add(lane, {
      id: this.bars.has(frame.body.key) ? `${frame.body.key}#end` : frame.body.key,
      key: frame.body.key,
      kind: "tool",
      from: at,
      to: at,
      label: call?.name ?? "call",
      call,
      ended: frame,
      attempt: 0,
      word: words[outcome] ?? outcome,
      failed: outcome !== "exit_loop",
    });
  }

  #callOf(key) {
    return this.bars.get(`${key.execution}:${key.call}`)?.frame?.body.tool_calls?.[key.index];
  }

  #ended(lane, body, execution, at) {
    this.pace.ended(execution, at);
    if (lane)
      lane.end = {
        at,
        failed: Boolean(body.error || body.continued),
        rejected: Boolean(body.end?.rejected),
        body,
      };
  }

  asked(frame, key, at) {
    const { body } = frame,
      lane = this.#touch(key);
    return this.#add(lane, {
      id: body.question ?? body.id,
      key: body.key,
      kind: "wait",
      from: at,
      to: null,
      label: "waits for a person",
      approval: body.id,
      asked: frame,
      word: "waits for a person",
      failed: false,
    });
  }

  answered(bar, what, frame, at) {
    const decision = frame.body.decision ?? {};
    const word = what === "resolved" ? decisionWord(decision) : what === "void" ? "withdrawn" : "expired";
    bar.answered = frame;
    this.#close(bar, at, word);
    bar.label = word;
  }

  moved(what, frame, at) {
    const { body } = frame;
    if (what === "waiting" || what === "auth_required") {
      this.state = what === "waiting" ? "waits" : "auth";
      if (this.pauses.at(-1)?.to !== null) this.pauses.push({ from: at, to: null, why: "waiting only" });
      if (what === "auth_required" && !this.lanes[0].open.has(this.auth)) {
        const id = `${this.number}/auth/${frame.seq}`;
        this.auth = this.#add(this.lanes[0], {
          id,
          key: id,
          kind: "wait",
          from: at,
          to: null,
          label: "waits for a token",
          auth: frame,
          word: "waits for a token",
          failed: false,
        });
      }
      return;
    }
    this.#goOn(at, what !== "resumed");
    if (what === "resumed") this.pace.resumed = at;
    else if (["finished", "failed", "cancelled"].includes(what)) {
      Object.assign(this, { state: what, to: at, end: frame });
      for (const lane of this.lanes) for (const bar of lane.open) this.#close(bar, at, "cut off");
      this.#streams.clear();
    }
  }

  #goOn(at, ended = false) {
    const pause = this.pauses.at(-1);
    if (pause && pause.to === null) pause.to = at;
    if (this.auth && this.auth.to === null) {
      this.#close(this.auth, at, ended ? "cut off" : "went on");
      this.auth.label = ended ? "no token came" : "token given";
    }
    if (this.to === null) this.state = "working";
  }

  delta(frame, key, at) {
    if (frame.type === "tool.progress") {
      const bar = this.bars.get(frame.attempt > 1 ? `${frame.key}#${frame.attempt}` : frame.key);
      if (bar) bar.progress = frame;
    } else if (frame.type === "model.delta" && !this.bars.has(frame.key) && this.to === null) {
      const before = this.#streams.get(frame.key);
      const again = !before || before.attempt < frame.attempt;
      const stream = again
        ? { first: at, attempt: frame.attempt, text: "", length: 0, model: frame.model }
        : before;
      stream.text += frame.text ?? "";
      stream.length += (frame.text ?? frame.call?.json ?? "").length;
      this.#streams.set(frame.key, stream);
      this.#touch(key);
    }
  }

  // ------------------------------------------------------------------------------------------------- views

  /** The lanes at `now`. Bars in progress end there, and have `live`. */
  view(now) {
    const live = this.to === null,
      to = Math.max(this.to ?? now, this.from),
      extra = new Map();
    for (const lane of this.lanes) lane.active = false;
    if (live) {
      this.pace.active(this.lanes[0], `${this.number}/`, (lane, at) => {
        const bar = this.state === "working" && this.#underWay(lane, at, to);
        if (bar) extra.set(lane, bar);
      });
    }
    const chosen = new Map();
    for (const [execution, { choice }] of this.pace.routes) chosen.set(parseKey(execution).path, choice);
    const paused = live && this.state !== "working";
    const lanes = this.lanes.map((lane) => ({
      ...lane,
      ...laneState(lane, { live, paused, chosen, turn: this }),
      lane,
      id: lane.path,
      bars: this.#shown(lane, extra.get(lane), to, live),
    }));
    for (const lane of [...lanes].reverse()) if (lane.group && live && lane.lane.active) raise(lane, lanes);
    for (const lane of lanes)
      if (lane.type === "router" && chosen.has(lane.path)) decided(lane, chosen.get(lane.path));
    const pauses = this.pauses.map((pause) => ({ ...pause, to: pause.to ?? to, live: pause.to === null }));
    return { from: this.from, to, live, lanes, pauses, tree: this.lanes[0] };
  }

  #underWay(lane, at, to) {
    const before = this.pace.replies.get(at);
    const asks = lane.type === "llm" || (lane.type === "router" && !lane.spec.routes);
    if (!asks || (before && !before.more)) return null;
    const call = (before?.call ?? 0) + 1,
      id = `${at}:${call}`,
      stream = this.#streams.get(id);
    if (lane.open.size && !stream) return null;
    const written = stream ? `${stream.length.toLocaleString()} characters so far` : "model";
    return {
      id,
      key: id,
      kind: "model",
      from: Math.min(this.pace.modelFrom(at, call), to),
      to,
      live: true,
      turn: this.number,
      path: lane.path,
      node: lane.name,
      label: written,
      stream,
      attempts: stream?.attempt ?? 1,
      hops: [],
      word: stream ? "writing" : "running",
      failed: false,
      first: stream?.first ?? null,
    };
  }

  #shown(lane, writing, to, live) {
    const bars = lane.open.size
      ? lane.bars.map((bar) => (bar.to === null ? { ...bar, to: Math.max(to, bar.from), live: true } : bar))
      : lane.bars;
    const span = lane.group ? this.#span(lane, to, live) : null;
    return [...(span ? [span] : []), ...bars, ...(writing ? [writing] : [])];
  }

  #span(lane, to, live) {
    const inside = (each) => each.kids.flatMap((kid) => [kid, ...inside(kid)]);
    let from = Infinity,
      last = 0;
    for (const each of inside(lane)) {
      for (const bar of each.bars) {
        from = Math.min(from, bar.from);
        last = Math.max(last, bar.to ?? to);
      }
    }
    if (live && lane.active) [from, last] = [Math.min(from, to), to];
    if (from === Infinity || (lane.type === "router" && !lane.spec.routes)) return null;
    return {
      id: `${this.number}/${lane.path} span`,
      kind: "span",
      from,
      to: Math.max(last, lane.active ? 0 : (lane.end?.at ?? 0)),
    };
  }
}

/** A group is working while any member is working, and waiting while all members are. */
function raise(lane, lanes) {
  const under = lanes.filter((each) => each.lane.active && each.lane.parent === lane.lane);
  if (under.length) {
    const works = under.some((each) => each.state === "working");
    lane.state = works ? "working" : under[0].state;
    lane.word = works ? "working" : under[0].word;
  }
}

/** A router is done once it has chosen. */
function decided(lane, choice) {
  if (lane.state !== "working" && lane.state !== "waits") return;
  Object.assign(lane, { state: "done", word: `chose ${lane.lane.kids[choice]?.name ?? choice}` });
}

function decisionWord({ approved, action, arguments: changed }) {
  if (approved === true) return changed ? "approved with changes" : "approved";
  if (approved === false) return "rejected";
  return (
    {
      respond: "answered",
      retry: "sent again",
      done: "marked done",
      failed: "marked failed",
      accept: "answered",
      decline: "declined",
      cancel: "cancelled",
    }[action] ?? "decided"
  );
}
