// The message box. Typed text is kept as a draft. A sent message stays in the outbox until the agent answers.

import { post } from "../core/api.js";
import { h, icon } from "../core/dom.js";
import * as outbox from "./outbox.js";

const MAX_HEIGHT = 240; // pixels

/** The box of conversation `id`. `log`: its ChatLog; `changed()` is called when the outbox has changed. */
export function composer({ id, log, changed }) {
  const path = `/conversations/${encodeURIComponent(id)}/messages`;
  const box = h("textarea", {
    rows: "1",
    "aria-label": "Message",
    "aria-describedby": "hold",
    enterkeyhint: "send",
  });
  const send = h(
    "button",
    { class: "btn primary icon", type: "submit", "aria-label": "Send" },
    icon("send"),
  );
  const note = h("p", { class: "hold", id: "hold" });
  const form = h("form", { onsubmit: submit }, h("div", { class: "box row" }, box, send), note);
  const element = h("div", { class: "composer" }, form);
  const sending = new Set();
  let problem = "",
    closed = false,
    done = null,
    fitted = null;

  box.value = outbox.draft(id);
  box.addEventListener("input", () => {
    outbox.keepDraft(id, box.value);
    problem = "";
    update();
  });
  sendOnEnter(box, form);

  function submit(event) {
    event.preventDefault();
    const text = box.value;
    if (!text.trim() || blocked()) return;
    outbox.add(id, text, log.seq);
    box.value = "";
    outbox.keepDraft(id, "");
    problem = "";
    changed();
    update();
    flush();
  }

  const blocked = () => log.pending.length > 0 || log.completed;

  /** Sends the messages of the outbox one at a time: none may overtake an earlier one. If a message is being
   * sent already, the call that sends it continues with the later ones. */
  async function flush() {
    for (;;) {
      const entry = outbox.entries(id).find(({ state }) => state !== "sent");
      if (closed || !entry || sending.has(entry.key)) return;
      sending.add(entry.key);
      const answered = await deliver(entry);
      sending.delete(entry.key);
      changed();
      update();
      if (!answered) return;
    }
  }

  /** Sends a message. False if the request must be repeated. */
  async function deliver(entry) {
    if (entry.state === "failed") outbox.change(id, entry.key, { state: "sending" });
    changed();
    try {
      await post(path, { message: entry.text }, { key: entry.key, prefer: "respond-async" });
      outbox.change(id, entry.key, { state: "sent" });
      return true;
    } catch (error) {
      if (error.code === "unreachable" || error.status >= 500 || [408, 429].includes(error.status)) {
        outbox.change(id, entry.key, { state: "failed", error: error.message });
        return false;
      }
      restoreDraft(entry, error.message);
      return true;
    }
  }

  /** Moves a refused message from the outbox back to the draft. */
  function restoreDraft(entry, reason) {
    outbox.drop(id, entry.key);
    box.value = [entry.text, box.value].filter((text) => text.trim()).join("\n");
    outbox.keepDraft(id, box.value);
    problem = reason;
    changed();
    update();
  }

  /** Drops the entries that are in the log. While an approval is pending, the agent refuses messages, so each
   * remaining entry is sent again with its key to see whether it was stored. */
  async function settle() {
    const entries = outbox.entries(id),
      left = outbox.unmatched(entries, log.messages);
    for (const entry of entries) if (!left.includes(entry)) outbox.drop(id, entry.key);
    if (!log.pending.length) return;
    for (const entry of left) {
      if (entry.state !== "sent" || sending.has(entry.key)) continue;
      sending.add(entry.key);
      const answer = await post(path, { message: entry.text }, { key: entry.key }).catch((error) => error);
      sending.delete(entry.key);
      // An older agent, which `stopgo web` may show, answers 200.
      if (answer.code === "waiting_approval" || answer.result?.code === "waiting_approval")
        restoreDraft(entry, "The message was not accepted because an approval is pending.");
    }
  }

  function update() {
    if (log.completed && !done) {
      done = h(
        "div",
        { class: "row done" },
        icon("check"),
        h("p", { class: "grow" }, "Completed. This conversation takes no more messages."),
        h("a", { class: "btn", href: "#/" }, "New conversation"),
      );
      element.replaceChildren(done);
    }
    const waits = log.pending.length > 0;
    box.placeholder = waits ? "Decide first; your draft is kept" : "Say what to do next";
    const words = problem || (waits ? "You can send messages again after the decision." : "");
    if (note.textContent !== words) note.textContent = words;
    note.classList.toggle("is-bad", Boolean(problem));
    send.setAttribute("aria-disabled", String(Boolean(blocked() || !box.value.trim())));
    fit();
  }

  /** Fits the height of the box to its text. Measures only after the text has changed, because updates are
   * frequent. */
  function fit() {
    const text = box.value || box.placeholder;
    if (fitted === text || !box.isConnected) return;
    fitted = text;
    box.style.height = "auto";
    box.style.height = `${Math.min(MAX_HEIGHT, box.scrollHeight)}px`;
  }

  return {
    element,
    update() {
      settle();
      update();
    },
    flush,
    close: () => (closed = true),
  };
}

/** Makes Enter submit the form. Shift+Enter begins a new line. */
export function sendOnEnter(box, form) {
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
}
