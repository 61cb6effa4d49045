// The layout of the diagram of an agent's tree. Pure: the caller measures texts.

const BOX_HEIGHT = 28,
  GAP_ACROSS = 26, // between neighbours from left to right, with room for an arrow
  GAP_DOWN = 8,
  PADDING = 10, // inside of a group
  CAPTION_HEIGHT = 20,
  LOOP_HEIGHT = 10; // for the arrow back, below the children of a loop

/** `{width, height, boxes, groups, edges}` of the tree of lanes (`lanesOf`) below `root`. The children of
 * sequences and loops are placed from left to right, those of parallel nodes from top to bottom, and those of
 * a router from top to bottom on its right. `widthOf(text, size)`: the width of a text in pixels. */
export function layoutTree(root, widthOf) {
  const sizes = new Map(),
    out = { boxes: [], groups: [], edges: [] };
  measure(root, sizes, widthOf);
  put(root, 0, 0, sizes, out);
  const { w, h } = sizes.get(root);
  return { width: w, height: h, ...out };
}

const isBox = (lane) => !lane.kids.length || lane.type === "router";

const loopHeight = (lane) => (lane.type === "loop" ? LOOP_HEIGHT : 0);

/** Adds the sizes of a lane and of all below it to `sizes`: `w`, `h`, and the width `box` of its own box. */

function measure(lane, sizes, widthOf) {
  lane.kids.forEach((kid) => measure(kid, sizes, widthOf));
  const kids = lane.kids.map((kid) => sizes.get(kid));
  const sum = (side, gap) =>
    kids.reduce((all, each) => all + each[side], 0) + gap * Math.max(kids.length - 1, 0);
  const most = (side) => Math.max(0, ...kids.map((each) => each[side]));
  const box = isBox(lane) ? Math.ceil(widthOf(lane.name, 12)) + 40 : 0;
  let w = box,
    h = BOX_HEIGHT;
  if (lane.type === "router" && kids.length) [w, h] = [box + GAP_ACROSS + most("w"), sum("h", GAP_DOWN)];
  else if (kids.length) {
    const stacked = lane.type === "parallel";
    const caption = Math.ceil(widthOf(captionOf(lane), 11)) + 28;
    w = Math.max((stacked ? most("w") : sum("w", GAP_ACROSS)) + 2 * PADDING, caption);
    h = (stacked ? sum("h", GAP_DOWN) : most("h")) + PADDING + CAPTION_HEIGHT + loopHeight(lane);
  }
  sizes.set(lane, { w, h: Math.max(h, BOX_HEIGHT), box });
}

/** The caption of a group, with room for the count of a loop. */
function captionOf(lane) {
  return `${lane.name} · ${lane.type}${lane.type === "loop" ? " 00 of 00" : ""}`;
}

/** Adds the boxes, groups and edges of a lane and of all below it to `out`, with the upper left corner at
 * (`x`, `y`). */
function put(lane, x, y, sizes, out) {
  const { w, h, box } = sizes.get(lane);
  if (!lane.kids.length) {
    out.boxes.push({ lane, x, y: y + (h - BOX_HEIGHT) / 2, w: box, h: BOX_HEIGHT });
  } else if (lane.type === "router") {
    putRouter(lane, x, y, sizes, out);
  } else {
    out.groups.push({ lane, x, y, w, h });
    (lane.type === "parallel" ? putStacked : putInRow)(lane, x, y, sizes, out);
  }
}

function putRouter(lane, x, y, sizes, out) {
  const { box } = sizes.get(lane);
  const middle = y + sizes.get(lane.kids[0]).h / 2;
  out.boxes.push({ lane, x, y: middle - BOX_HEIGHT / 2, w: box, h: BOX_HEIGHT });
  let top = y;
  lane.kids.forEach((kid, choice) => {
    put(kid, x + box + GAP_ACROSS, top, sizes, out);
    const to = top + sizes.get(kid).h / 2;
    out.edges.push({ from: [x + box, middle], to: [x + box + GAP_ACROSS, to], into: kid, choice });
    top += sizes.get(kid).h + GAP_DOWN;
  });
}

function putStacked(lane, x, y, sizes, out) {
  let top = y + CAPTION_HEIGHT;
  for (const kid of lane.kids) {
    stretch(kid, sizes.get(lane).w - 2 * PADDING, sizes);
    put(kid, x + PADDING, top, sizes, out);
    top += sizes.get(kid).h + GAP_DOWN;
  }
}

function putInRow(lane, x, y, sizes, out) {
  const { w, h } = sizes.get(lane);
  const content =
    lane.kids.reduce((all, kid) => all + sizes.get(kid).w, 0) + GAP_ACROSS * (lane.kids.length - 1);
  const first = x + (w - content) / 2, // centred, because a long caption makes the group wider
    middle = y + CAPTION_HEIGHT + (h - CAPTION_HEIGHT - PADDING - loopHeight(lane)) / 2;
  let left = first;
  lane.kids.forEach((kid, index) => {
    const size = sizes.get(kid);
    put(kid, left, middle - size.h / 2, sizes, out);
    if (index) out.edges.push({ from: [left - GAP_ACROSS, middle], to: [left, middle], into: kid });
    left += size.w + GAP_ACROSS;
  });
  if (lane.type === "loop")
    out.edges.push({
      back: true,
      from: [left - GAP_ACROSS, middle],
      to: [first, middle],
      low: y + h - 6,
      into: lane,
    });
}

/** Widens a child of a parallel node; a leaf's box, too. */
function stretch(kid, width, sizes) {
  const size = sizes.get(kid);
  sizes.set(kid, { ...size, w: width, box: kid.kids.length ? size.box : width });
}
