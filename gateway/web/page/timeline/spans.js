// A fold of events into turns, which have lanes of bars. Pure: no clock.
// Events say when work ended. Its beginning follows from the work that had to end before (`turn.js`).

import { parseKey } from "../core/keys.js";
import { Turn } from "./turn.js";

export class Spans {
  turns = [];
  last = 0; // milliseconds at the last event
  #messages = new Map();
  #trees = new Map();
  #approvals = new Map(); // bars of approvals by id

  get latest() {
    return this.turns.at(-1) ?? null;
  }

  /** Takes the next events, in order. */
  take(frames) {
    for (const frame of frames) {
      const at = Date.parse(frame.at);
      this.last = Math.max(this.last, at);
      this.#one(frame, frame.body, at);
    }
  }

  /** Takes deltas that arrived at `now`. */
  takeDeltas(frames, now) {
    for (const frame of frames) {
      const key = parseKey(frame.key ?? "");
      this.#turn(key)?.delta(frame, key, Math.max(now, this.last));
    }
  }

  #turn(key) {
    return key && this.turns.find((turn) => turn.number === key.turn);
  }

  #one(frame, body, at) {
    const [group, what] = frame.type.split(".");
    if (frame.type === "message.added") this.#messages.set(body.command, body.text);
    else if (frame.type === "run.started") this.#begin(body, at);
    else if (group === "run") this.latest?.moved(what, frame, at);
    else if (frame.type === "approval.requested") {
      const key = parseKey(body.key);
      const bar = this.#turn(key)?.asked(frame, key, at);
      if (bar) this.#approvals.set(body.id, bar);
    } else if (group === "approval" && what !== "voted") {
      const bar = this.#approvals.get(body.id);
      if (bar) this.turns.find((turn) => turn.number === bar.turn).answered(bar, what, frame, at);
    } else if (["step.finished", "batch.finished"].includes(frame.type) || group === "tool") {
      const key = parseKey(body.key);
      this.#turn(key)?.worked(frame, key, at);
    }
  }

  #begin(body, at) {
    if (body.tree) this.#trees.set(body.tree_id, body.tree);
    const message = this.#messages.get(body.command) ?? "";
    this.turns.push(new Turn(body, this.#trees.get(body.tree_id), message, at));
  }

  /** The bar with this key, or of this approval; null if there is none. */
  find(key) {
    const bars = this.#turn(parseKey(key))?.bars;
    const found =
      this.#approvals.get(key) ??
      bars?.get(key) ??
      [...(bars?.values() ?? [])].findLast((bar) => bar.key === key);
    if (found) return found; // a call that was not sent yet has only the bar of its approval
    // A model call in progress has a bar only in a view.
    return (
      this.latest
        ?.view(this.last)
        .lanes.flatMap((lane) => lane.bars)
        .find((bar) => bar.id === key) ?? null
    );
  }

  /** Lanes with bars for one turn (its number), the latest (null) or "all". `pauses` are the times between
   * turns, and those in which the run only waited for a person. */
  view(which, now) {
    const shown =
      which === "all" ? this.turns : [this.turns.find((turn) => turn.number === which) ?? this.latest];
    if (!shown[0]) return { from: now, to: now, live: false, lanes: [], pauses: [] };
    const views = shown.map((turn) => turn.view(now));
    if (views.length === 1) return views[0];
    const lanes = new Map(),
      pauses = [];
    views.forEach((view, index) => {
      if (index) pauses.push({ from: views[index - 1].to, to: view.from, why: "between turns" });
      pauses.push(...view.pauses);
      for (const lane of view.lanes) {
        const id = `${shown[index].treeId} ${lane.path}`;
        const before = lanes.get(id);
        lanes.set(id, { ...lane, id, bars: before ? [...before.bars, ...lane.bars] : lane.bars });
      }
    });
    const last = views.at(-1);
    return {
      from: views[0].from,
      to: last.to,
      live: last.live,
      lanes: [...lanes.values()],
      pauses,
      tree: last.tree,
    };
  }
}
