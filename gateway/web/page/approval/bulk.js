// Several approvals of one tool as one card: what they have in common, a table of what differs, and a
// decision for each and for all. Each decision is sent and recorded on its own.

import { get } from "../core/api.js";
import { decidedBy as whoDecided } from "./approval_done.js";
import { pieces } from "./approval_head.js";
import { doneHeading, heading, iconOf, summary, timeLeft, toneOf, voidReason } from "./approval_text.js";
import { compare, same } from "./argument_diff.js";
import { valueElement } from "./argument_table.js";
import { button } from "./answer_form.js";
import { signature } from "./approval_foot.js";
import { decide, kept, sendAgain } from "./decision.js";
import { h, icon } from "../core/dom.js";
import { equal } from "../core/exact_json.js";
import { plural, visible } from "../core/text.js";
import { duration } from "../core/times.js";

const RETRIED = ["unreachable", "wrong", "denied", "refused"];
const NOTE =
  "Shaded values differ from what most of them say. Each call is decided, sent and recorded on its own: " +
  "if one is refused, the others stand.";
let ids = 0;

/** `{element, update(approvals), focus(which), close(), began, sending}`. `where`: the place that asks, in
 * words. `leave`: leads back to a list, if there is one. `changed` is called when sending begins and ends. */
export function bulk(approvals, { announce, where = "", leave = null, changed = () => {} }) {
  const rows = new Map(); // by uuid: {approval, decision, open, said, tone, cell, line}
  const id = `bulk-${++ids}`;
  const title = h("h2", { id, tabindex: "-1" });
  const head = h("header", { class: "ask-head" });
  const body = h("div", { class: "ask-body" });
  const status = h("p", { class: "small", role: "status" });
  const foot = h("div", { class: "ask-foot" });
  const element = h("article", { class: "ask together", "aria-labelledby": id }, head, body, foot);
  const state = { began: false, sending: false };
  let stopped = false, // no further decision is sent
    asking = false, // the reason of a rejection is being written
    look = ""; // of the foot

  const open = () => [...rows.values()].filter((row) => row.open);
  const uuidsOf = (some) => some.map(({ approval }) => approval.uuid);

  /** Takes approvals as they stand now. One that is missing has been settled. */
  function update(now) {
    let changes = false;
    for (const approval of now) {
      const row = rows.get(approval.uuid);
      if (!row) changes = add(approval);
      else if (row.open && !state.sending) {
        changes ||= !equal(row.approval.tool_args, approval.tool_args);
        row.approval = approval;
        if (approval.state !== "pending") settle(row, approval);
      }
    }
    const here = new Set(now.map(({ uuid }) => uuid));
    if (!state.sending) for (const row of open()) if (!here.has(row.approval.uuid)) reread(row);
    if (changes) drawTable();
    refresh();
  }

  function add(approval) {
    const row = { approval, open: approval.state === "pending", failed: false, said: "", tone: "" };
    rows.set(approval.uuid, row);
    if (!row.open) settle(row, approval);
    else if (kept(approval.uuid)) fail(row, "not confirmed yet", "is-wait"); // sent before a reload
    return true;
  }

  function fail(row, text, tone) {
    row.failed = true;
    say(row, text, tone);
  }

  function settle(row, approval) {
    row.open = false;
    say(row, whoDecided(approval), { good: "is-good", bad: "is-bad" }[toneOf(approval)] ?? "");
  }

  async function reread(row) {
    try {
      const { approval } = await get(`/approvals/${encodeURIComponent(row.approval.uuid)}`);
      if (approval.state === "pending" || !row.open || state.sending) return;
      settle(row, approval);
      refresh();
    } catch {
      // the next change of the list tries again
    }
  }

  /** Redraws what has changed; what has the focus stays, and so does a reason that is being written. */
  function refresh() {
    drawHead();
    for (const row of rows.values()) drawCell(row);
    if (!asking && !state.sending) drawFoot();
  }

  function drawHead() {
    const [{ approval: first }] = rows.values();
    const number = rows.size.toLocaleString(),
      left = open();
    const ends = left
      .map(({ approval }) => approval.expires_at && Date.parse(approval.expires_at))
      .filter(Boolean);
    const expires = ends.length ? `first expires in ${timeLeft(Math.min(...ends) - Date.now())}` : "";
    const parts = left.length
      ? [...heading(first).map((part) => (part.code ? part : part.replace(/\?$/, ""))), `, ${number} times?`]
      : [...doneHeading(first), `, ${number} times`];
    const focused = document.activeElement === title;
    title.replaceChildren(...pieces(parts));
    element.classList.toggle("done", !left.length);
    head.replaceChildren(
      h(
        "div",
        { class: "kind" },
        icon(left.length ? iconOf(first) : "check"),
        h("span", {}, left.length === rows.size ? `${number} approvals, one tool` : standing(left.length)),
        h("span", { class: "expiry" }, expires),
      ),
      title,
      where ? h("p", { class: "by" }, `Asked in ${where}`) : "",
    );
    if (focused) title.focus();
  }

  const standing = (left) =>
    `${(rows.size - left).toLocaleString()} of ${rows.size.toLocaleString()} decided`;

  function drawTable() {
    const all = [...rows.values()];
    const {
      same: alike,
      columns,
      rows: values,
      usual,
    } = compare(all.map(({ approval }) => approval.tool_args ?? {}));
    const common = alike.map(([path, value]) => [
      h("dt", {}, visible(path)),
      h("dd", {}, valueElement(value)),
    ]);
    const names = [...columns, "waiting", ""].map((name) =>
      h(
        "th",
        { scope: "col", class: name === "waiting" ? "num" : null },
        name ? visible(name) : h("span", { class: "visually-hidden" }, "decision"),
      ),
    );
    const lines = all.map((row, index) => {
      const cells = columns.map((path) => {
        const most = usual.get(path);
        const differs = most !== undefined && !same(values[index].get(path), most);
        return h("td", { class: `mono ${differs ? "diff" : ""}` }, valueElement(values[index].get(path)));
      });
      const waits = duration((Date.now() - Date.parse(row.approval.created_at)) / 1000);
      Object.assign(row, { cell: h("td", { class: "outcome" }), look: null });
      row.line = h("tr", { tabindex: "-1" }, cells, h("td", { class: "num" }, waits), row.cell);
      return row.line;
    });
    body.replaceChildren(
      common.length ? h("p", { class: "small muted" }, "The same in all") : "",
      common.length ? h("dl", { class: "alike" }, common) : "",
      h(
        "div",
        { class: "table-box", tabindex: "0", role: "region", "aria-label": "What differs" },
        h("table", { class: "grid" }, h("thead", {}, h("tr", {}, names)), h("tbody", {}, lines)),
      ),
      status,
    );
  }

  /** The buttons of a row, or how it was decided. */
  function drawCell(row) {
    const { approval, open: isOpen, said, tone, cell } = row;
    if (row.look === `${isOpen} ${said}`) return;
    row.look = `${isOpen} ${said}`;
    const link = h("a", { href: `#/approvals/${encodeURIComponent(approval.uuid)}` }, "open");
    const sign = { "is-good": "check", "is-bad": "x" }[tone];
    if (said)
      return cell.replaceChildren(
        sign ? icon(sign, tone) : "",
        h("span", { class: tone }, visible(said)),
        isOpen ? link : "",
      );
    const act = (word, sign, then) => {
      const made = button("", "quiet icon", then, null, icon(sign));
      made.setAttribute("aria-label", `${word} ${visible(summary(approval))}`);
      made.title = `${word} this one`;
      return made;
    };
    cell.replaceChildren(
      act("Approve", "check", () => run({ approved: true }, [approval.uuid])),
      act("Reject", "x", () => reason([approval.uuid])),
      link,
    );
  }

  /** The buttons for all that are open. */
  function drawFoot() {
    const again = uuidsOf(open().filter((row) => row.failed)),
      left = uuidsOf(open().filter((row) => !row.said)); // a vote for one that needs more persons is "said"
    const back = leave !== null && (state.began || !open().length);
    if (look === `${again} ${left} ${back}`) return;
    look = `${again} ${left} ${back}`;
    const number = left.length.toLocaleString(),
      first = again.length ? "" : "primary";
    foot.hidden = !again.length && !left.length && !back;
    foot.replaceChildren(
      ...[
        again.length > 0 &&
          button(`Send ${again.length.toLocaleString()} again`, "primary", () => run(null, again), "a"),
        left.length > 0 &&
          button(`Approve ${number}`, first, () => run({ approved: true }, left), first && "a"),
        left.length > 0 && button(`Reject ${number}`, "danger", () => reason(left), "r"),
        back && button("Back to the list", open().length ? "" : "primary", leave, open().length ? null : "a"),
        left.length > 0 && signature(),
        left.length > 0 && h("span", { class: "note" }, NOTE),
      ].filter(Boolean),
    );
  }

  function reason(only) {
    if (state.sending) return;
    asking = true;
    look = "";
    const one = only.length === 1;
    const field = h("textarea", { id: `${id}-reason`, rows: 2, maxlength: 4000 });
    const send = () =>
      run({ approved: false, ...(field.value.trim() ? { reason: field.value.trim() } : {}) }, only);
    const what = one
      ? `Reason, for ${visible(summary(rows.get(only[0]).approval))}`
      : "Reason, for all of them";
    if (one) rows.get(only[0]).line.classList.add("meant");
    foot.replaceChildren(
      h("div", { class: "question grow full" }, h("label", { for: field.id }, what), field),
      button(one ? "Send rejection" : `Send ${only.length.toLocaleString()} rejections`, "danger", send),
      button("Cancel", "quiet", () => [asked(), refresh(), focus("reject")]),
    );
    field.focus();
  }

  function asked() {
    asking = false;
    for (const { line } of rows.values()) line.classList.remove("meant");
  }

  /** Sends a decision about each; null repeats the decision that each failed with. */
  async function run(decision, only) {
    if (state.sending) return;
    Object.assign(state, { began: true, sending: true });
    stopped = false;
    look = "";
    asked();
    changed();
    foot.replaceChildren(button("Stop after this one", "quiet", () => (stopped = true)));
    title.focus();
    let done = 0,
      wasFirst = true;
    for (const uuid of only) {
      if (stopped) break;
      const { is } = await sendOne(rows.get(uuid), decision);
      wasFirst &&= !["already", "expired", "void"].includes(is);
      done += 1;
      status.textContent = `${done.toLocaleString()} of ${only.length.toLocaleString()} sent`;
    }
    state.sending = false;
    const left = open().length;
    const sum = left
      ? `${(rows.size - left).toLocaleString()} decided, ${left.toLocaleString()} still pending.`
      : `All ${rows.size.toLocaleString()} are decided.`;
    status.textContent =
      !wasFirst && decision?.reason ? `${sum} Your reason was: ${visible(decision.reason)}` : sum;
    announce?.(sum);
    refresh();
    changed();
    // Never on a button that would decide about others.
    if (only.length === 1) rows.get(only[0]).line.focus();
    else (left ? title : (foot.querySelector("button") ?? title)).focus();
  }

  async function sendOne(row, decision) {
    const { uuid, hash } = row.approval; // with it, the agent checks that this is what it would do
    say(row, "sending", "");
    row.decision = decision ?? row.decision;
    // Only a retry sends a kept decision; otherwise it could be a different, earlier one.
    const sent =
      decision === null && kept(uuid)
        ? sendAgain(uuid)
        : decide(uuid, hash ? { ...row.decision, hash } : row.decision);
    const result = await sent.catch((error) => ({ is: "wrong", text: error.message }));
    const changes = result.approval && !equal(result.approval.tool_args, row.approval.tool_args);
    row.approval = result.approval ?? row.approval;
    row.failed = RETRIED.includes(result.is);
    row.open = row.failed || result.approval?.state === "pending"; // it waits for further persons
    say(row, ...told(result, row.decision));
    if (changes) drawTable();
    return result;
  }

  function say(row, text, tone) {
    Object.assign(row, { said: text, tone });
    if (row.cell?.isConnected) drawCell(row);
  }

  function focus(which) {
    const letter = { approve: "a", reject: "r" }[which];
    const found = letter && foot.querySelector(`[data-key="${letter}"]`);
    (found || title).focus();
  }

  update(approvals);
  return {
    element,
    update,
    focus,
    close: () => (stopped = true),
    get began() {
      return state.began;
    },
    get sending() {
      return state.sending;
    },
  };
}

/** The place of several approvals in words. `titles`: those of conversations. */
export function placeOf(approvals, titles) {
  const conversations = [...new Set(approvals.map(({ conversation_id }) => conversation_id))];
  return conversations.length === 1
    ? visible(titles.of(conversations[0]) || "one conversation")
    : plural(conversations.length, "conversation");
}

function told(result, decision) {
  switch (result.is) {
    case "decided":
      if (result.approval) return [whoDecided(result.approval), "is-good"];
      return [decision?.approved === false ? "rejected" : "approved", "is-good"];
    case "already":
      return [whoDecided(result.approval, true), "is-bad"];
    case "expired":
      return ["expired before", "is-bad"];
    case "void":
      return [result.approval ? voidReason(result.approval) : "no longer asked", "is-bad"];
    case "unreachable":
      return ["not confirmed yet", "is-wait"];
    default:
      return [`still pending: ${result.text}`, "is-bad"];
  }
}
