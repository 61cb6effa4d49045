// A new conversation: the agent's description, a message box, and how the agent works.

import { newKey, post } from "../core/api.js";
import { sendOnEnter } from "./composer.js";
import { h, icon, svg } from "../core/dom.js";
import * as outbox from "./outbox.js";
import { toolPolicies } from "../core/policy_words.js";
import { plural, visible } from "../core/text.js";

const STEPS = [
  [
    "It works",
    "Reads run at once. The timeline shows every model call and tool call as it happens.",
    [
      ["work", 0, 40],
      ["tool", 42, 20],
      ["work", 64, 18],
    ],
  ],
  [
    "It stops",
    "A call that needs approval waits for you, for minutes or for days, through restarts.",
    [
      ["work", 0, 28],
      ["wait", 30, 54],
    ],
  ],
  [
    "It goes on",
    "Approved calls are sent once, never twice. Rejected ones are never sent.",
    [
      ["wait", 0, 28],
      ["tool", 30, 26],
      ["work", 58, 28],
    ],
  ],
];

export function firstVisit(main, context) {
  const { agent } = context;
  const box = h("textarea", {
    rows: "3",
    "aria-label": "Message",
    placeholder: "Say what you want done",
    enterkeyhint: "send",
  });
  const start = h("button", { class: "btn primary", type: "submit" }, "Start", icon("send"));
  const problem = h("p", { class: "is-bad small", role: "alert", hidden: true });
  const form = h(
    "form",
    { class: "box big", onsubmit: submit },
    box,
    h("div", { class: "row box-foot" }, h("span", { class: "grow" }, toolsSentence(agent)), start),
  );
  let closed = false;

  box.value = outbox.draft("new");
  box.addEventListener("input", () => {
    outbox.keepDraft("new", box.value);
    problem.hidden = true;
  });
  sendOnEnter(box, form);

  function submit(event) {
    event.preventDefault();
    if (!box.value.trim() || start.disabled) return;
    outbox.keepFirst({ text: box.value, made: newKey(), key: newKey() });
    outbox.keepDraft("new", "");
    begin();
  }

  /** Both requests keep their keys over a reload, so neither takes effect twice. */
  async function begin() {
    const { text, made, key } = outbox.first();
    box.value = text;
    start.disabled = box.readOnly = true;
    start.replaceChildren("Starting…");
    try {
      const { conversation } = await post("/conversations", {}, { key: made });
      outbox.add(conversation.id, text, conversation.last_seq, key);
      outbox.keepFirst(null);
      const path = `/conversations/${encodeURIComponent(conversation.id)}`;
      if (!closed) return context.navigate(`#${path}`);
      // Another view is shown, so no composer sends it. If this fails, the composer of the conversation does.
      post(`${path}/messages`, { message: text }, { key, prefer: "respond-async" }).catch(() => {});
    } catch (error) {
      if (error.code !== "unreachable") outbox.keepFirst(null);
      outbox.keepDraft("new", text);
      problem.textContent = error.message;
      problem.hidden = false;
      start.disabled = box.readOnly = false;
      start.replaceChildren("Start", icon("send"));
    }
  }

  const { examples = [] } = agent;
  main.append(
    h(
      "header",
      { class: "top" },
      h(
        "a",
        { class: "btn quiet icon only-narrow", href: "#/conversations", "aria-label": "Conversations" },
        icon("menu"),
      ),
      h("h1", {}, "New conversation"),
    ),
    h(
      "div",
      { class: "scroll" },
      h(
        "div",
        { class: "hero" },
        h(
          "div",
          { class: "stack" },
          h("h2", { class: "hero-title" }, `What should ${visible(agent.name || "the agent")} do?`),
          h("p", { class: "lead" }, lead(agent)),
        ),
        h("div", { class: "stack" }, form, problem),
        examples.length > 0 &&
          h(
            "section",
            { class: "stack" },
            h("h2", { class: "label" }, "Or try"),
            examples.map((text) =>
              h("button", { class: "example", type: "button", onclick: () => use(text) }, visible(text)),
            ),
          ),
        h(
          "div",
          { class: "how" },
          STEPS.map(([title, text, bars]) =>
            h("section", {}, picture(bars), h("h3", {}, title), h("p", {}, text)),
          ),
        ),
      ),
    ),
  );

  function use(text) {
    box.value = text;
    outbox.keepDraft("new", text);
    box.focus();
  }

  const begun = Boolean(outbox.first());
  if (begun) begin();
  return {
    close: () => (closed = true),
    // On a phone, the keyboard would cover the page.
    first: !begun && matchMedia("(min-width: 821px)").matches && box,
  };
}

function lead(agent) {
  const what = (agent.description ?? "").trim();
  const free = Number(agent.unapproved ?? 0);
  const before = free ? "calls that need your approval" : "anything that may do harm";
  const which = `${plural(free, "tool")} that may do harm ${free === 1 ? "runs" : "run"}`;
  const but = free ? ` ${which} without asking.` : "";
  const stops =
    `It works on its own, stops before ${before}, and asks you here.${but} ` +
    "You see what it wants to run, with which arguments, and why it asks.";
  return what ? `${visible(what)}${/[.!?]$/.test(what) ? "" : "."} ${stops}` : stops;
}

/** "3 servers, 9 tools: 4 ask, 4 run, 1 is denied", by node where the nodes of a tree differ. */
function toolsSentence({ tools = [], servers = [] }) {
  if (!tools.length) return servers.length ? plural(servers.length, "server") : "";
  const all = [servers.length && plural(servers.length, "server"), plural(tools.length, "tool")]
    .filter(Boolean)
    .join(", ");
  return `${all}: ${toolPolicies(tools)}`;
}

function picture(bars) {
  return svg(
    "svg",
    { class: "bars", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    bars.map(([kind, x, width]) => [
      svg("rect", { class: kind, x, y: 0.5, width, height: 7, rx: 1 }),
      kind === "wait" &&
        Array.from({ length: Math.floor(width / 4) - 1 }, (_, index) =>
          svg("path", { class: "hatch", d: `M${x + 2 + index * 4} 6.5l3-5` }),
        ),
    ]),
  );
}
