// The times at which executions of nodes could continue, because the work that they waited for had ended.
// From these follow the start times of model calls, which have no event, and the nodes that can work now.

import { lastStep, parseKey, pathOf, withoutAttempt } from "../core/keys.js";

export class Pace {
  ends = new Map(); // when executions ended
  failures = new Map(); // how often an execution failed and was tried again, and when
  iterationEnds = new Map();
  iterations = new Map(); // the highest iteration of loops
  routes = new Map(); // the choices of routers
  replies = new Map(); // the latest reply of each execution
  resumed = 0; // when the run was last moved on by a person

  /** `lanes`: by path; `begin`: when the run began. */
  constructor(lanes, begin) {
    Object.assign(this, { lanes, begin });
  }

  iterate(execution) {
    for (const found of execution.matchAll(/@(\d+)/g)) {
      const above = execution.slice(0, found.index),
        number = Number(found[1]);
      if (number <= (this.iterations.get(above) ?? 0)) continue;
      this.iterations.set(above, number);
      const loop = this.lanes.get(pathOf(above));
      if (loop) loop.round = number; // of nested loops, that of the latest execution
    }
  }

  attemptFailed(execution, at) {
    const base = withoutAttempt(execution);
    this.failures.set(base, { count: (this.failures.get(base)?.count ?? 0) + 1, at });
    this.failures.set(`${execution}!`, { at });
  }

  ended(execution, at) {
    this.ends.set(execution, at);
    const step = lastStep(execution);
    if (step?.mark === "." && /@\d+$/.test(step.above)) this.iterationEnds.set(step.above, at);
  }

  /** `reply`: `{call, at, open, more}`. `open`: it has tool calls that are not settled; `more`: all are
   * settled, so the model is called again. */
  replied(execution, reply) {
    this.replies.set(execution, reply);
  }

  modelFrom(execution, call) {
    const before = this.replies.get(execution);
    const unblocked = before && before.call === call - 1 ? before.at : this.startOf(execution);
    return Math.max(unblocked, this.resumed);
  }

  startOf(execution) {
    const step = lastStep(execution);
    if (!step) return this.begin;
    const { above, mark, number } = step,
      parent = () => this.startOf(above);
    if (mark === "!")
      return this.failures.get(number === 2 ? `${above}!` : `${above}!${number - 1}!`)?.at ?? parent();
    if (mark === "@")
      return number === 1 ? parent() : (this.iterationEnds.get(`${above}@${number - 1}`) ?? parent());
    const lane = this.lanes.get(parseKey(above)?.path);
    if (lane?.type === "router") return this.routes.get(above)?.at ?? parent();
    const most = lane?.spec.max_concurrency;
    if (lane?.type === "parallel") {
      if (!most || number < most) return parent();
      const ends = lane.kids
        .map((_, index) => this.ends.get(`${above}.${index}`))
        .filter(Boolean)
        .sort((a, b) => a - b);
      return ends[number - most] ?? parent();
    }
    return number === 0 ? parent() : (this.ends.get(`${above}.${number - 1}`) ?? parent());
  }

  current(base) {
    const failed = this.failures.get(base)?.count ?? 0;
    return failed ? `${base}!${failed + 1}` : base;
  }

  /** Calls `found(lane, execution)` for each node that can be working now, from `lane` down. */
  active(lane, base, found) {
    if (this.ends.has(base)) return;
    const at = this.current(base);
    lane.active = true;
    if (lane.type === "sequential") this.next(lane, at, found);
    else if (lane.type === "loop") {
      let round = this.iterations.get(at) ?? 1;
      if (lane.kids.every((_, index) => this.ends.has(`${at}@${round}.${index}`))) round += 1;
      lane.round = round;
      this.next(lane, `${at}@${round}`, found);
    } else if (lane.type === "parallel") {
      const open = lane.kids
        .map((kid, index) => [kid, `${at}.${index}`])
        .filter(([, key]) => !this.ends.has(key));
      for (const [kid, key] of open.slice(0, lane.spec.max_concurrency ?? Infinity))
        this.active(kid, key, found);
    } else if (lane.type === "router" && this.routes.has(at)) {
      const { choice } = this.routes.get(at);
      if (lane.kids[choice]) this.active(lane.kids[choice], `${at}.${choice}`, found);
    } else found(lane, at);
  }

  next(lane, at, found) {
    const index = lane.kids.findIndex((_, each) => !this.ends.has(`${at}.${each}`));
    if (index >= 0) this.active(lane.kids[index], `${at}.${index}`, found);
  }
}
