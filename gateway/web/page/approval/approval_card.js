// One approval as a card: the call, the node that asks, the arguments, the reasons, and earlier decisions.

import { get } from "../core/api.js";
import { answerForm, button, outcomeText } from "./answer_form.js";
import { hints, reasons } from "./approval_reasons.js";
import { footOf, problemText } from "./approval_foot.js";
import { path, replaced, told } from "./approval_notes.js";
import { addedDescription, askingAgent, decidedAs, heading } from "./approval_text.js";
import { decidedBody, decidedBy as whoDecided, doneHead } from "./approval_done.js";
import { differences } from "./argument_diff.js";
import { argumentForm } from "./argument_form.js";
import { argumentTable, changeTable } from "./argument_table.js";
import { expiry, pieces, waited } from "./approval_head.js";
import { decide, forget, isSending, kept, sendAgain } from "./decision.js";
import { h, icon } from "../core/dom.js";
import { equal, stringify } from "../core/exact_json.js";
import { markdownBox } from "../core/markdown.js";
import { plural, visible } from "../core/text.js";

let ids = 0;
const LETTERS = { approve: "a", changes: "e", edit: "e", reject: "r" };

/** The card of an approval: `{element, focus(which), refresh(), close()}`. `focus` takes "approve",
 * "changes", "reject", or nothing for the heading. */
export function approvalCard(uuid, context, { inChat = false } = {}) {
  const card = new Card(uuid, context, inChat);
  return {
    element: card.element,
    focus: (which) => card.focus(which),
    refresh: () => card.refresh(),
    close: () => card.close(),
  };
}

class Card {
  constructor(uuid, context, inChat) {
    Object.assign(this, {
      uuid,
      context,
      inChat,
      mode: "view",
      approval: null,
      extra: undefined,
      problem: null,
    });
    const id = `ask-${++ids}`;
    this.title = h("h2", { id, tabindex: "-1" });
    this.head = h("header", { class: "ask-head" });
    this.main = h("div", { class: "ask-body" });
    this.why = h("div", { class: "ask-body reasons" });
    this.foot = h("div", { class: "ask-foot" });
    const parts = [this.head, this.main, this.why, this.foot];
    this.element = h(
      "article",
      { class: "ask", "aria-labelledby": id, "data-uuid": uuid, onkeydown: (event) => this.key(event) },
      parts,
    );
    this.title.textContent = "Loading the approval";
    this.head.append(this.title);
    for (const part of parts.slice(1)) part.hidden = true;
    const stop = context.approvals?.on?.(uuid, () => this.refresh());
    this.stop = typeof stop === "function" ? stop : () => {};
    this.refresh();
    this.readExtra();
  }

  close() {
    this.closed = true;
    this.stop();
    this.clock?.stop();
  }

  focus(which) {
    const letter = LETTERS[which] ?? which;
    const found =
      letter && [...this.foot.querySelectorAll("[data-key]")].find((each) => each.dataset.key === letter);
    (found || this.title).focus();
    this.element.scrollIntoView({ block: "nearest" });
    return Boolean(found);
  }

  /** Reads the approval again, and redraws the changed parts of the card. */
  async refresh() {
    if (isSending(this.uuid) && this.approval) return; // the answer says how it stands
    try {
      const { approval } = await get(`/approvals/${encodeURIComponent(this.uuid)}`);
      if (this.closed || (this.approval && equal(approval, this.approval))) return;
      const before = this.approval;
      this.approval = approval;
      if (before?.state === "pending" && approval.state !== "pending") this.settled();
      else this.render();
      if (approval.state === "pending" && kept(this.uuid)) this.send(sendAgain(this.uuid));
      else forget(this.uuid);
    } catch (error) {
      if (!this.closed && (!this.approval || error.status === 404)) this.renderFailure(error);
    }
  }

  async readExtra() {
    try {
      this.extra = await get(`/page/approvals/${encodeURIComponent(this.uuid)}`);
    } catch {
      this.extra = null; // the card works without it
    }
    if (this.approval && !this.closed) this.renderAround();
    if (this.extra?.suggestion) this.readCalls();
  }

  /** Reads how earlier calls of the tool went, for which the agent may need some time. */
  async readCalls() {
    try {
      this.extra.calls = await get(`/page/approvals/${encodeURIComponent(this.uuid)}/calls`);
    } catch {
      return; // only for those who may look at the agent
    }
    if (this.approval && !this.closed) this.renderAround();
  }

