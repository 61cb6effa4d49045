// The details of the selected bar, under the waterfall. Texts of models, tools and people are plain text.

import { h, icon } from "../core/dom.js";
import { factsOf, KIND_NAMES, stateWord } from "./facts.js";
import { sentMessages } from "./sent_messages.js";
import { bounded, field, jsonBlock, resultParts, textBlock } from "./value_block.js";
import { took } from "./call_text.js";
import { stringify } from "../core/exact_json.js";
import { visible } from "../core/text.js";

/** `show(bars)` shows one bar, or lists several that were drawn as one. `link(key)`: the address of a bar. */
export function detail({ feed, spans, link, select, close, zoom, announce }) {
  const head = h("header", { class: "detail-head" }),
    body = h("div", { class: "detail-body" });
  const element = h("aside", { class: "detail", "aria-label": "Details", hidden: true }, head, body);
  let shown = null;

  /** Redraws only changed bars, so that open sections and selected text stay. */
  function show(bars) {
    const [bar] = bars;
    const look =
      bars.length > 1
        ? `${bars.length} ${bar.id} ${bars.at(-1).id}`
        : `${bar.id} ${bar.word} ${bar.live} ${bar.stream?.attempt ?? ""} ${bar.progress?.progress ?? ""}`;
    element.hidden = false;
    if (look === shown) return live(bar);
    const again = shown?.startsWith(`${bar.id} `);
    shown = look;
    const inside =
      element.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
    head.replaceChildren(...(bars.length > 1 ? severalHead(bars) : oneHead(bar)));
    body.replaceChildren(...(bars.length > 1 ? [stepList(bars)] : contentOf(bar)));
    if (!again) body.scrollTop = 0;
    if (inside)
      [...head.querySelectorAll("button")]
        .find((each) => each.getAttribute("aria-label") === inside)
        ?.focus();
  }

  function live(bar) {
    if (!bar.live) return;
    const time = body.querySelector("[data-live]");
    if (time) time.textContent = took((bar.to - bar.from) / 1000);
    const written = body.querySelector("[data-stream]");
    if (written && bar.stream) written.textContent = visible(bar.stream.text);
  }

  function hide() {
    shown = null;
    element.hidden = true;
  }

  const closer = () =>
    h(
      "button",
      { class: "btn quiet icon", type: "button", "aria-label": "Close details", onclick: close },
      icon("x"),
    );

  function oneHead(bar) {
    const copy = h(
      "button",
      { class: "btn quiet icon", type: "button", "aria-label": "Copy link to this step", onclick: copyLink },
      icon("link"),
    );
    async function copyLink() {
      const address = new URL(link(bar.id), location.href).href;
      try {
        await navigator.clipboard.writeText(address);
        announce("The link is copied.");
        copy.replaceChildren(icon("check"));
        setTimeout(() => copy.replaceChildren(icon("link")), 1500);
      } catch {
        history.replaceState(null, "", link(bar.id));
        announce("The browser did not allow copying. The link is in the address bar.");
      }
    }
    const [tone, word] = stateWord(bar);
    return [
      h("h2", { class: bar.kind === "wait" ? "ellipsis" : "ellipsis mono" }, titleOf(bar)),
      h("span", { class: `pill ${tone}` }, word),
      h("span", { class: "faint small ellipsis" }, `${KIND_NAMES[bar.kind]} of ${visible(bar.node)}`),
      h("span", { class: "grow" }),
      copy,
      closer(),
    ];
  }

  function severalHead(bars) {
    const around = () => zoom(bars[0].from, Math.max(...bars.map((bar) => bar.to)));
    return [
      h("h2", {}, `${bars.length.toLocaleString()} steps`),
      h("span", { class: "faint small ellipsis" }, "too close together to show separately"),
      h("span", { class: "grow" }),
      h("button", { class: "btn", type: "button", onclick: around }, "Zoom in"),
      closer(),
    ];
  }

  function stepList(bars) {
    const list = h("ol", { class: "steps" }),
      more = h("button", { class: "btn quiet", type: "button", onclick: add });
    let next = 0;
    function add() {
      for (const bar of bars.slice(next, next + 100)) {
        const [tone, word] = stateWord(bar);
        list.append(
          h(
            "li",
            {},
            h(
              "button",
              { class: "step", type: "button", onclick: () => select(bar.id) },
              h("span", { class: `swatch ${bar.failed ? "failed" : bar.kind}` }),
              h("span", { class: "mono ellipsis grow" }, titleOf(bar)),
              h("span", { class: `small ${tone === "bad" ? "is-bad" : "faint"}` }, word),
              h("span", { class: "small faint num" }, took((bar.to - bar.from) / 1000)),
            ),
          ),
        );
      }
      next += 100;
      more.hidden = next >= bars.length;
      more.textContent = `Show ${Math.min(100, bars.length - next)} more`;
    }
    add();
    return h("div", { class: "stack" }, list, more);
  }

  function contentOf(bar) {
    const facts = h(
      "dl",
      { class: "facts" },
      factsOf(bar).map(([name, value, mark]) =>
        h("div", {}, h("dt", {}, name), h("dd", mark ? { [mark]: true } : {}, value)),
      ),
    );
    const kinds = { model: modelContent, tool: toolContent, wait: waitContent };
    return [facts, ...kinds[bar.kind](bar)];
  }

  function modelContent(bar) {
    const parts = [],
      reply = bar.frame?.body;
    for (const hop of bar.hops ?? []) {
      const status = hop.status ? ` (status ${hop.status})` : "";
      parts.push(
        h(
          "p",
          { class: "said bad" },
          h("b", {}, visible(hop.model)),
          ` failed${status}: ${visible(hop.message)}`,
        ),
      );
    }
    if (reply?.error && !bar.hops?.length)
      parts.push(h("p", { class: "said bad" }, visible(reply.error.message)));
    if (bar.stream)
      parts.push(
        field(
          "Reply so far",
          h("pre", { class: "code wrap", "data-stream": true }, visible(bar.stream.text)),
        ),
      );
    if (reply?.text) parts.push(field("Reply", bounded(visible(reply.text))));
    const calls = (reply?.tool_calls ?? []).map((call, index) =>
      h(
        "div",
        { class: "stack" },
        h(
          "button",
          { class: "step", type: "button", onclick: () => select(`${bar.key}.${index}`) },
          icon("tool"),
          h("span", { class: "mono" }, visible(call.name)),
          h("span", { class: "grow" }),
          h("span", { class: "small faint" }, "Show the call"),
        ),
        jsonBlock(call.arguments),
      ),
    );
    if (calls.length)
      parts.push(field(calls.length === 1 ? "Tool call" : `${calls.length} tool calls`, calls));
    parts.push(sent(bar));
    return parts;
  }

  /** The messages are rebuilt only when this is opened: a long conversation has many. */
  function sent(bar) {
    const made = h(
      "details",
      { class: "sent" },
      h("summary", {}, icon("chev", "chev"), "Messages sent to the model"),
    );
    made.addEventListener("toggle", () => {
      if (!made.open || made.children.length > 1) return;
      const messages = sentMessages(feed.events, bar, spans.turns);
      made.append(
        h(
          "p",
          { class: "small muted" },
          "Rebuilt from the events. Tool descriptions, the values of variables in the prompt, and texts " +
            "that were shortened to fit the model's context are not recorded.",
        ),
        h("ol", { class: "messages" }, messages.map(messageItem)),
      );
    });
    return made;
  }

  function messageItem({ role, text, name, calls }) {
    return h(
      "li",
      {},
      h("span", { class: "label" }, name ? `${role}, ${visible(name)}` : role),
      h(
        "div",
        { class: "stack" },
        text && bounded(visible(text)),
        (calls ?? []).map((call) => bounded(visible(`${call.name}(${stringify(call.arguments)})`))),
      ),
    );
  }

  function toolContent(bar) {
    const { started, ended } = bar,
      result = ended?.body.result,
      parts = [];
    if (bar.progress) {
      const { progress, total, message } = bar.progress;
      parts.push(
        h(
          "p",
          { class: "small muted" },
          `Progress: ${progress}${total ? ` of ${total}` : ""}${message ? `, ${visible(message)}` : ""}`,
        ),
      );
    }
    if (ended?.body.reason)
      parts.push(h("p", { class: "said bad" }, `The outcome is unknown: ${visible(ended.body.reason)}`));
    const asked = feed.events.filter(
      ({ type, body }) => type === "approval.requested" && body.key === bar.key,
    );
    for (const { body } of asked) parts.push(approvalLink(body.id, "A person was asked about this call."));
    const given = started ? started.body.arguments : bar.call?.arguments;
    const { text, data } = resultParts(result ?? { content: ended?.body.content });
    parts.push(
      h(
        "div",
        { class: "two" },
        given === undefined ? null : field("Arguments", jsonBlock(given)),
        text === undefined && data === undefined
          ? field(
              "Result",
              h("p", { class: "small muted" }, bar.live ? "The call still runs." : "No result was recorded."),
            )
          : field(
              bar.failed ? "Error" : "Result",
              text !== undefined && textBlock(text),
              data !== undefined && jsonBlock(data),
            ),
      ),
    );
    return parts;
  }

  function waitContent(bar) {
    const { asked, answered, auth } = bar;
    if (auth) {
      const { server, status, challenge } = auth.body;
      return [
        h(
          "p",
          {},
          `The server ${visible(server)} needs a bearer token${status ? ` (it answered ${status})` : ""}.`,
        ),
        challenge && field("Challenge", bounded(visible(challenge))),
      ].filter(Boolean);
    }
    const { body } = asked,
      decision = answered?.body.decision ?? {};
    const parts = [
      field("Question", bounded(visible(body.message ?? body.description ?? ""))),
      approvalLink(body.id, bar.live ? "Waiting for a decision." : ""),
    ];
    if (decision.reason) parts.push(field("Reason", bounded(visible(decision.reason))));
    if (answered?.body.reason)
      parts.push(field("Reason for the withdrawal", bounded(visible(answered.body.reason))));
    const values = [];
    if (Object.keys(body.tool_args ?? {}).length) values.push(field("Arguments", jsonBlock(body.tool_args)));
    const given = decision.arguments ?? decision.content;
    if (given) values.push(field(decision.arguments ? "Approved with" : "Answer", jsonBlock(given)));
    if (decision.result) values.push(field("Result reported by a person", bounded(visible(decision.result))));
    if (values.length) parts.push(h("div", { class: "two" }, values));
    return parts;
  }

  const approvalLink = (id, text) =>
    h(
      "p",
      { class: "row wrap small" },
      text,
      h("a", { href: `#/approvals/${encodeURIComponent(id)}` }, "Open the approval"),
    );

  return { element, show, hide };
}

function titleOf(bar) {
  if (bar.kind === "wait") return bar.asked ? visible(bar.asked.body.tool_name ?? bar.node) : "Bearer token";
  return bar.kind === "model" && bar.live ? visible(bar.stream?.model ?? "model") : visible(bar.label);
}
