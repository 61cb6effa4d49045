// The places of the nodes in the diagram of an agent's tree. Pure: the widths of texts are given.

const TALL = 28,
  ACROSS = 26,
  BETWEEN = 8,
  INSIDE = 10,
  CAPTION = 20;

/** `{width, height, boxes, groups, edges}` for lanes of `lanesOf`. Sequences and loops run from left to
 * right, parallel nodes are stacked, a router stands before its choices. */
export function layTree(root, widthOf) {
  const sizes = new Map(),
    out = { boxes: [], groups: [], edges: [] };
  measure(root, sizes, widthOf);
  put(root, 0, 0, sizes, out);
  const { w, h } = sizes.get(root);
  return { width: w, height: h, ...out };
}

const isBox = (lane) => !lane.kids.length || lane.type === "router";

function measure(lane, sizes, widthOf) {
  lane.kids.forEach((kid) => measure(kid, sizes, widthOf));
  const kids = lane.kids.map((kid) => sizes.get(kid));
  const sum = (side, gap) =>
    kids.reduce((all, each) => all + each[side], 0) + gap * Math.max(kids.length - 1, 0);
  const most = (side) => Math.max(0, ...kids.map((each) => each[side]));
  const box = isBox(lane) ? Math.ceil(widthOf(lane.name, 12)) + 40 : 0;
  let w = box,
    h = TALL;
  if (lane.type === "router" && kids.length) [w, h] = [box + ACROSS + most("w"), sum("h", BETWEEN)];
  else if (kids.length) {
    const stacked = lane.type === "parallel";
    const caption = Math.ceil(widthOf(captionOf(lane), 11)) + 28;
    w = Math.max((stacked ? most("w") : sum("w", ACROSS)) + 2 * INSIDE, caption);
    h = (stacked ? sum("h", BETWEEN) : most("h")) + INSIDE + CAPTION + (lane.type === "loop" ? 10 : 0);
  }
  sizes.set(lane, { w, h: Math.max(h, TALL), box });
}

/** The caption of a group, with room for the count of a loop. */
function captionOf(lane) {
  return `${lane.name} · ${lane.type}${lane.type === "loop" ? " 00 of 00" : ""}`;
}

function put(lane, x, y, sizes, out) {
  const { w, h, box } = sizes.get(lane);
  if (!lane.kids.length) {
    out.boxes.push({ lane, x, y: y + (h - TALL) / 2, w: box, h: TALL });
    return;
  }
  if (lane.type === "router") {
    const middle = y + sizes.get(lane.kids[0]).h / 2;
    out.boxes.push({ lane, x, y: middle - TALL / 2, w: box, h: TALL });
    let top = y;
    lane.kids.forEach((kid, choice) => {
      put(kid, x + box + ACROSS, top, sizes, out);
      const to = top + sizes.get(kid).h / 2;
      out.edges.push({ from: [x + box, middle], to: [x + box + ACROSS, to], into: kid, choice });
      top += sizes.get(kid).h + BETWEEN;
    });
    return;
  }
  out.groups.push({ lane, x, y, w, h });
  let [left, top] = [x + INSIDE, y + CAPTION];
  if (lane.type === "parallel") {
    for (const kid of lane.kids) {
      stretch(kid, w - 2 * INSIDE, sizes);
      put(kid, left, top, sizes, out);
      top += sizes.get(kid).h + BETWEEN;
    }
    return;
  }
  const content =
    lane.kids.reduce((all, kid) => all + sizes.get(kid).w, 0) + ACROSS * (lane.kids.length - 1);
  left = x + (w - content) / 2; // a long caption makes the group wider than what is in it
  const tall = h - CAPTION - INSIDE - (lane.type === "loop" ? 10 : 0),
    middle = y + CAPTION + tall / 2,
    first = left;
  lane.kids.forEach((kid, index) => {
    const size = sizes.get(kid);
    put(kid, left, middle - size.h / 2, sizes, out);
    if (index) out.edges.push({ from: [left - ACROSS, middle], to: [left, middle], into: kid });
    left += size.w + ACROSS;
  });
  if (lane.type === "loop")
    out.edges.push({
      back: true,
      from: [left - ACROSS, middle],
      to: [first, middle],
      low: y + h - 6,
      into: lane,
    });
}

/** Leaves of a parallel node are as wide as it is. */
function stretch(kid, width, sizes) {
  const size = sizes.get(kid);
  sizes.set(kid, { ...size, w: width, box: kid.kids.length ? size.box : width });
}