  renderFailure(error) {
    const focused = this.element.contains(document.activeElement);
    const missing = error.status === 404;
    Object.assign(this, { approval: null, mode: "view", problem: null });
    this.clock?.stop();
    if (missing) forget(this.uuid);
    this.element.classList.remove("done", "good", "bad");
    this.element.classList.add("trouble");
    this.head.replaceChildren(this.title);
    this.why.hidden = this.foot.hidden = true;
    this.title.textContent = missing ? "There is no such approval" : "The approval could not be read";
    const text = missing ? "Its conversation may have been deleted." : error.message;
    const again = button("Try again", "", () => [this.element.classList.remove("trouble"), this.refresh()]);
    this.main.replaceChildren(h("p", { class: "t13" }, visible(text)), missing ? "" : h("p", {}, again));
    this.main.hidden = false;
    if (focused) this.title.focus();
  }

  render() {
    const focused = this.element.contains(document.activeElement);
    const letter = focused ? document.activeElement.dataset?.key : null;
    this.element.classList.remove("trouble");
    this.main.hidden = this.why.hidden = this.foot.hidden = false;
    this.renderAround();
    this.renderMain();
    this.renderFoot();
    if (focused && !this.element.contains(document.activeElement)) this.focus(letter);
  }

  /** Renders the parts that do not depend on the person's input. */
  renderAround() {
    const { approval, extra } = this;
    this.renderHead();
    if (approval.state !== "pending") return this.why.replaceChildren();
    const open = new Set([...this.why.querySelectorAll("details[open]")].map((each) => each.dataset.name));
    const sections = [...reasons(approval, extra), told(extra?.told)].filter(Boolean);
    this.why.replaceChildren(...sections);
    this.why.hidden = !sections.length;
    for (const each of this.why.querySelectorAll("details")) each.open = open.has(each.dataset.name);
    this.chips?.replaceChildren(...[hints(approval, extra)].filter(Boolean));
    if (this.chips) this.chips.hidden = !this.chips.childNodes.length;
  }

  renderHead() {
    const { approval, problem } = this;
    const done = approval.state !== "pending";
    const focused = document.activeElement === this.title;
    this.clock?.stop();
    this.clock = null;
    this.element.classList.toggle("done", done);
    for (const tone of ["good", "bad"])
      this.element.classList.toggle(tone, done && doneHead(approval, this).tone === tone);
    this.element.classList.toggle(
      "trouble",
      !done && (Boolean(problem) || decidedAs(approval) === "outcome_unknown"),
    );
    if (done) {
      this.head.replaceChildren(...doneHead(approval, this).lines(this.title, this.extra));
    } else {
      const by = waited(approval, this.extra, this.inChat);
      this.clock = expiry(approval, () => this.refresh(), by.tick);
      const state = this.standing();
      this.title.replaceChildren(...pieces(heading(approval)));
      const kind = h(
        "div",
        { class: "kind" },
        icon(state.icon, state.spin ? "spin" : ""),
        h("span", {}, visible(state.text)),
        this.clock.element,
      );
      this.head.replaceChildren(kind, this.title, by.element);
    }
    if (focused) this.title.focus();
  }

  standing() {
    const { sending, problem, approval } = this;
    if (sending) return { icon: "load", spin: true, text: "Sending your decision" };
    if (problem?.is === "unreachable") return { icon: "alert", text: "Your decision is not confirmed yet" };
    if (problem) return { icon: "alert", text: "Not accepted: still pending" };
    return doneHead(approval, this).waiting;
  }

  renderMain() {
    const { approval } = this;
    this.form = this.answer = this.chips = null;
    if (approval.state !== "pending") {
      const inner = decidedBody(approval, this);
      this.main.hidden = !inner.length;
      this.foot.hidden = this.why.hidden = true;
      return this.main.replaceChildren(...inner);
    }
    const kind = decidedAs(approval);
    const inner = [];
    if (approval.kind === "proxy") inner.push(path(approval, this.context.agent?.name));
    if (approval.replaces) inner.push(replaced(approval));
    this.chips = h("div", { hidden: true });
    inner.push(this.chips);
    if (kind === "outcome_unknown") inner.push(outcomeText(approval));
    const added = addedDescription(approval);
    if (added) inner.push(markdownBox(visible(added)));
    if (kind === "elicitation") {
      const message = approval.message?.trim();
      if (message) inner.push(h("blockquote", { class: "asked" }, visible(message)));
      this.answer = answerForm(approval, (body) => this.go(body));
      this.untouched = this.answer.result().value ?? {};
      inner.push(this.answer.body);
    } else if (this.mode === "edit") {
      this.form = argumentForm(approval.input_schema ?? {}, approval.tool_args, {
        onchange: () => this.renderChanges(),
      });
      this.changes = h("div", { class: "changes", hidden: true });
      inner.push(this.form.element, this.changes);
    } else if (Object.keys(approval.tool_args).length || (kind !== "checkpoint" && !approval.unshown)) {
      inner.push(argumentTable(approval.tool_args, approval.input_schema));
    }
    if (approval.kind === "proxy") {
      const asker = visible(askingAgent(approval));
      const note = `${asker} keeps its own record. Your answer travels back along this path.`;
      inner.push(h("p", { class: "small muted" }, note));
    }
    this.main.replaceChildren(...inner);
    if (this.chips) this.chips.replaceChildren(...[hints(approval, this.extra)].filter(Boolean));
    this.chips.hidden = !this.chips.childNodes.length;
  }

