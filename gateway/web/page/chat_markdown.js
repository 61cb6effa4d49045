// A text of a model: plain at once, as Markdown as soon as it is parsed.

import { h } from "./dom.js";
import { paragraphs, renderMarkdown } from "./markdown.js";

export function markdownBox(text) {
  const box = h("div", { class: "prose" });
  fillMarkdown(box, text);
  return box;
}

/** Replaces the content of `box`; an older request that ends later changes nothing. */
export async function fillMarkdown(box, text) {
  const turn = (Number(box.dataset.turn) || 0) + 1;
  box.dataset.turn = turn;
  if (!box.firstChild) box.append(...paragraphs(text));
  if (!text.trim()) return void box.replaceChildren();
  const made = await renderMarkdown(text);
  if (Number(box.dataset.turn) === turn) box.replaceChildren(made);
}
