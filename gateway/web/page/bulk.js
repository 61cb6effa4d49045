// Several approvals of one tool, decided together: their differences, and the result of each.

import { decidedBy as whoDecided } from "./approval_done.js";
import { pieces } from "./approval_head.js";
import { heading, iconOf, timeLeft, voidReason } from "./approval_text.js";
import { compare, same } from "./argument_diff.js";
import { valueElement } from "./argument_table.js";
import { button } from "./answer_form.js";
import { signature } from "./approval_foot.js";
import { decide, kept, sendAgain } from "./decision.js";
import { h, icon } from "./dom.js";
import { plural, visible } from "./text.js";
import { duration } from "./times.js";

/** `{element, focus(which), close()}`. `began` is called before the first decision is sent, `leave` at the
 * end. */
export function bulk(approvals, context, { titles, began, leave }) {
  const [first] = approvals;
  const number = approvals.length.toLocaleString();
  const cells = new Map();
  const title = h(
    "h2",
    { id: "bulk-title", tabindex: "-1" },
    pieces(heading(first).map((part) => (part.code ? part : (part.replace?.(/\?$/, "") ?? part)))),
    `, ${number} times?`,
  );
  const ends = approvals.map(({ expires_at }) => expires_at && Date.parse(expires_at)).filter(Boolean);
  const expires = ends.length ? `first expires in ${timeLeft(Math.min(...ends) - Date.now())}` : "";
  const kind = h(
    "div",
    { class: "kind" },
    icon(iconOf(first)),
    h("span", {}, `${number} approvals, one tool`),
    h("span", { class: "expiry" }, expires),
  );
  const conversations = [...new Set(approvals.map(({ conversation_id }) => conversation_id))];
  const where =
    conversations.length === 1
      ? visible(titles.of(conversations[0]) || "one conversation")
      : plural(conversations.length, "conversation");
  const head = h("header", { class: "ask-head" }, kind, title, h("p", { class: "by" }, `Asked in ${where}`));
  const foot = h("div", { class: "ask-foot" });
  const status = h("p", { class: "small", role: "status" });
  const body = h("div", { class: "ask-body" }, table(), status);
  const element = h("article", { class: "ask", "aria-labelledby": "bulk-title" }, head, body, foot);
  const note =
    "Shaded values differ from what most of them say. Each call is decided, sent and recorded on its own: " +
    "if one is refused, the others stand.";
  let stopped = false; // no further decision is sent

  function table() {
    const { same: alike, columns, rows, usual } = compare(approvals.map(({ tool_args }) => tool_args));
    const common = alike.map(([path, value]) => [
      h("dt", {}, visible(path)),
      h("dd", {}, valueElement(value)),
    ]);
    const names = [...columns, "waiting", ""].map((name) =>
      h(
        "th",
        { scope: "col", class: name === "waiting" ? "num" : null },
        name ? visible(name) : h("span", { class: "visually-hidden" }, "result"),
      ),
    );
    const lines = rows.map((row, index) => {
      const approval = approvals[index];
      const values = columns.map((path) => {
        const most = usual.get(path);
        const differs = most !== undefined && !same(row.get(path), most);
        return h("td", { class: `mono ${differs ? "diff" : ""}` }, valueElement(row.get(path)));
      });
      const result = h(
        "td",
        { class: "outcome" },
        h("a", { href: `#/approvals/${encodeURIComponent(approval.uuid)}` }, "open"),
      );
      cells.set(approval.uuid, result);
      const waits = duration((Date.now() - Date.parse(approval.created_at)) / 1000);
      return h("tr", {}, values, h("td", { class: "num" }, waits), result);
    });
    return [
      common.length ? h("p", { class: "small muted" }, "The same in all") : null,
      common.length ? h("dl", { class: "alike" }, common) : null,
      h(
        "div",
        { class: "table-box", tabindex: "0", role: "region", "aria-label": "What differs" },
        h("table", { class: "grid" }, h("thead", {}, h("tr", {}, names)), h("tbody", {}, lines)),
      ),
    ];
  }

  function choose() {
    foot.replaceChildren(
      button(`Approve ${number}`, "primary", () => run({ approved: true }), "a"),
      button(`Reject ${number}`, "danger", () => reason(), "r"),
      signature(),
      h("span", { class: "note" }, note),
    );
  }

  function reason() {
    const field = h("textarea", { id: "bulk-reason", rows: 2, maxlength: 4000 });
    const send = () =>
      run({ approved: false, ...(field.value.trim() ? { reason: field.value.trim() } : {}) });
    const label = h("label", { for: "bulk-reason" }, "Reason, for all of them");
    foot.replaceChildren(
      h("div", { class: "question grow full" }, label, field),
      button(approvals.length === 1 ? "Send rejection" : `Send ${number} rejections`, "danger", send),
      button("Cancel", "quiet", () => [choose(), focus("reject")]),
    );
    field.focus();
  }

  async function run(body, only = approvals) {
    began();
    foot.replaceChildren(button("Stop after this one", "quiet", () => (stopped = true)));
    stopped = false;
    title.focus();
    const failed = [];
    let done = 0,
      wasFirst = true;
    for (const approval of only) {
      if (stopped) {
        failed.push(approval);
        continue;
      }
      say(approval, "sending", "");
      // Only a retry sends a kept decision; otherwise it could be a different, earlier one.
      const again = only !== approvals && kept(approval.uuid);
      const result = await (again ? sendAgain(approval.uuid) : decide(approval.uuid, body)).catch(
        (error) => ({ is: "wrong", text: error.message }),
      );
      wasFirst &&= !["already", "expired", "void"].includes(result.is);
      const [text, tone] = told(result, body);
      say(approval, text, tone);
      if (["unreachable", "wrong", "denied", "refused"].includes(result.is)) failed.push(approval);
      done += 1;
      status.textContent = `${done.toLocaleString()} of ${only.length.toLocaleString()} sent`;
    }
    const sum = failed.length
      ? `${only.length - failed.length} decided, ${failed.length} still pending.`
      : `All ${only.length} are decided.`;
    status.textContent = !wasFirst && body.reason ? `${sum} Your reason was: ${visible(body.reason)}` : sum;
    context.announce?.(sum);
    const retry = failed.length
      ? button(`Send ${failed.length} again`, "primary", () => run(body, failed), "a")
      : null;
    foot.replaceChildren(
      ...[
        retry,
        button("Back to the list", failed.length ? "" : "primary", leave, failed.length ? null : "a"),
      ].filter(Boolean),
    );
    foot.firstChild.focus();
  }

  function say({ uuid }, text, tone) {
    cells.get(uuid).className = `outcome ${tone}`;
    cells
      .get(uuid)
      .replaceChildren(
        tone === "is-good" ? icon("check") : tone === "is-bad" ? icon("x") : "",
        visible(text),
      );
  }

  function focus(which) {
    const letter = { approve: "a", reject: "r" }[which];
    const found = letter && foot.querySelector(`[data-key="${letter}"]`);
    (found || title).focus();
  }

  choose();
  return { element, focus, close: () => (stopped = true) };
}

function told(result, body) {
  switch (result.is) {
    case "decided":
      if (result.approval) return [whoDecided(result.approval), "is-good"];
      return [body.approved ? "approved" : "rejected", "is-good"];
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
