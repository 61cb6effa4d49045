// Answers other than yes and no: to a tool server's question, and about a call whose outcome is unknown.

import { argumentForm } from "./argument_form.js";
import { isObject } from "./argument_diff.js";
import { unknownReason } from "./approval_text.js";
import { h } from "../core/dom.js";
import { visible } from "../core/text.js";

/** The form for a question of a server: `{body, buttons, show(mistakes), result()}`, without `show` if there
 * are no fields; `result` as in `argumentForm`. `send` gets the decision. */
export function answerForm(approval, send) {
  if (approval.url) return visit(approval, send);
  const schema = approval.input_schema;
  const form = hasFields(schema) ? argumentForm(schema, defaults(schema), { titles: true }) : null;
  const result = () => form?.result() ?? { value: {}, mistakes: new Map() };
  const answer = () => {
    const { value, mistakes } = result();
    if (mistakes.size) form.show(mistakes);
    else send({ action: "accept", content: value });
  };
  const to = approval.server?.replace(/^a2a:/, "agent ") ?? "the server";
  const note = `Goes to ${visible(to)} as you type it here. Never enter a password or a key.`;
  return {
    body: h("div", { class: "stack g16" }, form?.element, h("p", { class: "small muted" }, note)),
    buttons: [
      button("Answer", "primary", answer, "a"),
      button("Decline", "", () => send({ action: "decline" }), "r"),
      button("Cancel the question", "quiet", () => send({ action: "cancel" })),
    ],
    show: form?.show,
    result,
  };
}

const hasFields = (schema) => isObject(schema?.properties) && Object.keys(schema.properties).length > 0;

function defaults(schema) {
  const given = Object.entries(schema.properties).filter(
    ([, field]) => isObject(field) && Object.hasOwn(field, "default"),
  );
  return Object.fromEntries(given.map(([name, field]) => [name, field.default]));
}

function visit(approval, send) {
  const isWeb = /^https?:\/\//i.test(approval.url);
  return {
    body: h(
      "div",
      { class: "stack" },
      h(
        "p",
        { class: "t13" },
        "The server wants you to visit this address and to come back. Read it before you open it.",
      ),
      h("pre", { class: "code address", tabindex: "0" }, visible(approval.url)),
      isWeb
        ? h(
            "p",
            {},
            h(
              "a",
              { href: approval.url, target: "_blank", rel: "noopener noreferrer" },
              "Open the address in a new tab",
            ),
          )
        : null,
    ),
    buttons: [
      button("I have been there", "primary", () => send({ action: "accept" }), "a"),
      button("Decline", "", () => send({ action: "decline" }), "r"),
      button("Cancel the question", "quiet", () => send({ action: "cancel" })),
    ],
    result: () => ({ value: {}, mistakes: new Map() }),
  };
}

/** The text above the arguments of a call without a result. */
export function outcomeText(approval) {
  const reason = unknownReason(approval);
  const what = reason ? `The call was sent, but ${reason}.` : "The call was sent, but no result came.";
  return h(
    "p",
    { class: "t13" },
    `${visible(what)} It may or may not have happened, so it is not repeated by itself. ` +
      "Look where it would have acted, then say what you found.",
  );
}

/** The buttons for an unknown outcome; `open` shows the text field for the decision. */
export function outcomeButtons(send, open) {
  return [
    button("It is done", "primary", () => open("done"), "a"),
    button("It failed", "", () => open("failed"), "r"),
    button("It did not happen: retry", "", () => send({ action: "retry" }), "e"),
  ];
}

/** The labels of the text field for a decision. */
export const ASIDES = {
  reject: {
    label: "Reason",
    help: "The model is told. You can leave it empty.",
    send: "Send rejection",
    danger: true,
  },
  respond: {
    label: "Answer to the model",
    help: "The call is not sent. The model is told this in place of its result.",
    send: "Send answer",
    required: true,
  },
  done: {
    label: "Result",
    help: "The model is told this as the result of the call. You can leave it empty.",
    send: "Send: it is done",
  },
  failed: {
    label: "Reason",
    help: "The model is told. You can leave it empty.",
    send: "Send: it failed",
    danger: true,
  },
};

export function asideBody(mode, text) {
  if (mode === "respond") return { action: "respond", result: text };
  if (mode === "done") return { action: "done", ...(text ? { result: text } : {}) };
  const reason = text ? { reason: text } : {};
  return mode === "failed" ? { action: "failed", ...reason } : { approved: false, ...reason };
}

/** A button of the card. `key` is the letter that focuses it. The second click of a double click is ignored,
 * because after the first one another button, or another call, may be under the pointer. */
export function button(text, look, onclick, key, picture) {
  const hint = key ? h("kbd", { class: "kbd", "aria-hidden": "true" }, key.toUpperCase()) : null;
  return h(
    "button",
    {
      class: `btn ${look}`,
      type: "button",
      onclick: (event) => event.detail > 1 || onclick(event),
      "data-key": key,
    },
    picture,
    text,
    hint,
  );
}
