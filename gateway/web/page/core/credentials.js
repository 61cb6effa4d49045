// The credentials of this tab: the API key or the session with which it uses the agent, and the bearer token
// for tools. No script can read the cookie of the session; the agent tells its own page the CSRF token.

import { tab } from "./storage.js";

const KEY = "api key";
const UNSAFE = new Set(["POST", "DELETE"]);

let token = null; // a bearer token for tools, in the memory of this page only
let session = {}; // the answer of `GET /session`

/** Dispatches "refused" when the agent no longer accepts the credential. */
export const access = new EventTarget();

/** Whether a text can be sent in a header. */
export const fitsHeader = (text) => /^[!-~]+$/.test(text);

export function setToken(text) {
  token = text;
}

/** The API key of this tab, or null. It survives a reload, and ends with the tab. */
export const key = () => tab.get(KEY);

export function setKey(text) {
  if (text) tab.set(KEY, text);
  else tab.remove(KEY);
}

/** Takes over the answer of `GET /session`. Returns whether it names the same person as before; if not, the
 * page begins anew. */
export function setSession(answer) {
  const same = !session.subject || answer.subject === session.subject;
  session = answer;
  if (!same) location.reload();
  return same;
}

export function headersOf(method) {
  const headers = {};
  if (key()) headers["X-API-Key"] = key();
  if (session.csrf && UNSAFE.has(method)) headers["X-CSRF-Token"] = session.csrf;
  // Without authentication, agents read tokens for tools only there.
  if (token) headers[session.subject ? "X-Tool-Authorization" : "Authorization"] = `Bearer ${token}`;
  return headers;
}