  /** The differences that would be sent, below the form. */
  renderChanges() {
    if (!this.form) return; // a field that is removed while it has the focus tells of its change
    const { value } = this.form.result();
    const changes = differences(this.approval.tool_args, value);
    this.changes.hidden = !changes.length;
    this.changes.replaceChildren(h("h3", {}, plural(changes.length, "change")), changeTable(changes));
    this.tellChanges?.(changes.length);
  }

  renderFoot() {
    if (this.approval.state !== "pending") return this.foot.replaceChildren();
    this.foot.replaceChildren(...footOf(this));
    if (this.mode === "edit" && this.form) this.renderChanges();
    for (const each of this.foot.querySelectorAll("button")) {
      if (this.sending) each.setAttribute("aria-disabled", "true");
      else each.removeAttribute("aria-disabled");
    }
  }

  sendEdited() {
    const { value, mistakes } = this.form.result();
    if (mistakes.size) return this.form.show(mistakes);
    const { tool_args } = this.approval;
    this.go(equal(value, tool_args) ? { approved: true } : { approved: true, arguments: value });
  }

  enter(mode) {
    if (this.sending) return;
    this.from = mode === "edit" ? "e" : mode === "done" ? "a" : "r";
    Object.assign(this, { mode, problem: null });
    this.renderHead();
    if (mode === "edit") this.renderMain();
    this.renderFoot();
    if (mode === "edit") this.form.focus();
    else this.foot.querySelector("textarea").focus();
    this.foot.scrollIntoView({ block: "nearest" });
  }

  leave() {
    const edited = this.mode === "edit";
    Object.assign(this, { mode: "view", problem: null });
    this.renderHead();
    if (edited) this.renderMain();
    this.renderFoot();
    this.focus(this.from);
  }

  takeBack() {
    forget(this.uuid);
    this.problem = null;
    this.renderHead();
    this.renderFoot();
    this.focus();
    this.refresh();
  }

  key(event) {
    if (event.key === "Escape" && this.mode !== "view" && !this.sending) {
      event.stopPropagation();
      this.leave();
    }
  }

  go(body) {
    const { hash } = this.approval; // the agent checks that this is what it would do
    if (!this.sending) this.send(decide(this.uuid, hash ? { ...body, hash } : body));
  }

  /** Shows the progress and the result of a decision that is being sent. */
  async send(promise) {
    if (this.sending) return;
    const focused = this.element.contains(document.activeElement);
    Object.assign(this, { sending: true, problem: null });
    this.renderHead();
    this.renderFoot();
    if (focused) this.title.focus({ preventScroll: true });
    const result = await promise.catch((error) => ({ is: "wrong", text: error.message }));
    this.sending = false;
    if (this.closed) return;
    if (result.approval) {
      this.second = result.is === "already";
      this.approval = result.approval;
      if (result.approval.state !== "pending") return this.settled(result.is === "decided");
      this.mode = "view"; // it waits for further persons, or shows other arguments now
    }
    this.problem = result.is === "decided" ? null : result;
    if (result.approval) this.render();
    if (result.is === "decided") return this.refresh();
    this.renderHead();
    this.renderFoot();
    const shown = this.form ?? this.answer;
    if (result.is === "refused" && shown?.show) shown.show(result.errors);
    else if (focused) this.focus("approve");
    this.context.announce?.(problemText(this));
  }

  /** What the person has typed for a decision that is not sent yet, or was not taken. */
  typed() {
    if (this.mode !== "view" && this.mode !== "edit") return this.text?.trim() ?? "";
    const { value } = this.form?.result() ?? this.answer?.result() ?? {};
    const before = this.form ? this.approval.tool_args : this.untouched;
    return value === undefined || !differences(before, value).length ? "" : stringify(value, 2);
  }

  /** `own`: by the decision of this card. Otherwise what was typed here stays on it. */
  settled(own = false) {
    const focused = this.element.contains(document.activeElement);
    if (!own) this.lost = this.typed();
    Object.assign(this, { mode: "view", problem: null, sending: false });
    this.render();
    if (focused) this.title.focus();
    this.context.announce?.(`${this.title.textContent}: ${whoDecided(this.approval, this.second)}`);
  }
}
