// Where bars stand, what is folded, what is merged, and the other pure parts of the timeline.

import assert from "node:assert/strict";
import { test } from "node:test";

import { lanesOf } from "../../../gateway/web/page/timeline/lanes.js";
import {
  blocksOf,
  foldTexts,
  LABEL,
  scaleOf,
  stack,
  tickText,
  ticksOf,
} from "../../../gateway/web/page/timeline/layout.js";
import { jsonLines } from "../../../gateway/web/page/timeline/raw_events.js";
import { sessionOf } from "../../../gateway/web/page/timeline/session_state.js";
import { layoutTree } from "../../../gateway/web/page/timeline/tree_layout.js";
import { modelCallsOf, columnsOf, roundUp, sumOf } from "../../../gateway/web/page/timeline/usage.js";
import { jsonText, resultParts } from "../../../gateway/web/page/timeline/value_block.js";
import { neighbour, tellBlock } from "../../../gateway/web/page/timeline/bar_text.js";
import { parse } from "../../../gateway/web/page/core/exact_json.js";

const bar = (from, to, more = {}) => ({
  id: `${from}-${to}`,
  kind: "tool",
  label: "look",
  from,
  to,
  word: "finished",
  ...more,
});
const lane = (...bars) => ({ path: "", name: "a", bars });
const wide = { from: 0, to: 1000, pauses: [], fold: true, left: 100, width: 500 };

test("work is to scale, and a long pause has a fixed width", () => {
  const scale = scaleOf({ ...wide, to: 101_000, pauses: [{ from: 500, to: 100_500 }] });
  const [fold] = scale.folds;
  assert.equal(scale.folds.length, 1);
  assert.equal(Math.round(fold.z - fold.a), 88);
  assert.equal(scale.x(0), 100);
  assert.equal(Math.round(scale.x(101_000)), 600);
  assert.equal(Math.round(scale.x(500) - 100), Math.round(600 - scale.x(100_500)));
  assert.ok(scale.x(50_000) > fold.a && scale.x(50_000) < fold.z);
});

test("by the clock nothing is folded, and short pauses never are", () => {
  assert.equal(scaleOf({ ...wide, fold: false, pauses: [{ from: 0, to: 900 }] }).folds.length, 0);
  assert.equal(scaleOf({ ...wide, pauses: [{ from: 0, to: 100 }] }).folds.length, 0);
});

test("many folds share at most half of the width", () => {
  const pauses = Array.from({ length: 50 }, (_, index) => ({ from: index * 1000, to: index * 1000 + 990 }));
  const scale = scaleOf({ ...wide, to: 50_000, pauses });
  assert.equal(scale.folds.length, 50);
  assert.ok(scale.folds.reduce((sum, { a, z }) => sum + z - a, 0) < 250);
  assert.equal(Math.round(scale.x(50_000)), 600);
});

const measure = (text) => text.length * 6.5; // pixels of a letter at the size of the axis, about

test("ticks stand at round times, none in a fold", () => {
  const scale = scaleOf({ ...wide, to: 101_000, pauses: [{ from: 500, to: 100_500 }] });
  const ticks = ticksOf(scale, 0, measure);
  assert.equal(ticks[0].text, "0 s");
  for (const { x } of ticks) assert.ok(!(x > scale.folds[0].a && x < scale.folds[0].z));
  assert.deepEqual(
    [tickText(65_000, 5000), tickText(3_600_000, 60_000), tickText(30, 10), tickText(2, 1)],
    ["1:05", "1:00:00", "0.03 s", "2 ms"],
  );
  assert.deepEqual([tickText(2 * 864e5, 864e5), tickText(36e5, 36e5)], ["2 d", "1 h"]);
});

