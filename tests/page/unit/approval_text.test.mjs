// The words about an approval.

import assert from "node:assert/strict";
import { test } from "node:test";

import { standing } from "../../../gateway/web/page/approval_text.js";

test("an approval that needs several persons says how many have approved", () => {
  const approval = { kind: "tool", state: "pending", requires: { quorum: 2 } };
  assert.equal(standing(approval), "0 of 2 approvals");
  assert.equal(standing({ ...approval, votes: [{ by: "mara" }] }), "1 of 2 approvals, by mara");
  assert.equal(standing({ ...approval, requires: { quorum: 1 } }), "Waits for you");
});
