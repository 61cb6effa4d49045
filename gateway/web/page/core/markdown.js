// Markdown of models. The agent parses it; the page makes elements from the tokens, of a few allowed tags.

import { post } from "./api.js";
import { codeBox } from "./code_box.js";
import { h } from "./dom.js";
import { visible } from "./text.js";

const TAGS = new Set(
  "p h1 h2 h3 h4 h5 h6 em strong s code pre ul ol li blockquote hr br a table thead tbody tr th td".split(
    " ",
  ),
);
const LIMIT = 64 * 1024; // characters of one text
const BATCH = { texts: 50, characters: 200 * 1024 };
const KEPT = 400; // texts in the cache

const cache = new Map(); // promises of tokens by text
let waiting = [];

/** A box with the text: plain at once, as Markdown once it is parsed. */
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

/** The text as elements; as plain paragraphs if the agent cannot be reached. */
export async function renderMarkdown(text) {
  const fragment = document.createDocumentFragment();
  try {
    fragment.append(...(await tokens(text)).map(element));
  } catch {
    cache.delete(text);
    fragment.append(...paragraphs(text));
  }
  return fragment;
}

function paragraphs(text) {
  return text
    .split(/\n{2,}/)
    .filter((part) => part.trim())
    .map((part) => h("p", { class: "plain" }, part));
}

function tokens(text) {
  if (text.length > LIMIT) return Promise.resolve([{ tag: "pre", children: [text] }]);
  if (!cache.has(text)) {
    if (cache.size >= KEPT) cache.delete(cache.keys().next().value);
    cache.set(
      text,
      new Promise((resolve, reject) => {
        if (!waiting.length) setTimeout(ask, 0); // many replies become visible together
        waiting.push({ text, resolve, reject });
      }),
    );
  }
  return cache.get(text);
}

async function ask() {
  const all = waiting;
  waiting = [];
  while (all.length) {
    let characters = 0;
    let size = 0;
    while (
      size < all.length &&
      size < BATCH.texts &&
      (characters += all[size].text.length) <= BATCH.characters
    )
      size += 1;
    const some = all.splice(0, Math.max(1, size));
    try {
      const { documents } = await post("/page/markdown", { texts: some.map(({ text }) => text) });
      some.forEach(({ resolve }, index) => resolve(documents[index]));
    } catch (error) {
      for (const { reject } of some) reject(error);
    }
  }
}

function element(token) {
  if (typeof token === "string") return document.createTextNode(token);
  if (token.tag === "pre") return code(token);
  if (token.tag === "code") return h("code", {}, visible((token.children ?? []).join("")));
  const children = (token.children ?? []).map(element);
  if (!TAGS.has(token.tag)) return h("span", {}, children);
  if (token.tag === "a") return link(token, children);
  if (token.tag === "table") return h("div", { class: "table", tabindex: "0" }, h("table", {}, children));
  const level = /^h[1-6]$/.test(token.tag); // headings become h3, below those of the page
  const made = h(level ? "h3" : token.tag, { class: level ? token.tag : null }, children);
  if (token.tag === "ol" && Number(token.start) !== 1 && token.start !== undefined)
    made.start = Number(token.start);
  if (["left", "center", "right"].includes(token.align)) made.classList.add(token.align);
  return made;
}

/** In code, unlike in prose, a hidden character has no use but to deceive: it is shown as an escape. */
function code(token) {
  const text = visible((token.children ?? []).join(""));
  return codeBox(h("pre", { class: "code", tabindex: "0", "aria-label": "Code" }, text), text);
}

function link(token, children) {
  if (!allowed(token.href)) return h("span", {}, children);
  return h("a", { href: token.href, rel: "noopener noreferrer", target: "_blank" }, children);
}

export function allowed(href) {
  return typeof href === "string" && /^(https?:\/\/|mailto:)/i.test(href);
}