test("labels of the axis never touch each other, a fold or the edge, whatever was waited for", () => {
  const MINUTE = 6e4,
    DAY = 864e5;
  for (const width of [180, 246, 420, 900])
    for (const work of [5, 300, 4000, 61_000, 20 * MINUTE, 3 * DAY])
      for (const waits of [[], [2000], [DAY, 900], [30 * DAY, 3 * 36e5, 5000, 400 * DAY]])
        for (const fold of [true, false])
          for (const now of [true, false]) {
            const step = work / (waits.length + 1);
            let at = 0;
            const pauses = waits.map((wait) => {
              const from = (at += step);
              return { from, to: (at += wait) };
            });
            const scale = scaleOf({ from: 0, to: at + step, pauses, fold, left: 100, width });
            const taken = ticksOf(scale, 0, measure, now).map(({ x, text }) => [
              x + LABEL,
              x + LABEL + measure(text),
            ]);
            taken.push(...scale.folds.map(({ a, z }) => [a, z]));
            if (now) taken.push([scale.right - measure("now"), scale.right]);
            taken.sort((one, other) => one[0] - other[0]);
            // A wait that goes on reaches to the right edge, and says "now" itself.
            const isOver = scale.folds.some(({ z }) => z > scale.right - measure("now"));
            taken.slice(1).forEach(([from], index) => {
              const told = JSON.stringify({ width, work, waits, fold, now, taken });
              if (!isOver || !now) assert.ok(from >= taken[index][1], told);
            });
            if (taken.length) assert.ok(taken.at(-1)[1] <= scale.right + 16, "outside of the axis");
          }
});

test("a fold has the texts that fit into it", () => {
  const texts = ["3 d 4 h", "waiting only"];
  assert.deepEqual(foldTexts({ a: 0, z: 100 }, texts, measure), texts);
  assert.deepEqual(foldTexts({ a: 0, z: 60 }, texts, measure), ["3 d 4 h"]);
  assert.deepEqual(foldTexts({ a: 0, z: 30 }, texts, measure), []);
});

test("bars that overlap in time stand in rows", () => {
  const [placed] = stack([lane(bar(0, 10), bar(5, 20), bar(10, 12))]);
  assert.deepEqual(
    placed.rows.map((row) => row.map(({ id }) => id)),
    [["0-10", "10-12"], ["5-20"]],
  );
  assert.equal(placed.height, 46);
});

test("bars too narrow to be told apart become one, others do not", () => {
  const bars = [bar(0, 1), bar(1, 2, { failed: true }), bar(2, 3), bar(500, 600), bar(600, 700)];
  const blocks = blocksOf(stack([lane(...bars)]), scaleOf(wide));
  assert.deepEqual(
    blocks.map((block) => [block.bars.length, block.failed]),
    [
      [3, true],
      [1, false],
      [1, false],
    ],
  );
  assert.match(tellBlock(blocks[0]), /^a: 3 steps close together, 1 failed$/);
});

test("10,000 bars are at most 1,500 blocks, with none lost, quickly", () => {
  const lanes = Array.from({ length: 30 }, (_, index) => ({ ...lane(), path: `${index}` }));
  for (let index = 0; index < 10_000; index += 1)
    lanes[index % 30].bars.push(bar(index * 10, index * 10 + 200));
  const began = performance.now();
  const blocks = blocksOf(stack(lanes), scaleOf({ ...wide, to: 100_200 }), 1500);
  console.log(`${performance.now() - began} ms`);
  assert.ok(blocks.length <= 1500);
  assert.equal(
    blocks.reduce((sum, block) => sum + block.bars.length, 0),
    10_000,
  );
});

test("a range shows what is in it alone", () => {
  const blocks = blocksOf(
    stack([lane(bar(0, 10), bar(400, 600), bar(900, 950))]),
    scaleOf({ ...wide, from: 300, to: 500 }),
  );
  assert.deepEqual(
    blocks.map((block) => [block.bars[0].id, block.a, block.z]),
    [["400-600", 350, 600]],
  );
});

test("arrow keys walk along a lane, and to the nearest bar of the next lane that has one", () => {
  const placed = stack([
    lane(bar(0, 10), bar(20, 30)),
    { ...lane(), path: "0" },
    { ...lane(bar(1, 2), bar(19, 25)), path: "1" },
  ]);
  const at = (place, index) => ({ placed: place, bars: [place.rows[0][index]] });
  assert.equal(neighbour(placed, at(placed[0], 0), "ArrowRight").id, "20-30");
  assert.equal(neighbour(placed, at(placed[0], 0), "ArrowLeft"), null);
  assert.equal(neighbour(placed, at(placed[0], 1), "ArrowDown").id, "19-25");
  assert.equal(neighbour(placed, at(placed[2], 0), "ArrowUp").id, "0-10");
  assert.equal(neighbour(placed, at(placed[0], 0), "x"), null);
});

