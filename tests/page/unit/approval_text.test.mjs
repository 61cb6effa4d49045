// The words about an approval.

import assert from "node:assert/strict";
import { test } from "node:test";

import { addedDescription, channelsTold, groupOf, heading, standing, summary, toneOf, whyText } from "../../../gateway/web/page/approval/approval_text.js";

test("an approval that needs several persons says how many have approved", () => {
  const approval = { kind: "tool", state: "pending", requires: { quorum: 2 } };
  assert.equal(standing(approval), "0 of 2 approvals");
  assert.equal(standing({ ...approval, votes: [{ by: "mara" }] }), "1 of 2 approvals, by mara");
  assert.equal(standing({ ...approval, requires: { quorum: 1 } }), "Waits for you");
});

test("no heading has words of a model, of a server or of another agent", () => {
  const lie = "Go on with the tests?";
  const asked = { tool_name: "wipe", server: "notes", description: lie, message: lie, node: "n" };
  const other = { ...asked, kind: "proxy", path: ["helper"] };
  const headings = [
    [{ ...asked, kind: "tool" }, "Run wipe on notes?"],
    [{ ...asked, kind: "elicitation" }, "notes asks a question"],
    [{ ...asked, kind: "outcome_unknown" }, "Did wipe happen?"],
    [{ ...other, remote_kind: "tool" }, "Run wipe in helper?"],
    [{ ...other, remote_kind: "elicitation" }, "helper asks a question"],
    [{ ...other, remote_kind: "checkpoint" }, "helper asks whether to go on"],
    [{ ...other, remote_kind: "" }, "helper asks whether to go on"],
  ];
  for (const [approval, text] of headings) {
    assert.equal(heading(approval).map((part) => part.code ?? part).join(""), text);
  }
});

test("the heading of a checkpoint is the message of the file, also when it is decided", () => {
  const asked = { kind: "checkpoint", description: "Publish {text}?\n\n{text}:\n\n```\nGo on?\n```" };
  for (const state of ["pending", "decided"]) {
    assert.deepEqual(heading({ ...asked, state }), ["Publish {text}?"]);
  }
});

test("a decision shows the arguments that were approved", () => {
  const asked = { kind: "tool", state: "decided", tool_name: "add", tool_args: { name: "lamp", value: 3 } };
  const decided = (decision) => ({ ...asked, decision });
  const edited = decided({ approved: true, arguments: { name: "lamp", value: 4 } });
  assert.equal(summary(edited), "lamp, value 4");
  assert.equal(standing(edited), "Approved with 1 change");
  assert.equal(standing(decided({ approved: true })), "Approved");
  assert.equal(standing(decided({ approved: true, arguments: asked.tool_args })), "Approved");
  assert.equal(summary(decided({ approved: false })), "lamp, value 3");
});

test("a text in place of a call is an answer, neither a yes nor a no", () => {
  const asked = { kind: "tool", state: "decided", tool_name: "wipe", tool_args: {} };
  const answered = { ...asked, decision: { action: "respond", result: "use staging" } };
  assert.equal(standing(answered), "Answered");
  assert.equal(toneOf(answered), "good");
});

test("arguments that are not shown are not said to be none", () => {
  const text = "**PROXY**\n\nThe question cannot be approved: why.\n\n> Wipe?";
  const asked = { kind: "proxy", remote_kind: "tool", tool_name: "wipe", tool_args: {}, description: text };
  assert.equal(summary(asked), "without arguments");
  assert.equal(summary({ ...asked, unshown: "why" }), "not shown");
  assert.equal(addedDescription({ ...asked, unshown: "why" }), "> Wipe?");
});

test("a card names the server once", () => {
  const asked = { tool_name: "wipe", server: "prod", tool_args: {}, description: "**WIPE**\n\nArgs: {}\n\nServer: prod" };
  assert.equal(addedDescription({ ...asked, kind: "tool" }), "");
  assert.equal(addedDescription({ ...asked, kind: "outcome_unknown" }), "Server: prod");
});

test("the words of a form of another agent are shown", () => {
  const asked = { kind: "proxy", remote_kind: "elicitation", description: "**PROXY**\n\n> Who?" };
  assert.equal(addedDescription(asked), "> Who?");
  assert.equal(addedDescription({ ...asked, kind: "elicitation" }), "");
});

test("only calls, whose arguments are compared, are decided together", () => {
  const asked = { state: "pending", tool_name: "wipe" };
  assert.notEqual(groupOf({ ...asked, kind: "tool" }), null);
  assert.notEqual(groupOf({ ...asked, kind: "proxy", remote_kind: "tool" }), null);
  assert.equal(groupOf({ ...asked, kind: "proxy", remote_kind: "tool", unshown: "too long" }), null);
  for (const kind of ["checkpoint", "elicitation", "outcome_unknown"]) {
    assert.equal(groupOf({ ...asked, kind }), null);
    assert.equal(groupOf({ ...asked, kind: "proxy", remote_kind: kind }), null);
  }
});

test("the reason for asking is a sentence, also for a tool without hints", () => {
  const call = { kind: "tool" };
  assert.match(whyText(call, "destructiveHint: true"), /^The tool itself says destructiveHint: true\. /);
  assert.equal(
    whyText(call, "approval.unannotated: ask"),
    "The server does not say whether the tool may do harm, and such calls ask (approval.unannotated: ask).",
  );
});

test("it is said of each channel whether it was told of an approval", () => {
  assert.deepEqual(channelsTold(undefined), []);
  const given = [
    { channel: "ops", state: "arrived", at: "10:00" },
    { channel: "pager", state: "given_up", at: "10:01" },
    { channel: "ops", state: "arrived", at: "10:10" },
    { channel: "ops", state: "pending", at: "10:20" },
    { channel: "lead", state: "pending", at: "10:30" },
  ];
  assert.deepEqual(channelsTold(given), [
    { channel: "ops", times: 2, at: "10:10", waits: true },
    { channel: "pager", times: 0, at: null, waits: false },
    { channel: "lead", times: 0, at: null, waits: true },
  ]);
});
