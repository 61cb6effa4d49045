// The chat: draws the items of a ChatLog that are new or have changed.

import { approvalEntry } from "./chat_approval.js";
import { replyView } from "./chat_reply.js";
import { credentialCard } from "./credential.js";
import { h, icon } from "../core/dom.js";
import { markdownBox } from "../core/markdown.js";
import { reason } from "../core/conversation_state.js";
import { unmatched } from "./outbox.js";
import { visible } from "../core/text.js";
import { timeElement } from "../core/times.js";

const SHOWN = 200; // items; "Show earlier" adds as many
const GAP = 16; // pixels kept free above a card that is brought into view
const BUTTON = 56; // and below it, where "Latest" may be
const BY_HAND = 600; // milliseconds after an input in which scrolling counts as the person's
const NEAR = 120; // pixels from the end within which the chat follows new items
const QUEUED = "queued until this run ends";

/** `log`: a ChatLog; `select(key)` shows a call in the panel; `outbox()`: the messages not in the log yet. */
export function chat({ log, id, context, select, stop, outbox, retry, agentName }) {
  const flow = h("div", { class: "flow" });
  const sending = h("div", { class: "flow-sending" });
  const earlier = h(
    "button",
    { class: "btn quiet earlier", type: "button", hidden: true, onclick: showEarlier },
    "Show earlier",
  );
  const latest = h(
    "button",
    { class: "btn latest", type: "button", hidden: true, onclick: toEnd },
    icon("down"),
    "Latest",
  );
  const scroll = h(
    "div",
    { class: "scroll chat-scroll", tabindex: "0", role: "group", "aria-label": "Messages" },
    h("div", { class: "flow-frame" }, earlier, flow, sending),
  );
  const element = h("section", { class: "chat", "aria-label": "Chat" }, scroll, latest);
  const views = new Map(); // by id of the item
  let from = 0,
    drawn = 0,
    follows = true,
    sentLook = "",
    touched = -BY_HAND;

  for (const type of ["wheel", "touchmove", "pointerdown", "keydown"]) {
    scroll.addEventListener(type, () => (touched = performance.now()), { passive: true });
  }
  scroll.addEventListener(
    "scroll",
    () => {
      const atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;
      if (performance.now() - touched < BY_HAND) follows = atEnd; // the page scrolls, too
      if (atEnd) latest.hidden = true;
    },
    { passive: true },
  );
  // Items grow after they are drawn: Markdown and cards are loaded.
  const grown = new ResizeObserver(() => follows && follow());
  grown.observe(flow);
  grown.observe(scroll);

  /** Scrolls to the end, but keeps a pending approval in view, so that no button moves under the pointer. One
   * that is higher than the view is read from its top; its buttons stay at the bottom. */
  function follow() {
    const waits = views.get(log.itemOf(log.pending[0]))?.element;
    if (!waits) return toEnd();
    const frame = scroll.getBoundingClientRect(),
      card = waits.getBoundingClientRect();
    const below = card.bottom + BUTTON - frame.bottom;
    const isHigh = card.height + BUTTON > frame.height;
    if (below > 0 && !isHigh) scroll.scrollTop += below;
    else if (card.top < frame.top || isHigh) scroll.scrollTop += card.top - frame.top - GAP;
    latest.hidden = isHigh || scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;
  }

  function toEnd() {
    follows = true;
    scroll.scrollTop = scroll.scrollHeight;
    latest.hidden = true;
  }

  function showEarlier() {
    const height = scroll.scrollHeight - scroll.scrollTop;
    const start = Math.max(0, from - SHOWN);
    flow.prepend(...log.items.slice(start, from).map(make));
    from = start;
    earlier.hidden = !from;
    scroll.scrollTop = scroll.scrollHeight - height;
    if (earlier.hidden) scroll.focus({ preventScroll: true }); // a hidden button would lose the focus
  }

  /** Draws the items that `log.take` returned. */
  function update(changed) {
    if (!drawn || (follows && log.items.length - drawn > SHOWN))
      startAt(Math.max(0, log.items.length - SHOWN));
    for (const item of changed) views.get(item.id)?.update?.(item);
    const fresh = log.items.slice(Math.max(drawn, from));
    if (fresh.length) {
      flow.append(...fresh.map(make));
      if (!follows && drawn) latest.hidden = false;
    }
    drawn = log.items.length;
    if (follows && drawn - from > 2 * SHOWN) startAt(drawn - SHOWN);
    earlier.hidden = !from;
    drawSending();
    if (follows) follow();
  }

  /** Removes the items before this one, so that a long conversation stays fast. */
  function startAt(index) {
    for (const item of log.items.slice(from, Math.min(index, drawn))) {
      const view = views.get(item.id);
      view?.element.remove();
      view?.close?.();
      views.delete(item.id);
    }
    from = index;
  }

  function drawSending() {
    const left = unmatched(outbox(), log.messages);
    const look = JSON.stringify(left);
    if (look === sentLook) return;
    sentLook = look;
    const more = left.length > sending.children.length;
    sending.replaceChildren(...left.map(sendingView));
    if (more) toEnd();
  }

  function sendingView(entry) {
    const words = {
      sending: ["sending"],
      sent: [QUEUED],
      failed: [
        entry.error ?? "not sent",
        " ",
        h("button", { class: "btn quiet", type: "button", onclick: retry }, "Try again"),
      ],
    }[entry.state];
    return h(
      "article",
      { class: "message user on-its-way" },
      h(
        "header",
        { class: "message-head" },
        h("b", {}, "You"),
        h("span", { role: "status", class: entry.state === "failed" ? "is-bad" : "" }, words),
      ),
      h("p", { class: "plain" }, entry.text),
    );
  }

  function make(item) {
    const view = MAKERS[item.kind](item);
    views.set(item.id, view);
    return view.element;
  }

  const MAKERS = {
    message(item) {
      const note = h("span", {});
      const update = () => (note.textContent = item.queued ? QUEUED : "");
      update();
      return {
        update,
        element: h(
          "article",
          { class: "message user" },
          h("header", { class: "message-head" }, h("b", {}, "You"), timeElement(item.at), note),
          h("p", { class: "plain" }, item.text),
          item.pictures.length > 0 &&
            h(
              "div",
              { class: "message-pictures" },
              item.pictures.map((src, index) => h("img", { src, alt: `Picture ${index + 1} you sent` })),
            ),
        ),
      };
    },
    reply: (item) => replyView(item, { select, name: agentName() ?? item.node }),
    answer: (item) => ({
      element: h(
        "article",
        { class: "message" },
        h("header", { class: "message-head" }, h("b", {}, visible(context.agent.name)), timeElement(item.at)),
        markdownBox(item.text),
      ),
    }),
    approval: (item) => approvalEntry(item, context, scroll),
    auth(item) {
      const element = h("div", {});
      const update = () => {
        const line = h("p", { class: "ends" }, icon("key"), `A token for ${item.server} was needed`);
        const tool = [...log.items]
          .reverse()
          .flatMap((each) => each.parts ?? [])
          .flatMap((part) => part.calls ?? [])
          .find((call) => call.state === "waiting" && call.server === item.server)?.tool;
        element.replaceChildren(item.open ? credentialCard(item, { conversation: id, tool, stop }) : line);
      };
      update();
      return { element, update };
    },
    failure: (item) => ({
      element: h(
        "section",
        { class: "notice-card bad", "aria-label": "Run failed" },
        h(
          "header",
          {},
          h(
            "p",
            { class: "row kind" },
            icon("alert"),
            h("span", { class: "grow" }, "Run failed: ", h("code", {}, item.code)),
            timeElement(item.at),
          ),
          h("h2", {}, capital(reason(item.code))),
          h("p", { class: "plain" }, item.message),
          h("p", { class: "small muted" }, "You can continue: send another message."),
        ),
        item.key &&
          h(
            "footer",
            {},
            h(
              "button",
              { class: "btn", type: "button", onclick: () => select(item.key) },
              "Show in timeline",
            ),
          ),
      ),
    }),
    cancelled: (item) => ({
      element: h("p", { class: "ends" }, icon("stop"), "Stopped", timeElement(item.at)),
    }),
    completed: (item) => ({
      element: h("p", { class: "ends" }, icon("check"), "Completed", timeElement(item.at)),
    }),
  };

  return {
    element,
    update,
    drawSending,
    toEnd,
    close() {
      grown.disconnect();
      for (const view of views.values()) view.close?.();
    },
  };
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
