// The message box. Text is kept as a draft, and a message is sent again until the agent has answered.

import { post } from "./api.js";
import { h, icon } from "./dom.js";
import * as outbox from "./outbox.js";

const TALLEST = 240; // pixels

/** `log`: a ChatLog; `changed()` is called when the outbox has changed. */
export function composer({ id, log, context, changed }) {
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
  const hold = h("p", { class: "hold", id: "hold" });
  const form = h("form", { onsubmit: submit }, h("div", { class: "box row" }, box, send), hold);
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

  /** Sends the messages of the outbox, in order. */
  async function flush() {
    for (const entry of outbox.entries(id)) {
      if (closed) return;
      if (entry.state === "sent" || sending.has(entry.key)) continue;
      sending.add(entry.key);
      const answered = await deliver(entry);
      sending.delete(entry.key);
      changed();
      update();
      if (!answered) return; // a later message must not overtake it
    }
  }

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
      takeBack(entry, error.message);
      return true;
    }
  }

  /** A message that the agent refused becomes the draft again. */
  function takeBack(entry, why) {
    outbox.drop(id, entry.key);
    box.value = [entry.text, box.value].filter((text) => text.trim()).join("\n");
    outbox.keepDraft(id, box.value);
    problem = why;
    changed();
    update();
  }

  /** Drops the entries that are in the log. The agent does not store a message while an approval is pending;
   * sending it again shows whether it was stored. */
  async function settle() {
    const entries = outbox.entries(id),
      left = outbox.unmatched(entries, log.messages);
    for (const entry of entries) if (!left.includes(entry)) outbox.drop(id, entry.key);
    if (!log.pending.length) return;
    for (const entry of left) {
      if (entry.state !== "sent" || sending.has(entry.key)) continue;
      sending.add(entry.key);
      const answer = await post(path, { message: entry.text }, { key: entry.key }).catch(() => null);
      sending.delete(entry.key);
      if (answer?.result?.code === "waiting_approval")
        takeBack(entry, "The message was not accepted, because an approval came first.");
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
    if (hold.textContent !== words) hold.textContent = words;
    hold.classList.toggle("is-bad", Boolean(problem));
    send.setAttribute("aria-disabled", String(Boolean(blocked() || !box.value.trim())));
    fit();
  }

  /** Makes the box as high as its text; measured only when the text has changed, because updates are
   * frequent. */
  function fit() {
    const text = box.value || box.placeholder;
    if (fitted === text || !box.isConnected) return;
    fitted = text;
    box.style.height = "auto";
    box.style.height = `${Math.min(TALLEST, box.scrollHeight)}px`;
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

/** Enter submits the form, Shift and Enter begin a new line. */
export function sendOnEnter(box, form) {
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
}
