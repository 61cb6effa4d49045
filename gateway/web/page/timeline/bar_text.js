// The texts in and beside bars and their widths, the accessible names of bars, and the steps of arrow keys.

import { took } from "./call_text.js";
import { svg } from "../core/dom.js";
import { KIND_NAMES } from "./facts.js";
import { BAR } from "./layout.js";
import { visible } from "../core/text.js";
import { count, money } from "../core/times.js";

/** The bar that an arrow key leads to: the one beside it in its lane, or the nearest in the next lane. */
export function neighbour(placed, block, key) {
  const lanes = placed.map((each) =>
    each.rows
      .flat()
      .filter((bar) => bar.kind !== "span")
      .sort((a, b) => a.from - b.from),
  );
  const at = placed.findIndex(
    (each) => each.lane.path === block.placed.lane.path && each.top === block.placed.top,
  );
  const lane = lanes[at] ?? [],
    first = block.bars[0];
  if (key === "ArrowRight")
    return lane[lane.findIndex((bar) => bar.id === block.bars.at(-1).id) + 1] ?? null;
  if (key === "ArrowLeft") return lane[lane.findIndex((bar) => bar.id === first.id) - 1] ?? null;
  if (key === "Home") return lane[0] ?? null;
  if (key === "End") return lane.at(-1) ?? null;
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const by = key === "ArrowUp" ? -1 : 1;
  for (let each = at + by; each >= 0 && each < lanes.length; each += by) {
    if (!lanes[each].length) continue;
    const far = (bar) => Math.abs(bar.from - first.from);
    return lanes[each].reduce((best, bar) => (far(bar) < far(best) ? bar : best));
  }
  return null;
}

/** The accessible name of a block. */
export function tellBlock({ bars, placed }) {
  const [bar] = bars,
    name = visible(placed.lane.name);
  if (bars.length > 1) {
    const failed = bars.filter((each) => each.failed).length;
    return `${name}: ${count(bars.length)} steps close together${failed ? `, ${count(failed)} failed` : ""}`;
  }
  const parts = [`${name}: ${KIND_NAMES[bar.kind].toLowerCase()} ${visible(bar.label)}`];
  if (bar.word && bar.word !== bar.label) parts.push(bar.word);
  parts.push(took((bar.to - bar.from) / 1000));
  if (bar.usage)
    parts.push(`${count(bar.usage.input_tokens)} tokens in, ${count(bar.usage.output_tokens)} out`);
  if (bar.usage?.cost_usd !== undefined) parts.push(money(bar.usage.cost_usd));
  if (bar.attempts > 1) parts.push(`${bar.attempts} attempts`);
  if (bar.server) parts.push(`server ${visible(bar.server)}`);
  return parts.join(", ");
}

/** The marks and the text of a block. `kind`: its look; `room`: pixels until the next block. */
export function labelOf(block, kind, y, room) {
  const { a, z, bars } = block,
    [bar] = bars;
  const text = bars.length > 1 ? "" : visible(bar.label ?? "");
  const width = text ? textWidth(text, 11, bar.kind === "wait" ? 600 : 500) : 0,
    inside = width + 12 <= z - a;
  const made = [];
  if (kind === "failed" && z - a > 12 && !inside) {
    made.push(
      svg("path", {
        d: "M0 0l5 5M5 0l-5 5",
        class: "cross",
        transform: `translate(${(a + z) / 2 - 2.5} ${y + 5})`,
      }),
    );
  }
  if (kind === "model" && bar.attempts > 1) {
    // A marked corner: the call was tried more than once.
    made.push(svg("path", { d: `M${a} ${y}h7l-7 7z`, class: "retried" }));
  }
  if (text && inside) {
    if (kind === "wait")
      made.push(
        svg("rect", { x: a + 4, y: y + 1, width: width + 8, height: BAR - 2, rx: 2, class: "plate" }),
      );
    made.push(label(text, a + (kind === "wait" ? 8 : 6), y + 11, "in"));
  } else if (text && bar.kind !== "model" && width + 10 < room) {
    // The text beside a bar, and the gap between, can be clicked like the bar.
    made.push(svg("rect", { x: a, y, width: z - a + width + 4, height: BAR, class: "hit" }));
    made.push(label(text, z + 4, y + 11, "beside"));
  }
  return made;
}

export function label(text, x, y, style) {
  return svg("text", { x, y, class: style || null }, text);
}

const widths = new Map();
let ruler = null;

/** Pixels of a text in the page's font. */
export function textWidth(text, size, weight = 500) {
  const key = `${weight} ${size} ${text}`;
  if (!widths.has(key)) {
    ruler ??= document.createElement("canvas").getContext("2d");
    ruler.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
    if (widths.size > 5000) widths.clear();
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

/** The text, cut to a width of `room` pixels. */
export function fitted(text, room, size) {
  if (textWidth(text, size) <= room) return text;
  let length = text.length;
  while (length > 1 && textWidth(`${text.slice(0, length)}…`, size) > room) length -= 1;
  return `${text.slice(0, length)}…`;
}
