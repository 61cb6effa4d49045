// The header of a conversation: title, state, time, tokens and cost, and the menu of actions.

import { post, remove } from "../core/api.js";
import { pillOf } from "../core/conversation_state.js";
import { took } from "../timeline/call_text.js";
import { h, icon } from "../core/dom.js";
import { plural, visible } from "../core/text.js";
import { count, money } from "../core/times.js";

/** `element` is the header, `below` the area under it for questions and notes. */
export function conversationHeader({ id, log, context }) {
  const path = `/conversations/${encodeURIComponent(id)}`;
  const title = h("h1", { class: "ellipsis" }),
    pill = h("span", { class: "pill", role: "status" });
  const time = h("span", { class: "time", title: "Since the last message, waiting included" }),
    tokens = h("span", {}),
    cost = h("span", {});
  const stopWord = h("span", { class: "stop-word" }, "Stop");
  const stop = h(
    "button",
    { class: "btn quiet", type: "button", "aria-label": "Stop", hidden: true, onclick: cancel },
    icon("stop"),
    stopWord,
  );
  const below = h("div", { class: "below" });
  const complete = h(
    "button",
    { type: "button", onclick: () => act(completeIt) },
    icon("check"),
    "Complete",
  );
  const menu = h(
    "div",
    { class: "menu block", hidden: true },
    h("button", { type: "button", onclick: () => act(copyLink) }, icon("link"), "Copy link"),
    complete,
    h("button", { type: "button", class: "is-bad", onclick: () => act(askDelete) }, icon("x"), "Delete"),
  );
  const more = h(
    "button",
    {
      class: "btn quiet icon",
      type: "button",
      "aria-label": "More",
      "aria-expanded": "false",
      onclick: toggle,
    },
    icon("dots"),
  );
  const element = h(
    "header",
    { class: "top" },
    h(
      "a",
      { class: "btn quiet icon only-narrow", href: "#/conversations", "aria-label": "Conversations" },
      icon("back"),
    ),
    title,
    pill,
    h("span", { class: "grow" }),
    h("span", { class: "facts" }, time, tokens, cost),
    stop,
    h("div", { class: "menu-place" }, more, menu),
  );
  let pillWord = null;

  const outside = (event) => !menu.hidden && !event.target.closest?.(".menu-place") && toggle();
  document.addEventListener("click", outside);
  menu.parentElement.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key === "Escape" && !menu.hidden) {
      toggle();
      more.focus();
    } else if (Object.hasOwn(steps, event.key)) {
      if (menu.hidden) toggle();
      const buttons = [...menu.querySelectorAll("button:not([hidden])")];
      const at = buttons.indexOf(document.activeElement);
      buttons[(at + steps[event.key] + buttons.length) % buttons.length].focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function toggle() {
    menu.hidden = !menu.hidden;
    more.setAttribute("aria-expanded", String(!menu.hidden));
  }

  function act(fn) {
    toggle();
    more.focus();
    fn();
  }

  async function cancel() {
    stop.disabled = true;
    stopWord.textContent = "Stopping…";
    await tell(() => post(`${path}/cancel`));
    stop.disabled = false;
    stopWord.textContent = "Stop";
  }

  async function copyLink() {
    const address = `${location.origin}${location.pathname}#/conversations/${encodeURIComponent(id)}`;
    try {
      await navigator.clipboard.writeText(address);
      note("Link copied.");
    } catch {
      note(address); // without permission it can be copied from here
    }
  }

  const completeIt = () => tell(() => post(`${path}/complete`));

  function askDelete() {
    const shut = () => {
      below.replaceChildren();
      more.focus();
    };
    const asked = log.approvals ? ` and ${plural(log.approvals, "approval")}` : "";
    const verb = log.seq === 1 && !asked ? "is" : "are";
    const what = `Its ${plural(log.seq, "event")}${asked} ${verb} removed from the store for good.`;
    const sure = h("button", { class: "btn danger", type: "button", onclick: erase }, "Delete for good");
    async function erase() {
      sure.disabled = true;
      sure.textContent = "Deleting…";
      if (await tell(() => remove(path))) context.navigate("#/");
    }
    below.replaceChildren(
      h(
        "section",
        {
          class: "ask-delete",
          "aria-labelledby": "delete-title",
          onkeydown: (event) => event.key === "Escape" && shut(),
        },
        h("h2", { id: "delete-title" }, `Delete “${visible(log.title || "this conversation")}”?`),
        h("p", {}, `${what}${log.run && !log.run.ended ? " The run is stopped first." : ""}`),
        h(
          "div",
          { class: "row" },
          sure,
          h("button", { class: "btn quiet", type: "button", onclick: shut }, "Keep it"),
        ),
      ),
    );
    below.querySelector(".btn.quiet").focus();
  }

  /** Performs an action on the agent; an error becomes a note. */
  async function tell(work) {
    try {
      await work();
      below.replaceChildren();
      return true;
    } catch (error) {
      note(error.message, true);
      return false;
    }
  }

  function note(text, bad = false) {
    const line = h(
      "p",
      { class: `banner${bad ? " bad" : " said"}`, role: bad ? "alert" : "status" },
      icon(bad ? "alert" : "check"),
      h("span", { class: "grow" }, text),
      h(
        "button",
        { class: "btn quiet icon", type: "button", "aria-label": "Close", onclick: () => line.remove() },
        icon("x"),
      ),
    );
    below.replaceChildren(line);
    if (!bad) setTimeout(() => line.remove(), 4000);
  }

  function update() {
    const words = log.title || "New conversation";
    if (title.textContent !== words) {
      title.textContent = title.title = words;
      context.setTitle(words);
    }
    const now = pillOf(log);
    if (pillWord !== now?.word) {
      pillWord = now?.word;
      pill.hidden = !now;
      pill.className = `pill ${now?.tone ?? ""}`;
      pill.replaceChildren(...(now ? [icon(now.sign, now.sign === "load" ? "spin" : ""), now.word] : []));
    }
    const used = log.usage.input + log.usage.output;
    tokens.textContent = used ? `${count(used)} tokens` : "";
    tokens.title = used ? `${count(log.usage.input)} in, ${count(log.usage.output)} out` : "";
    cost.textContent = money(log.usage.cost);
    stop.hidden = !log.run || Boolean(log.run.ended);
    complete.hidden = Boolean(log.completed);
    tick();
  }

  function tick() {
    time.textContent = log.run
      ? took((new Date(log.run.ended ?? Date.now()) - new Date(log.run.at)) / 1000)
      : "";
  }
  const timer = setInterval(() => log.run && !log.run.ended && tick(), 1000);

  return {
    element,
    below,
    update,
    cancel,
    close() {
      clearInterval(timer);
      document.removeEventListener("click", outside);
    },
  };
}