test("the accessible name of a bar has all that its colour and size say", () => {
  const one = {
    ...bar(0, 1500),
    kind: "model",
    label: "m",
    usage: { input_tokens: 1200, output_tokens: 3, cost_usd: 0.5 },
    attempts: 2,
  };
  assert.equal(
    tellBlock({ bars: [one], placed: { lane: lane() } }),
    "a: model call m, finished, 1.5 s, 1,200 tokens in, 3 out, $0.50, 2 attempts",
  );
});

test("sequences run to the right, parallel nodes are stacked, a router stands before its choices", () => {
  const leaf = (name) => ({ type: "llm", name });
  const [root] = lanesOf({
    type: "sequential",
    name: "s",
    agents: [
      leaf("a"),
      { type: "parallel", name: "p", agents: [leaf("b"), leaf("c")] },
      { type: "router", name: "r", agents: [leaf("d"), leaf("e")] },
      { type: "loop", name: "l", agents: [leaf("f")] },
    ],
  });
  const { boxes, edges, width, height } = layoutTree(root, (text) => text.length * 7);
  const at = Object.fromEntries(boxes.map((box) => [box.lane.name, box]));
  assert.ok(at.a.x + at.a.w < at.b.x);
  assert.ok(at.b.x === at.c.x && at.b.y + at.b.h <= at.c.y && at.b.w === at.c.w);
  assert.ok(at.r.x + at.r.w < at.d.x && at.d.x === at.e.x);
  assert.equal(edges.filter(({ choice }) => choice !== undefined).length, 2);
  assert.equal(edges.filter(({ back }) => back).length, 1);
  for (const { x, y, w, h } of boxes) assert.ok(x >= 0 && y >= 0 && x + w <= width && y + h <= height);
});

test("the session state has the latest value of each key and the earlier ones", () => {
  const set = (seq, key, value) => ({
    seq,
    type: "state.set",
    at: "2026-01-01T00:00:00Z",
    body: { key, value, node: "n" },
  });
  const keys = sessionOf([
    { type: "run.started", body: { turn: 2 } },
    set(1, "a", "1"),
    set(2, "b", "2"),
    set(3, "a", "3"),
  ]);
  assert.deepEqual(
    [...keys].map(([key, values]) => [key, values.map(({ value, turn }) => [value, turn])]),
    [
      [
        "a",
        [
          ["1", 2],
          ["3", 2],
        ],
      ],
      ["b", [["2", 2]]],
    ],
  );
});

test("usage is summed, and a cost that is not known of all calls says so", () => {
  const step = (usage, more) => ({
    type: "step.finished",
    at: "",
    body: { kind: "model", node: "n", model: "m", usage, ...more },
  });
  const calls = modelCallsOf([
    step({ input_tokens: 5, output_tokens: 1, cost_usd: 0.5 }),
    step({ input_tokens: 7, output_tokens: 2 }, { error: {} }),
    step(undefined),
    { type: "step.finished", body: { kind: "node" } },
  ]);
  assert.deepEqual(sumOf(calls), {
    calls: 3,
    failed: 1,
    input: 12,
    cached: 0,
    output: 3,
    cost: 0.5,
    unpriced: 1,
  });
  assert.equal(columnsOf(Array(1000).fill(calls[0])).length, 112);
  assert.deepEqual([0, 3, 12, 0.0141, 1000].map(roundUp), [1, 5, 20, 0.02, 1000]);
});

test("values keep their digits, in details and in the download", () => {
  const text = '{"seq":1,"body":{"n":9007199254740993,"f":1.0}}';
  assert.equal(jsonLines([parse(text)]), `${text}\n`);
  assert.equal(
    jsonText(parse('{"n": [9007199254740993, 1.0], "o": {}}')),
    '{\n  "n": [9007199254740993, 1.0],\n  "o": {}\n}',
  );
});
