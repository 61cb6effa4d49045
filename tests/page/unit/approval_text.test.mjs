// The words about an approval.

import assert from "node:assert/strict";
import { test } from "node:test";

import { groupOf, heading, standing } from "../../../gateway/web/page/approval_text.js";

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

test("only calls, whose arguments are compared, are decided together", () => {
  const asked = { state: "pending", tool_name: "wipe" };
  assert.notEqual(groupOf({ ...asked, kind: "tool" }), null);
  assert.notEqual(groupOf({ ...asked, kind: "proxy", remote_kind: "tool" }), null);
  for (const kind of ["checkpoint", "elicitation", "outcome_unknown"]) {
    assert.equal(groupOf({ ...asked, kind }), null);
    assert.equal(groupOf({ ...asked, kind: "proxy", remote_kind: kind }), null);
  }
});
