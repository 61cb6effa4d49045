// The card that asks for a bearer token. The token stays in the memory of this page.

import { newKey, post, useToken } from "../core/api.js";
import { h, icon } from "../core/dom.js";
import { timeElement } from "../core/times.js";
import { shorten, visible } from "../core/text.js";

/** `item`: an "auth" of the chat log; `stop` cancels the run. */
export function credentialCard(item, { conversation, tool, stop }) {
  const server = visible(item.server);
  const id = `token-${item.id}`;
  const input = h("input", {
    type: "password",
    id,
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": `${id}-note`,
  });
  const error = h("p", { class: "small is-bad", role: "alert", hidden: true });
  const go = h("button", { class: "btn primary", type: "submit" }, "Continue");
  let key = newKey();
  input.addEventListener("input", () => (key = newKey()));

  async function submit(event) {
    event.preventDefault();
    if (!input.value.trim()) return;
    go.disabled = true;
    go.textContent = "Continuing…";
    error.hidden = true;
    try {
      useToken(input.value.trim());
      await post(`/conversations/${encodeURIComponent(conversation)}/resume`, {}, { key });
      input.value = "";
    } catch (problem) {
      error.textContent = problem.message;
      error.hidden = false;
    }
    go.disabled = false;
    go.textContent = "Continue";
  }

  return h(
    "form",
    { class: "notice-card wait", onsubmit: submit, "aria-labelledby": `${id}-title` },
    h(
      "header",
      {},
      h(
        "p",
        { class: "row kind" },
        icon("key"),
        h("span", { class: "grow" }, "Waits for a token"),
        timeElement(item.at),
      ),
      h("h2", { id: `${id}-title` }, h("code", {}, server), " needs a bearer token"),
      h("p", { class: "small muted" }, why(item, tool)),
    ),
    h(
      "div",
      { class: "body stack" },
      h("label", { class: "label", for: id }, `Bearer token for ${server}`),
      input,
      h(
        "p",
        { class: "small faint", id: `${id}-note` },
        "Kept in this tab’s memory only, and sent to the agent with each request. A reload forgets it.",
      ),
      error,
    ),
    h(
      "footer",
      { class: "row" },
      go,
      h("button", { class: "btn quiet", type: "button", onclick: stop }, "Stop the run"),
    ),
  );
}

function why(item, tool) {
  const call = tool ? [h("code", {}, visible(tool)), " "] : ["the call "];
  const asked = item.challenge
    ? [" It asks for: ", h("code", {}, shorten(visible(item.challenge), 200)), "."]
    : [];
  if (item.status === undefined || item.status === null)
    return ["The token was lost when the agent restarted.", asked];
  if (item.again)
    return [`That token was refused with ${visible(item.status)}. `, call, "has not run.", asked];
  return [tool ? call : "The call ", `was refused with ${visible(item.status)}; it has not run.`, asked];
}
