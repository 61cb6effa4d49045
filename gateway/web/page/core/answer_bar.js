// A bar that shows how calls went: how many ran without a question, and what people decided about the others.

import { h } from "./dom.js";
import { count } from "./times.js";

const PARTS = [
  ["ran", "ran unasked"],
  ["approved", "approved"],
  ["edited", "edited"],
  ["rejected", "rejected"],
  ["answered", "answered"],
];

/** The parts that are not zero, as `[name, number, words]`. */
export function answerParts(counts) {
  const all = PARTS.map(([name, words]) => [name, Number(counts[name] ?? 0), words]);
  return all.filter(([, number]) => number);
}

const legend = (name, words) =>
  h("span", { class: "nowrap" }, h("i", { class: `answers-dot ${name}`, "aria-hidden": "true" }), words);

/** The bar, with the same in words below it; null if all are zero. `total`: what the whole width stands for,
 * at least the sum. */
export function answerBar(counts, total = 0) {
  const parts = answerParts(counts);
  if (!parts.length) return null;
  const sum = parts.reduce((before, [, number]) => before + number, 0);
  const rest = Math.max(0, Number(total) - sum);
  if (rest) parts.push(["rest", rest, "other"]);
  const piece = (name, number) => {
    const made = h("i", { class: name });
    made.style.flexGrow = String(number);
    return made;
  };
  return h(
    "div",
    { class: "answers" },
    h(
      "div",
      { class: "answers-bar", "aria-hidden": "true" },
      parts.map(([name, number]) => piece(name, number)),
    ),
    h(
      "p",
      { class: "answers-words small muted" },
      parts.map(([name, number, words], at) => [at ? ", " : "", legend(name, `${count(number)} ${words}`)]),
    ),
  );
}
