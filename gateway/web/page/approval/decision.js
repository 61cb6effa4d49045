// Sending of a decision. It is kept with its key until the agent has answered, so that it can be sent again
// safely after a reload.

import { ApiError, get, newKey, post } from "../core/api.js";
import { sentence } from "./approval_text.js";
import { parse, stringify } from "../core/exact_json.js";
import { browser, tab } from "../core/storage.js";

const NAME = "stopgo.name";
const inFlight = new Map(); // uuid -> promise, for all cards of this page

const place = (uuid) => `stopgo.decision.${uuid}`;

/** The sent decision without an answer yet, as `{key, body}`, or null. */
export function kept(uuid) {
  const text = tab.get(place(uuid));
  try {
    return text && parse(text);
  } catch {
    return null;
  }
}

export function forget(uuid) {
  tab.remove(place(uuid));
}

/** Whether a decision is being sent. */
export function isSending(uuid) {
  return inFlight.has(uuid);
}

/** Sends a decision. `is` of the result:
 *
 * - "decided", "already" (another decision was first), "expired", "void": `approval` is its new state;
 * - "refused" (`errors` at arguments), "denied" (a rule), "wrong": still pending, `text` is the reason;
 * - "unreachable": it may or may not have arrived; it is kept, and `sendAgain` repeats it. */
export function decide(uuid, body) {
  if (inFlight.has(uuid)) return inFlight.get(uuid); // one at a time; the first one counts
  const named = decidedBy() ? { ...body, decided_by: decidedBy() } : body;
  tab.set(place(uuid), stringify({ key: newKey(), body: named }));
  return sendAgain(uuid);
}

/** Sends the kept decision with its key, again if necessary. */
export function sendAgain(uuid) {
  if (!inFlight.has(uuid))
    inFlight.set(
      uuid,
      send(uuid, kept(uuid)).finally(() => inFlight.delete(uuid)),
    );
  return inFlight.get(uuid);
}

async function send(uuid, { key, body }) {
  try {
    await post(`/approvals/${encodeURIComponent(uuid)}`, body, { key, prefer: "respond-async" });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const result = failure(error);
    if (result.is !== "unreachable") forget(uuid);
    return result;
  }
  forget(uuid);
  try {
    return { is: "decided", approval: (await get(`/approvals/${encodeURIComponent(uuid)}`)).approval };
  } catch {
    return { is: "decided" }; // it is on disk; only how it now stands could not be read
  }
}

/** The meaning of an error for the decision. Pure. */
export function failure({ code, status, message, hint, body = {} }) {
  const text = hint && !message.includes(hint) ? `${sentence(message)} ${hint}` : sentence(message);
  switch (code) {
    case "already_decided":
      return { is: "already", approval: body.approval };
    case "expired":
    case "void":
      return { is: code, approval: body.approval };
    case "invalid_arguments":
      return refused(body.errors, message);
    case "subject_changed":
      return { is: "wrong", approval: body.approval, text };
    case "denied_by_policy":
      return { is: "denied", text };
    case "unreachable":
    case "shutting_down":
    case "stopped":
    case "too_many_connections":
    case "request_timeout":
      return { is: "unreachable", text: message };
  }
  return status >= 500 && code !== "conversation_broken" && code !== "internal_error"
    ? { is: "unreachable", text: message }
    : { is: "wrong", text };
}

function refused(errors, message) {
  if (!errors?.length) return { is: "refused", errors: [message], text: message };
  const what = errors.length === 1 ? "1 value does not fit." : `${errors.length} values do not fit.`;
  return { is: "refused", errors, text: `${what} Nothing was decided.` };
}

/** The name that goes along with decisions, for the record. */
export function decidedBy() {
  return browser.get(NAME)?.trim() || "";
}

export function signAs(name) {
  if (name.trim()) browser.set(NAME, name.trim());
  else browser.remove(NAME);
}
