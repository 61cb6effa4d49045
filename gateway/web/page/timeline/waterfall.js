// The waterfall: a lane per node, bars for model calls, tool calls and waits.
//
// A conversation of 10,000 events stays fast, because few elements are drawn: only lanes in and near the
// scroll window; bars narrower than 2 pixels that touch become one, as do wider ones if more than 1,500
// would be drawn (`layout.js`). Bars that did not change keep their elements, and with them the focus.

import { fitted, label, labelOf, neighbour, tellBlock, textWidth } from "./bar_text.js";
import { h, svg } from "../core/dom.js";
import { AXIS, BAR, blocksOf, foldTexts, LABEL, ROW, scaleOf, stack, ticksOf } from "./layout.js";
import { WORDS } from "./lanes.js";
import { duration } from "../core/times.js";
import { visible } from "../core/text.js";

const MARGIN = 240; // pixels drawn above and below the scroll window

/** Glyphs of states, 12 by 12: colour alone never shows a state. */
export const GLYPHS = {
  done: "M2.5 6.5 5 9l4.5-6",
  working: "M4 2.5v7l5.5-3.5z",
  waits: "M4 2.5v7M8 2.5v7",
  idle: "M3 6h6",
  skipped: "M3 6h6",
  failed: "M3 3l6 6M9 3l-6 6",
  stopped: "M3 3h6v6H3z",
};

