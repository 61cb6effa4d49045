// Elements from code. Nothing on the page is made from text: no innerHTML, no style attributes.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. An attribute that is null, undefined or false is left out; `on*` functions become
 * listeners. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, with the same rules. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** An icon of `index.html`, hidden from assistive technology because a word always accompanies it. */
export function icon(name, extra = "") {
  return svg("svg", { class: `i ${extra}`, "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}

/** Sets a text only if it differs, to avoid a new layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  const missing = [null, undefined, false];
  element.append(...children.flat(Infinity).filter((child) => !missing.includes(child)));
  return element;
}
