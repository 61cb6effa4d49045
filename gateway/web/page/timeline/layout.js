// The layout of the waterfall. Pure.
//
// 1. `scaleOf` maps times to pixels. Long pauses are folded: each gets a fixed width.
// 2. `stack` puts the bars of a lane into rows, so that none overlaps another in time.
// 3. `blocksOf` makes the blocks to draw: one per bar, or one for several narrow bars that touch.
//
// `a` and `z` are the left and the right edge of a fold or a block, in pixels.

export const ROW = 18,
  PAD = 10,
  AXIS = 28,
  BAR = 15;
const FOLD_WIDTH = 88; // pixels
const MAX_FOLDED = 0.45; // share of the width for all folds together
export const LABEL = 3; // pixels from a tick to its label
const GAP = 8; // pixels between labels
const OVER = 12; // pixels that a label may reach beyond the right edge of the lanes
const MIN_PAUSE = 200; // milliseconds of the shortest pause that is folded
const NARROW = 2; // pixels below which bars that touch are merged
const MIN_BLOCK = 3; // pixels
const MAX_MERGED = 6; // the widest merged block, as a multiple of the width below which bars are merged
const MAX_ROWS = 12; // of a lane

/** The scale of the times between `from` and `to`: `x(t)` is in pixels. `fold`: whether to fold pauses that
 * are long compared to the work. */
export function scaleOf({ from, to, pauses, fold, left, width }) {
  const long = fold ? longPauses(pauses, from, to) : [];
  const paused = long.reduce((sum, { from, to }) => sum + to - from, 0);
  const foldWidth = long.length ? Math.min(FOLD_WIDTH, (width * MAX_FOLDED) / long.length) : 0;
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

function longPauses(pauses, from, to) {
  const inside = pauses
    .map((pause) => ({ ...pause, from: Math.max(pause.from, from), to: Math.min(pause.to, to) }))
    .filter((pause) => pause.to > pause.from)
    .sort((a, b) => a.from - b.from);
  const work = to - from - inside.reduce((sum, pause) => sum + pause.to - pause.from, 0);
  return inside.filter((pause) => pause.to - pause.from > Math.max(MIN_PAUSE, work * 0.15));
}

const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5,
  216e5, 864e5, 1728e5, 6048e5,
];

/** Ticks at round times since `zero`, outside of folds, each with its label: `{x, text}`. No label touches
 * another, a fold, the edge of the axis or, with `now`, that label at the right edge. `measure(text)`: the
 * width of a label in pixels. */
export function ticksOf(scale, zero, measure, now = false) {
  const end = scale.to - zero;
  const wide = (step) => measure(tickText(Math.floor(end / step) * step, step)) + GAP;
  const step = STEPS.find((each) => each * scale.perMs >= wide(each)) ?? STEPS.at(-1);
  const most = now ? scale.right - measure("now") - GAP : scale.right + OVER;
  const ticks = [];
  let free = -Infinity; // where the last label ends
  for (let t = Math.ceil((scale.from - zero) / step) * step; t <= end && ticks.length < 200; t += step) {
    const at = zero + t,
      fold = scale.folds.find((each) => at > each.from && at < each.to);
    if (fold) {
      t = Math.floor((fold.to - zero) / step) * step;
      continue;
    }
    const x = scale.x(at),
      text = tickText(t, step),
      z = x + LABEL + measure(text);
    if (x < free || z > most || scale.folds.some((each) => x < each.z && z + GAP > each.a)) continue;
    ticks.push({ x, text });
    free = z + GAP - LABEL;
  }
  return ticks;
}

/** The texts of a fold that fit into it, at most two: how long it is, and why. */
export function foldTexts({ a, z }, texts, measure) {
  const room = z - a - GAP;
  const short = texts.findIndex((text) => measure(text) > room);
  return short < 0 ? texts : texts.slice(0, short);
}

/** The label of a tick `ms` milliseconds after zero. `step`: milliseconds between ticks. */
export function tickText(ms, step) {
  const seconds = ms / 1000,
    two = (value) => String(Math.floor(value)).padStart(2, "0");
  if (step < 10) return `${ms} ms`;
  if (step < 1000) return ms === 0 ? "0 s" : `${seconds.toFixed(step < 100 ? 2 : 1)} s`;
  if (step >= 864e5) return `${Math.floor(ms / 864e5)} d`;
  if (step >= 36e5) return `${Math.floor(ms / 36e5)} h`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)}`;
  return `${Math.floor(seconds / 3600)}:${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
}

/** Each lane with its `top` and `height` in pixels, and its bars in `rows`. In a row no bar overlaps another
 * in time, except in the last of `MAX_ROWS`. */
export function stack(lanes) {
  let top = 0;
  return lanes.map((lane) => {
    const rows = [];
    const bars = lane.bars.every((bar, index) => !index || bar.from >= lane.bars[index - 1].from)
      ? lane.bars
      : [...lane.bars].sort((a, b) => a.from - b.from);
    for (const bar of bars) {
      let row = rows.find((each) => each.end <= bar.from);
      if (!row && rows.length >= MAX_ROWS) row = rows.at(-1);
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
 * separately. If there would be more than `maxBlocks`, wider bars are merged too. */
export function blocksOf(placed, scale, maxBlocks = 1500) {
  for (let narrow = NARROW; ; narrow *= 2) {
    const blocks = placed.flatMap((each) =>
      each.rows.flatMap((bars, row) => rowBlocks(each, bars, row, scale, narrow)),
    );
    if (blocks.length <= maxBlocks || narrow > 512) return blocks;
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
    if (before?.small && small && a - before.z < narrow / 2 && end - before.a <= narrow * MAX_MERGED) {
      before.bars.push(bar);
      before.z = Math.max(before.z, end, before.a + MIN_BLOCK);
      before.failed ||= bar.failed;
      continue;
    }
    const from = before && a < before.z ? Math.min(before.z, Math.max(a, end - MIN_BLOCK)) : a;
    blocks.push({
      placed,
      row,
      bars: [bar],
      a: from,
      z: Math.max(end, from + MIN_BLOCK),
      small,
      failed: Boolean(bar.failed),
    });
  }
  return blocks;
}