/** `select(bars)` is called with the chosen bar, or with several that were drawn as one. */
export function waterfall({ select }) {
  const axis = svg("svg", { class: "fall-axis", height: AXIS, "aria-hidden": "true" });
  const back = svg("g"),
    names = svg("g", { class: "names" }),
    bars = svg("g"),
    front = svg("g", { class: "front", "aria-hidden": "true" });
  const rings = svg("g");
  const picture = svg(
    "svg",
    { class: "fall-lanes", role: "group", "aria-label": "Timeline" },
    hatch(),
    back,
    names,
    bars,
    front,
  );
  const element = h("div", { class: "fall" }, axis, picture);
  const drawn = new Map(); // elements of blocks by key
  let model = null,
    focused = null,
    picked = null; // the block of the selected bar

  function draw(next = model) {
    if (!next) return;
    model = { ...next };
    const width = element.clientWidth;
    if (!width) return;
    const narrow = width < 560,
      left = narrow ? 128 : 148;
    const { view, fold, range } = model;
    const end = Math.max(range?.to ?? view.to, (range?.from ?? view.from) + 1);
    const scale = scaleOf({
      from: range?.from ?? view.from,
      to: end,
      pauses: view.pauses,
      fold,
      left,
      width: width - left - 16,
    });
    const placed = stack(view.lanes),
      last = placed.at(-1);
    const height = last ? last.top + last.height : 0;
    const top = element.scrollTop - MARGIN,
      bottom = element.scrollTop + element.clientHeight + MARGIN;
    const shown = placed.filter((each) => each.top + each.height >= top && each.top <= bottom);
    Object.assign(model, { scale, placed, width, top: element.scrollTop, height: element.clientHeight });
    for (const each of [axis, picture]) each.setAttribute("width", width);
    picture.setAttribute("height", height);
    drawBack(scale, shown, height);
    drawNames(shown, left, narrow ? 8 : 12);
    drawBars(blocksOf(shown, scale));
  }

  function drawBack(scale, shown, height) {
    const { view, width } = model;
    const zero = view.from,
      head = [],
      body = [];
    for (const { a, z } of scale.folds) {
      head.push(svg("rect", { x: a, y: 0, width: z - a, height: AXIS, class: "fold" }));
      body.push(svg("rect", { x: a, y: 0, width: z - a, height, class: "fold" }));
    }
    const measure = (text) => textWidth(text, 11, 600); // the bolder of the two weights on the axis
    for (const { x, text } of ticksOf(scale, zero, measure, view.live && !model.range)) {
      head.push(
        svg("line", { x1: x, x2: x, y1: AXIS - 6, y2: AXIS, class: "grid" }),
        label(text, x + LABEL, 17, "tick"),
      );
      body.push(svg("line", { x1: x, x2: x, y1: 0, y2: height, class: "grid" }));
    }
    const still = scale.folds.at(-1)?.live; // the wait goes on, and says "now" itself
    for (const fold of scale.folds) {
      const { a, z, from, to, why, live } = fold;
      head.push(svg("path", { d: `M${a} 0V${AXIS}M${z} 0V${AXIS}`, class: "fold-edge" }));
      body.push(svg("path", { d: `M${a} 0V${height}M${z} 0V${height}`, class: "fold-edge" }));
      const texts = foldTexts(fold, [duration((to - from) / 1000), live ? "waiting now" : why], measure);
      texts.forEach((text, line) =>
        head.push(label(text, (a + z) / 2, line ? 24 : 12, line ? "tick middle" : "fold-text")),
      );
    }
    for (const { top, height: tall, lane } of shown) {
      if (model.marked === lane.path)
        body.push(svg("rect", { x: 0, y: top, width, height: tall, class: "marked" }));
      body.push(
        svg("line", { x1: 0, x2: width, y1: top + tall - 0.5, y2: top + tall - 0.5, class: "lane-line" }),
      );
    }
    const over = [];
    if (view.live && !model.range) {
      over.push(svg("line", { x1: scale.right, x2: scale.right, y1: 0, y2: height, class: "now-line" }));
      if (!still) head.push(label("now", scale.right, 17, "now-text"));
    }
    axis.replaceChildren(...head);
    back.replaceChildren(...body);
    front.replaceChildren(...over, rings);
  }

  /** Around the selected and the focused bar, above all others. */
  function drawRings() {
    const around = (block, style) =>
      svg("rect", {
        x: block.a - 2,
        y: block.placed.top + 4 + block.row * ROW,
        width: block.z - block.a + 4,
        height: BAR + 4,
        rx: 5,
        class: style,
      });
    const at =
      document.activeElement?.matches(":focus-visible") &&
      picture.contains(document.activeElement) &&
      document.activeElement.block;
    rings.replaceChildren(
      ...[picked && around(picked, "ring"), at && around(at, "ring focus")].filter(Boolean),
    );
  }

  function drawNames(shown, left, indent) {
    names.replaceChildren(
      ...shown.map(({ lane, top }) => {
        const x = 14 + Math.min(lane.depth, 6) * indent;
        const round = lane.lane?.round > 1 && lane.type === "loop" ? `, iteration ${lane.lane.round}` : "";
        const told = `${visible(lane.name)}, ${lane.type}, ${lane.word ?? WORDS[lane.state]}${round}`;
        return svg(
          "g",
          { class: `lane-name ${lane.state}${lane.group ? " group" : ""}` },
          svg("title", {}, told),
          svg("path", {
            d: GLYPHS[lane.state],
            class: "glyph",
            transform: `translate(${x - 2} ${top + 8})`,
          }),
          label(fitted(visible(lane.name), left - x - 22, 13), x + 15, top + 18, ""),
        );
      }),
    );
  }

  function drawBars(blocks) {
    const keep = new Set(),
      byRow = new Map();
    for (const block of blocks) {
      const row = `${block.placed.top}/${block.row}`;
      const before = byRow.get(row);
      if (before) before.next = block;
      byRow.set(row, block);
    }
    const stop =
      blocks.find((block) => block.bars.some((bar) => bar.id === (focused ?? model.selected))) ??
      blocks.find((block) => block.bars[0].kind !== "span");
    picked = null;
    for (const block of blocks) {
      const key = block.bars[0].id;
      keep.add(key);
      let g = drawn.get(key);
      if (!g) {
        g =
          block.bars[0].kind === "span"
            ? svg("g", { class: "bar span" })
            : svg("g", { class: "bar", role: "button", "data-id": key });
        drawn.set(key, g);
        bars.append(g);
      }
      g.block = block;
      paint(g, block, block === stop);
    }
    for (const [key, g] of drawn) {
      if (keep.has(key)) continue;
      g.remove();
      drawn.delete(key);
    }
    drawRings();
  }

  function paint(g, block, stop) {
    const { a, z, row, placed } = block,
      bar = block.bars[0],
      y = placed.top + 6 + row * ROW;
    const selected = block.bars.some((each) => each.id === model.selected);
    const room = (block.next?.a ?? model.scale.folds.find((fold) => fold.a >= z)?.a ?? model.scale.right) - z;
    const { length } = block.bars,
      space = Math.round(room);
    const look = [a.toFixed(1), z.toFixed(1), y, length, block.failed, bar.label, bar.word, space].join(" ");
    if (selected) picked = block;
    if (bar.kind !== "span") {
      set(g, "aria-pressed", String(selected));
      set(g, "tabindex", stop ? "0" : "-1");
      if (bar.live || g.look !== look) set(g, "aria-label", tellBlock(block));
    }
    if (g.look === look) return;
    g.look = look;
    if (bar.kind === "span") {
      g.replaceChildren(svg("rect", { x: a, y: y + 6, width: z - a, height: 3, rx: 1.5 }));
      return;
    }
    const many = block.bars.length > 1,
      kind = block.failed && !many ? "failed" : bar.kind;
    g.setAttribute("class", `bar ${kind}${bar.live ? " live" : ""}${many ? " several" : ""}`);
    g.replaceChildren(
      svg("rect", { x: a, y, width: z - a, height: BAR, rx: Math.min(3, (z - a) / 2), class: "body" }),
      ...(many && block.failed
        ? [svg("rect", { x: a, y: y + BAR - 5, width: z - a, height: 5, rx: 1.5, class: "hurt" })]
        : []),
      ...labelOf(block, kind, y, room),
    );
  }

  /** Scrolls to a bar, which may not be drawn yet. */
  function reveal(id, { focus = false } = {}) {
    const place = model?.placed?.find((each) => each.lane.bars.some((bar) => bar.id === id));
    if (!place) return;
    if (place.top < element.scrollTop) element.scrollTop = place.top;
    const over = place.top + Math.min(place.height, 80) + AXIS - element.clientHeight;
    if (over > element.scrollTop) element.scrollTop = over;
    if (focus) focused = id;
    draw();
    if (!focus) return;
    const g = [...drawn.values()].find((each) => each.block.bars.some((bar) => bar.id === id));
    g?.focus({ preventScroll: true });
  }

  function step(event) {
    const g = event.target.closest?.(".bar[role]");
    if (!g || event.altKey || event.ctrlKey || event.metaKey) return;
    const { block } = g;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      select(block.bars);
      return;
    }
    const to = neighbour(model.placed, block, event.key);
    if (!to) return;
    event.preventDefault();
    reveal(to.id, { focus: true });
  }

  picture.addEventListener("click", (event) => {
    const g = event.target.closest(".bar[role]");
    if (g) select(g.block.bars);
  });
  picture.addEventListener("keydown", step);
  // Not on the SVG element, because Chromium makes SVG elements with focus listeners tab stops.
  element.addEventListener("focusin", (event) => {
    focused = event.target.block?.bars[0].id ?? focused;
    drawRings();
  });
  element.addEventListener("focusout", drawRings);
  picture.addEventListener("pointerover", (event) => {
    const g = event.target.closest(".bar[role]"); // titles are made on demand: thousands are slow
    if (g && !g.querySelector("title")) g.append(svg("title", {}, g.getAttribute("aria-label")));
  });
  element.addEventListener(
    "scroll",
    () => {
      if (model && Math.abs(element.scrollTop - model.top) > MARGIN / 2) draw();
    },
    { passive: true },
  );
  const resized = new ResizeObserver(() => {
    if (model && (element.clientWidth !== model.width || element.clientHeight !== model.height)) draw();
  });
  resized.observe(element);

  /** Scrolls to the lane of a node. */
  function toLane(path) {
    const place = model?.placed?.find((each) => each.lane.path === path);
    if (place) element.scrollTop = Math.max(0, place.top - 40);
    draw();
  }

  return { element, draw, reveal, toLane, close: () => resized.disconnect() };
}

/** Sets an attribute if its value differs: setting it again would cost a style update. */
function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

function hatch() {
  return svg(
    "defs",
    {},
    svg(
      "pattern",
      {
        id: "hatch",
        width: 6,
        height: 6,
        patternUnits: "userSpaceOnUse",
        patternTransform: "rotate(45)",
      },
      svg("rect", { width: 6, height: 6, class: "hatch-back" }),
      svg("path", { d: "M1 0v6", class: "hatch-line" }),
    ),
  );
}
