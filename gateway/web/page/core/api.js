// Requests to the agent. Every change carries an idempotency key, so it can be repeated after a lost answer.

import { access, fitsHeader, headersOf, key as apiKey, setSession, setToken } from "./credentials.js";
import { parse, stringify } from "./exact_json.js";

const RETRIES = [500, 1500, 4000]; // milliseconds before each repetition
const DEADLINE = 30_000; // milliseconds for one answer; what takes longer is answered before it is done

const UNREACHABLE = "The agent cannot be reached. Nothing is lost; try again.";

/** An error reply of the agent (`code`, `status`, `body`), or `code` "unreachable" if there was no reply. */
export class ApiError extends Error {
  constructor(status, code, message, body = {}) {
    super(message);
    Object.assign(this, { status, code, body, hint: body.hint });
  }
}

/** Raises an ApiError for a token that is not valid in a header, because every request with it would fail. */
export function useToken(text) {
  if (text && !fitsHeader(text))
    throw new ApiError(0, "bad_token", "A token has only letters, digits and signs of ASCII, and no spaces.");
  setToken(text || null);
}

/** A new idempotency key. `crypto.randomUUID` does not exist on pages loaded over plain HTTP from another
 * machine. */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function get(path, signal) {
  return request("GET", path, undefined, {}, signal);
}

/** `key`: the idempotency key; use the same key to repeat a change. */
export function post(path, body = {}, { key = newKey(), prefer } = {}) {
  const headers = { "Idempotency-Key": key, "Content-Type": "application/json" };
  if (prefer) headers.Prefer = prefer;
  return request("POST", path, stringify(body), headers);
}

/** The events of a change that answers with a stream, each parsed. It is sent once. */
export async function* postStream(path, body, signal) {
  const headers = { "Content-Type": "application/json", ...headersOf("POST") };
  try {
    const answer = await fetch(relative(path), {
      method: "POST", body: stringify(body), headers, signal, cache: "no-store",
    });
    if (!answer.ok) result(answer, await answer.text());
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const events = (text + part.value).split("\n\n");
      text = events.pop();
      for (const each of events) if (each.startsWith("data: ")) yield parse(each.slice(6));
    }
  } catch (error) {
    if (error.status === 401) access.dispatchEvent(new Event("refused"));
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError(0, "unreachable", UNREACHABLE);
  }
}

export function remove(path) {
  return request("DELETE", path);
}

/** Asks the agent who uses this page. Raises an ApiError with status 401 without a valid credential. */
export async function readSession() {
  const answer = await get("/session");
  setSession(answer);
  return answer;
}

/** The address of a websocket. It cannot carry an API key, so it gets a ticket instead. */
export async function ticketed(path) {
  const { ticket } = await post("/ticket");
  return `${path}${path.includes("?") ? "&" : "?"}ticket=${encodeURIComponent(ticket)}`;
}

export const needsTicket = () => Boolean(apiKey());

/** A path of the agent, from that of this page: a proxy may serve both below a path of its own. */
export const relative = (path) => path.slice(1);

async function request(method, path, body, headers = {}, signal = undefined) {
  try {
    return await attempts(method, path, body, headers, signal);
  } catch (error) {
    if (error.status === 401 && path !== "/session") access.dispatchEvent(new Event("refused"));
    // After a login in another tab, this one has the CSRF token of the former session.
    if (error.code !== "invalid_csrf_token" || !(await sameSubject())) throw error;
    return attempts(method, path, body, headers, signal);
  }
}

async function sameSubject() {
  try {
    return setSession(await get("/session"));
  } catch {
    access.dispatchEvent(new Event("refused"));
    return false;
  }
}

async function attempts(method, path, body, given, signal) {
  const headers = { ...given, ...headersOf(method) };
  for (const wait of [...RETRIES, null]) {
    let answer, text;
    const limits = AbortSignal.any([AbortSignal.timeout(DEADLINE), signal].filter(Boolean));
    try {
      answer = await fetch(relative(path), { method, body, headers, signal: limits, cache: "no-store" });
      text = await answer.text();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (wait === null) throw new ApiError(0, "unreachable", UNREACHABLE);
    }
    if (answer && ![502, 503, 504].includes(answer.status)) return result(answer, text);
    if (answer && (wait === null || path === "/health/ready")) return result(answer, text);
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function result(answer, text) {
  let body = null;
  try {
    body = text ? parse(text) : null;
  } catch {
    const text = `The agent answered ${answer.status} with something that is not JSON.`;
    throw new ApiError(answer.status, "not_json", text);
  }
  if (!answer.ok && !(answer.status === 503 && body?.mcp_servers)) {
    const { code = "error", error = `The agent answered ${answer.status}.` } = body ?? {};
    throw new ApiError(answer.status, code, error, body ?? {});
  }
  return body;
}
