// The agent's tree as a diagram that shows the state of each node. A click on a node shows its lane.

import { fitted, textWidth } from "./bar_text.js";
import { h, svg } from "../core/dom.js";
import { layoutTree } from "./tree_layout.js";
import { GLYPHS } from "./waterfall.js";
import { visible } from "../core/text.js";

/** `choose(path)` is called with the place of the node that was clicked. */
export function tree({ choose }) {
  const element = h("div", { class: "tree" });
  let drawn = null,
    parts = null;

  /** `view` is one of `Spans.view`. The diagram is rebuilt only for another tree. */
  function draw(view, marked) {
    if (!view.tree || element.hidden) return;
    if (drawn !== view.tree) {
      drawn = view.tree;
      parts = picture(drawn, choose);
      element.replaceChildren(parts.root);
    }
    // A wide diagram shrinks a little before it scrolls.
    const least = Math.min(1, Math.max(0.85, (element.clientWidth - 34) / parts.width));
    parts.root.setAttribute("width", parts.width * least);
    parts.root.setAttribute("height", parts.height * least);
    const lanes = new Map(
      view.lanes.filter((each) => each.lane.parent !== undefined).map((each) => [each.lane.path, each]),
    );
    for (const [lane, node] of parts.nodes) light(node, lane, lanes.get(lane.path), lane.path === marked);
    for (const { path, into, choice } of parts.edges) {
      const { state } = lanes.get(into.path) ?? {};
      const off = choice !== undefined && state === "skipped";
      path.setAttribute("class", `edge${off ? " off" : state === "idle" ? " next" : ""}`);
    }
  }
  return { element, draw };
}

function picture(root, choose) {
  const { width, height, boxes, groups, edges } = layoutTree(root, (text, size) =>
    textWidth(visible(text), size),
  );
  const nodes = new Map(),
    lines = [];
  const tip = svg(
    "marker",
    { id: "tip", viewBox: "0 0 6 6", refX: 5.5, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" },
    svg("path", { d: "M0 .5 5.5 3 0 5.5z", class: "tip" }),
  );
  const paths = edges.map((edge) => {
    const path = svg("path", { d: edgePath(edge), "marker-end": "url(#tip)" });
    lines.push({ path, into: edge.into, choice: edge.choice });
    return path;
  });
  const order = []; // as the tree is read; the arrow keys follow it, and Tab stops once
  const pressable = (lane, g) => {
    g.addEventListener("click", () => choose(lane.path));
    g.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by) order[order.indexOf(g) + by]?.focus();
      else if (event.key === "Enter" || event.key === " ") choose(lane.path);
      else return;
      event.preventDefault();
    });
    g.addEventListener("focus", () =>
      order.forEach((each) => each.setAttribute("tabindex", each === g ? 0 : -1)),
    );
    nodes.set(lane, g);
    return g;
  };
  groups.forEach(({ lane, x, y, w, h: tall }) =>
    pressable(
      lane,
      svg(
        "g",
        { role: "button" },
        svg("rect", { x: x + 0.5, y: y + 0.5, width: w - 1, height: tall - 1, rx: 8 }),
        svg("text", { x: x + 10, y: y + 14, class: "caption" }),
      ),
    ),
  );
  boxes.forEach(({ lane, x, y, w, h: tall }) => {
    const round = lane.type === "router" || lane.type === "approval" ? 14 : 6;
    pressable(
      lane,
      svg(
        "g",
        { role: "button" },
        svg("rect", { x: x - 3, y: y - 3, width: w + 6, height: tall + 6, rx: round + 3, class: "halo" }),
        svg("rect", { x: x + 0.5, y: y + 0.5, width: w - 1, height: tall - 1, rx: round, class: "box" }),
        lane.type === "a2a" &&
          svg("rect", { x: x + 3.5, y: y + 3.5, width: w - 7, height: tall - 7, rx: 4, class: "remote" }),
        svg("path", { class: "glyph", transform: `translate(${x + 10} ${y + 8})` }),
        svg("text", { x: x + 27, y: y + 18 }, fitted(visible(lane.name), w - 34, 12)),
      ),
    );
  });
  const inOrder = (lane) => [nodes.get(lane), ...lane.kids.flatMap(inOrder)];
  order.push(...inOrder(root));
  order.forEach((each, index) => each.setAttribute("tabindex", index ? -1 : 0));
  const made = svg(
    "svg",
    {
      width: width + 12,
      height: height + 12,
      viewBox: `-6 -6 ${width + 12} ${height + 12}`,
      role: "group",
      "aria-label": "The agent's tree",
    },
    svg("defs", {}, tip),
    ...order,
    ...paths,
  );
  return { root: made, nodes, edges: lines, width: width + 12, height: height + 12 };
}

function edgePath({ from: [x, y], to: [u, v], back, low }) {
  if (back) return `M${x} ${y}h2q4 0 4 4V${low - 4}q0 4-4 4H${u - 2}q-4 0-4-4V${v + 4}q0-4 4-4h2`;
  const middle = (x + u) / 2;
  return y === v ? `M${x} ${y}H${u}` : `M${x} ${y}C${middle} ${y} ${middle} ${v} ${u} ${v}`;
}

function light(node, lane, shown, marked) {
  const state = shown?.state ?? "idle",
    word = shown?.word ?? "not yet";
  const isGroup = lane.kids.length && lane.type !== "router";
  const rounds =
    lane.type === "loop" && lane.touched ? ` ${lane.round ?? 1} of ${lane.spec.max_iterations ?? "?"}` : "";
  const parts = [visible(lane.name), lane.type, rounds && `iteration${rounds}`, word];
  if (lane.attempts) parts.push(`attempt ${lane.attempts}`);
  const told = parts.filter(Boolean).join(", ");
  const look = `${state} ${told} ${marked}`;
  if (node.look === look) return;
  node.look = look;
  node.setAttribute(
    "class",
    `${isGroup ? "group" : "node"} ${state} ${lane.type}${marked ? " marked" : ""}`,
  );
  node.setAttribute("aria-label", told);
  node.querySelector(".glyph")?.setAttribute("d", GLYPHS[state]);
  const caption = node.querySelector(".caption");
  if (caption) caption.textContent = `${visible(lane.name)} · ${lane.type}${rounds}`;
}
