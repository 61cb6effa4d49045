// The foot of a card: the buttons, or the text field for a decision. `card` is the card that they act on.

import { asideBody, ASIDES, button, outcomeButtons } from "./answer_form.js";
import { decidedAs, isEditable, sentText } from "./approval_text.js";
import { decidedBy, kept, sendAgain, signAs } from "./decision.js";
import { h, icon } from "../core/dom.js";
import { visible } from "../core/text.js";

const KEPT = "You can reload or close the page: the decision is kept until the agent answers.";
const TWICE = "Sending it twice does no harm: the agent takes it once. If it has arrived before, it stands.";
const UNCHANGED = "Nothing is changed: this approves the call as it is.";

/** The nodes in the foot of a pending approval. */
export function footOf(card) {
  const { mode, sending, problem } = card;
  const inner = [];
  // What is wrong with a value is said at the value, once.
  const isAtFields = problem?.is === "refused" && (card.form ?? card.answer)?.show;
  if (problem && !sending && !isAtFields)
    inner.push(h("p", { class: "note err", role: "alert" }, visible(problemText(card))));
  if (problem?.is === "unreachable" && !sending) {
    return [
      ...inner,
      button("Send again", "primary", () => card.send(sendAgain(card.uuid)), "a"),
      button("Do not send", "quiet", () => card.takeBack()),
      note(TWICE),
    ];
  }
  if (ASIDES[mode]) inner.push(...aside(card));
  else if (mode === "edit") inner.push(...editing(card));
  else inner.push(...choices(card), signature());
  if (sending) inner.push(note(KEPT));
  return inner;
}

const note = (text) => h("span", { class: "note" }, text);

/** Why a decision was not accepted. */
export function problemText({ problem, uuid }) {
  if (problem.is === "unreachable") return `You ${sentText(kept(uuid)?.body ?? {})}. ${problem.text}`;
  if (problem.is === "denied") return `${problem.text} Nothing was decided.`;
  return problem.text;
}

function choices(card) {
  const { approval, answer } = card;
  const kind = decidedAs(approval);
  const send = (body) => card.go(body);
  if (kind === "elicitation") return answer.buttons;
  const unknown = kind === "outcome_unknown";
  const buttons = unknown ? outcomeButtons(send, (mode) => card.enter(mode)) : yesOrNo(card, send);
  if (!approval.unshown) return buttons;
  // Nothing that is not shown may be approved.
  for (const each of buttons) each.disabled = (unknown ? ["e"] : ["a", "e"]).includes(each.dataset.key);
  const why = `This cannot be approved: ${visible(approval.unshown)}.`;
  return [h("p", { class: "note err" }, why), ...buttons];
}

function yesOrNo(card, send) {
  return [
    button("Approve", "primary", () => send({ approved: true }), "a", icon("check")),
    isEditable(card.approval)
      ? button("Approve with changes", "", () => card.enter("edit"), "e", icon("edit"))
      : null,
    button("Reject", "danger", () => card.enter("reject"), "r"),
    card.approval.kind === "tool"
      ? button("Answer", "", () => card.enter("respond"))
      : null,
  ].filter(Boolean);
}

function aside(card) {
  const { label, help, send, danger, required } = ASIDES[card.mode];
  const id = `aside-${card.uuid}`;
  const maxlength = card.mode === "done" ? null : 4000;
  const field = h("textarea", { id, rows: 2, "aria-describedby": `${id}-help`, maxlength, required });
  field.value = card.text ?? "";
  field.addEventListener("input", () => (card.text = field.value));
  const go = () => {
    if (field.reportValidity()) card.go(asideBody(card.mode, field.value.trim()));
  };
  const hint = h("span", { class: "hint", id: `${id}-help` }, help);
  return [
    h("div", { class: "question grow full" }, h("label", { for: id }, label), field, hint),
    button(send, danger ? "danger" : "primary", go),
    button("Cancel", "quiet", () => card.leave()),
    signature(),
  ];
}

function editing(card) {
  const unchanged = note("");
  card.tellChanges = (number) => (unchanged.textContent = number ? "" : UNCHANGED);
  return [
    button("Send approval", "primary", () => card.sendEdited(), null, icon("check")),
    button("Cancel", "quiet", () => card.leave()),
    signature(),
    unchanged,
    note("The changed call is checked against the schema and all rules again."),
  ];
}

/** A field for the name that goes into the record. */
export function signature() {
  const field = h("input", {
    class: "sign",
    placeholder: "Your name",
    "aria-label": "Decide as",
    title: "Goes into the record of the decision",
    autocomplete: "name",
    maxlength: 200,
    oninput: () => signAs(field.value),
  });
  field.value = decidedBy();
  return field;
}
