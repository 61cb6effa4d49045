// The nodes of an agent's tree as lanes, in order, and the state of each.

export const WORDS = {
  done: "done",
  working: "working",
  waits: "waits for a person",
  idle: "not yet",
  skipped: "not chosen",
  failed: "failed",
  stopped: "stopped",
};

/** One lane per node, parents before their children. */
export function lanesOf(tree) {
  const lanes = [];
  const visit = (spec, parent, path, depth) => {
    const lane = {
      spec,
      parent,
      path,
      depth,
      name: String(spec.name ?? spec.type),
      type: spec.type,
      kids: [],
      bars: [],
      open: new Set(),
      group: Boolean(spec.agents?.length),
      touched: false,
      active: false,
      end: null,
    };
    lanes.push(lane);
    lane.kids = (spec.agents ?? []).map((kid, index) =>
      visit(kid, lane, path ? `${path}.${index}` : `${index}`, depth + 1),
    );
    return lane;
  };
  visit(tree, null, "", 0);
  return lanes;
}

/** `{state, word}` of a lane. `chosen` has the choices of routers by path. */
export function laneState(lane, { live, paused, chosen, turn }) {
  const as = (state, word = WORDS[state]) => ({ state, word });
  if (lane.active && live) {
    const asked = [...lane.open].find((bar) => bar.kind === "wait");
    const working = [...lane.open].some((bar) => bar.kind !== "wait");
    if (asked && !working) return as("waits", asked.word);
    return paused && !working
      ? as("waits", turn.state === "auth" ? "waits for a token" : WORDS.waits)
      : as("working");
  }
  if (skips(lane, chosen)) return as("skipped");
  if (!lane.parent && !live) return rootState(turn, as);
  if (lane.end?.failed) return as("failed", lane.end.body.continued ? "failed, the run went on" : "failed");
  if (lane.end?.rejected) return as("stopped", "stopped by a rejection");
  if (lane.end) return as("done");
  if (!lane.touched) return live ? as("idle") : as("idle", "did not run");
  if (live) return as("idle");
  const broken = turn.state === "failed" && lane.bars.at(-1)?.failed;
  return broken ? as("failed") : as("stopped", turn.state === "cancelled" ? "cancelled" : "stopped");
}

function rootState(turn, as) {
  if (turn.state === "finished") return as("done");
  return turn.state === "failed" ? as("failed") : as("stopped", "cancelled");
}

function skips(lane, chosen) {
  for (let each = lane; each.parent; each = each.parent) {
    const { parent } = each;
    if (parent.type === "router" && chosen.has(parent.path) && parent.kids[chosen.get(parent.path)] !== each)
      return !lane.end;
  }
  return false;
}
