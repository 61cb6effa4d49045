// The view of people without a valid credential: the login at the issuer, or a field for an API key.

import { readSession } from "../core/api.js";
import { fitsHeader, setKey } from "../core/credentials.js";
import { h } from "../core/dom.js";
import { signOutButton } from "./sign_out.js";
import { visible } from "../core/text.js";

/** `ways`: the ways to sign in that the agent offers, "login" and "api_key". */
export function signIn(main, ways) {
  const back = encodeURIComponent(`/${location.hash}`);
  const login = ways.includes("login")
    ? h("a", { class: "btn primary", href: `login?return=${back}` }, "Log in")
    : null;
  const none = h("p", {}, "Reach this page through the proxy that logs people in.");
  main.replaceChildren(
    h(
      "div",
      { class: "empty sign-in" },
      h("h1", {}, "Sign in to use this agent"),
      login,
      ways.includes("api_key") ? keyForm(login ? "btn" : "btn primary") : login ? null : none,
    ),
  );
  main.querySelector("input, a")?.focus();
}

function keyForm(look) {
  const input = h("input", {
    type: "password",
    id: "api-key",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "api-key-note",
  });
  const error = h("p", { class: "small is-bad", role: "alert", hidden: true });
  const go = h("button", { class: look, type: "submit" }, "Continue");

  async function submit(event) {
    event.preventDefault();
    const key = input.value.trim();
    error.hidden = true;
    if (!key) return;
    go.disabled = true;
    try {
      if (!fitsHeader(key)) throw new Error("An API key has only letters, digits and signs of ASCII.");
      setKey(key);
      await readSession();
      location.reload();
    } catch (problem) {
      setKey(null);
      error.textContent = problem.message;
      error.hidden = false;
      go.disabled = false;
    }
  }

  return h(
    "form",
    { class: "stack", onsubmit: submit },
    h("label", { class: "label", for: "api-key" }, "API key"),
    input,
    h(
      "p",
      { class: "small faint", id: "api-key-note" },
      "Kept in this tab until you close it, and sent with each request.",
    ),
    error,
    go,
  );
}

/** The view of a person without a role. */
export function noRole(main, session) {
  main.replaceChildren(
    h(
      "div",
      { class: "empty" },
      h("h1", {}, "You have no role in this agent"),
      h("p", {}, `You are signed in as ${visible(session.subject)}. Ask an administrator for a role.`),
      signOutButton(session),
    ),
  );
}
