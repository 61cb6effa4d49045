// The places of the bars in the waterfall: times to pixels, long waits folded, narrow bars merged. Pure.

export const ROW = 18,
  PAD = 10,
  AXIS = 28,
  BAR = 15;
const FOLD = 76; // pixels of a folded wait
const NARROW = 2; // pixels below which bars that touch become one
const LEAST = 3; // pixels of any bar
const WIDEST = 6; // times narrow: the most that merged bars measure together

/** `x(t)` for times between `from` and `to`. With `fold`, pauses long beside the work get a fixed width. */
export function scaleOf({ from, to, pauses, fold, left, width }) {
  const long = fold ? longOnes(pauses, from, to) : [];
  const paused = long.reduce((sum, { from, to }) => sum + to - from, 0);
  const foldWidth = long.length ? Math.min(FOLD, (width * 0.45) / long.length) : 0;
  const work = Math.max(to - from - paused, 1);
  const perMs = (width - long.length * foldWidth) / work;
  let x = left,
    at = from;
  const folds = long.map((pause) => {
    const a = x + (pause.from - at) * perMs;
    [x, at] = [a + foldWidth, pause.to];
    return { ...pause, a, z: x };
  });
  const place = (t) => {
    let [px, start] = [left, from];
    for (const each of folds) {
      if (t <= each.from) return px + (t - start) * perMs;
      if (t < each.to) return each.a + (foldWidth * (t - each.from)) / (each.to - each.from);
      [px, start] = [each.z, each.to];
    }
    return px + (t - start) * perMs;
  };
  return {
    x: folds.length ? place : (t) => left + (t - from) * perMs,
    folds,
    perMs,
    from,
    to,
    left,
    right: left + width,
  };
}

function longOnes(pauses, from, to) {
  const inside = pauses
    .map((pause) => ({ ...pause, from: Math.max(pause.from, from), to: Math.min(pause.to, to) }))
    .filter((pause) => pause.to > pause.from)
    .sort((a, b) => a.from - b.from);
  const work = to - from - inside.reduce((sum, pause) => sum + pause.to - pause.from, 0);
  return inside.filter((pause) => pause.to - pause.from > Math.max(200, work * 0.15));
}

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5,
  216e5, 864e5, 1728e5, 6048e5,
];

/** Ticks at round times since `zero`, none of them in a fold or close to another, or to `now`. */
export function ticksOf(scale, zero, now = false, apart = 52) {
  const step = STEPS.find((each) => each * scale.perMs >= apart) ?? STEPS.at(-1);
  const ticks = [];
  let last = -Infinity;
  for (
    let t = Math.ceil((scale.from - zero) / step) * step;
    zero + t <= scale.to && ticks.length < 200;
    t += step
  ) {
    const at = zero + t,
      fold = scale.folds.find((each) => at > each.from && at < each.to);
    if (fold) {
      t = Math.floor((fold.to - zero) / step) * step;
      continue;
    }
    const x = scale.x(at);
    const crowded = scale.folds.some(({ a, z }) => (x < a ? a - x < 36 : x - z < 0));
    if (x - last < apart * 0.9 || crowded || x > scale.right - (now ? 66 : 28)) continue;
    ticks.push({ x, text: tickText(t, step) });
    last = x;
  }
  return ticks;
}

export function tickText(ms, step) {
  const seconds = ms / 1000,
    two = (value) => String(Math.floor(value)).padStart(2, "0");
  if (step < 10) return `${ms} ms`;
  if (step < 1000) return ms === 0 ? "0 s" : `${seconds.toFixed(step < 100 ? 2 : 1)} s`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
  return `${Math.floor(seconds / 3600)}:${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
}

/** Each lane with its `top`, `height` and bars in `rows`, in which none overlaps another in time. */
export function stack(lanes) {
  let top = 0;
  return lanes.map((lane) => {
    const rows = [];
    const bars = lane.bars.every((bar, index) => !index || bar.from >= lane.bars[index - 1].from)
      ? lane.bars
      : [...lane.bars].sort((a, b) => a.from - b.from);
    for (const bar of bars) {
      let row = rows.find((each) => each.end <= bar.from);
      if (!row && rows.length >= 12) row = rows.at(-1); // more rows would be too high; the bars merge
      if (!row) rows.push((row = { end: 0, bars: [] }));
      row.end = Math.max(row.end, bar.to);
      row.bars.push(bar);
    }
    const height = Math.max(rows.length, 1) * ROW + PAD;
    const placed = { lane, top, height, rows: rows.map((row) => row.bars) };
    top += height;
    return placed;
  });
}

/** The blocks to draw of `placed` lanes: one bar each, or several that are too narrow and close to show
 * separately. At most `most` blocks: if there would be more, wider bars are merged too. */
export function blocksOf(placed, scale, most = 1500) {
  for (let narrow = NARROW; ; narrow *= 2) {
    const blocks = placed.flatMap((each) =>
      each.rows.flatMap((bars, row) => rowBlocks(each, bars, row, scale, narrow)),
    );
    if (blocks.length <= most || narrow > 512) return blocks;
  }
}

function rowBlocks(placed, bars, row, scale, narrow) {
  const blocks = [];
  for (const bar of bars) {
    const a = Math.max(scale.x(bar.from), scale.left),
      end = Math.min(scale.x(bar.to), scale.right);
    if (bar.to < scale.from || bar.from > scale.to || end < a) continue;
    const before = blocks.at(-1),
      small = end - a < narrow;
    if (before?.small && small && a - before.z < narrow / 2 && end - before.a <= narrow * WIDEST) {
      before.bars.push(bar);
      before.z = Math.max(before.z, end, before.a + LEAST);
      before.failed ||= bar.failed;
      continue;
    }
    const from = before && a < before.z ? Math.min(before.z, Math.max(a, end - LEAST)) : a;
    blocks.push({
      placed,
      row,
      bars: [bar],
      a: from,
      z: Math.max(end, from + LEAST),
      small,
      failed: Boolean(bar.failed),
    });
  }
  return blocks;
}
