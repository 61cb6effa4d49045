// The agent's own page: its parts and how they are, its runs, its tools with the reasons, and its configuration.

import { ApiError, get, post } from "./api.js";
import { agentCards, modelTable, serverCards, treeList, troubled } from "./agent_parts.js";
import { usagePlot } from "./agent_plot.js";
import { days, dollars, runs, STATES, sums } from "./agent_runs.js";
import { toolTable } from "./agent_tools.js";
import { h, icon } from "./dom.js";
import { stringify } from "./exact_json.js";
import { ago, count, duration, timeElement } from "./times.js";
import { plural, visible } from "./text.js";

const EVERY = 10_000; // milliseconds between looks at the health
const LATER = 2000; // after the end of a run, for several may end together
const READ = 200; // conversations
const FEW = 8; // runs that are shown at first
const UNTITLED = "Without a title";

export function show(main, route, context) {
  const page = new AgentPage(main, context);
  page.begin();
  return page;
}

class AgentPage {
  #context;
  #parts = new Map();
  #shown = new Map(); // what each part was made of, so that one that is the same is left alone
  #opened = new Set();
  #plot = usagePlot();
  #agent;
  #health = null;
  #list = null;
  #problem = null;
  #all = false;
  #gone = new AbortController();
  #timer;
  #soon;

  constructor(main, context) {
    this.#context = context;
    this.#agent = context.agent;
    const part = (name, tag = "div", attributes = {}) => {
      this.#parts.set(name, h(tag, attributes));
      return this.#parts.get(name);
    };
    main.append(
      h("header", { class: "top" }, h("h1", {}, "Agent"), h("span", { class: "grow" }), part("since", "span", { class: "small faint ellipsis" })),
      h("div", { class: "scroll" }, h("div", { class: "agent-page" },
        h("section", { class: "stack" }, part("head"), part("stats", "dl", { class: "agent-stats" })),
        part("attention", "section", { class: "stack", "aria-live": "polite" }),
        part("servers", "section"),
        part("agents", "section"),
        h("div", { class: "agent-split" },
          part("runs", "section"),
          h("section", {}, heading("Use of models", "14 days, by the day a conversation began"), this.#plot.element)),
        part("tools", "section"),
        h("div", { class: "agent-split" },
          h("div", { class: "agent-page-part" }, part("models", "section"), part("tree", "section")),
          part("config", "section")))));
  }

  begin() {
    this.#draw();
    this.#read();
    this.#look();
    this.#timer = setInterval(() => this.#look(), EVERY);
    const options = { signal: this.#gone.signal };
    document.addEventListener("visibilitychange", () => this.#look(), options);
    this.#context.live?.addEventListener("frames", ({ detail }) => {
      if (detail.some(({ type }) => type.startsWith("run.") || type.startsWith("approval."))) this.#readSoon();
    }, options);
    this.#context.live?.addEventListener("again", () => this.#readSoon(), options);
  }

  close() {
    this.#gone.abort();
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
  }

  // ---------------------------------------------------------------- reading

  #readSoon() {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#read();
    }, LATER);
  }

  /** The health, while somebody looks; a server whose state has changed may have other tools. */
  async #look() {
    if (document.hidden) return;
    const before = this.#health && stringify(this.#health);
    await this.#try(async (signal) => {
      this.#health = await get("/health/ready", signal);
      if (before !== stringify(this.#health)) this.#agent = await get("/page/agent", signal);
    });
  }

  #read() {
    return this.#try(async (signal) => (this.#list = await get(`/conversations?limit=${READ}`, signal)));
  }

  async #try(read) {
    try {
      await read(this.#gone.signal);
      this.#problem = null;
    } catch (error) {
      if (!(error instanceof ApiError)) return;
      this.#problem = error.message;
    }
    if (!this.#gone.signal.aborted) this.#draw();
  }

  async #accept(tool, held, line) {
    try {
      await post(`/tools/${encodeURIComponent(tool.name)}/accept`, { hash: held.hash });
      this.#context.announce(`Accepted. What ${held.tool} says of itself now counts.`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      line.replaceChildren(visible(`${error.message}${error.hint ? ` ${error.hint}` : ""}`));
      return;
    }
    await this.#try(async (signal) => (this.#agent = await get("/page/agent", signal)));
  }

  // ---------------------------------------------------------------- drawing

  #draw() {
    const agent = this.#agent, health = this.#health, list = this.#list?.conversations ?? null;
    this.#part("since", [agent.file, agent.started_at], () => sinceLine(agent));
    this.#part("head", [agent.name, agent.description, agent.version], () => [
      h("h2", { class: "agent-title" }, visible(agent.name)),
      agent.description && h("p", { class: "muted" }, visible(agent.description))]);
    this.#part("attention", [agent.tools, agent.warnings, health?.status, this.#problem, agent.file_changed], () => this.#attention());
    this.#part("servers", [agent.servers, health?.mcp_servers], () => agent.servers?.length && [
      heading("Servers", attentionWords(health?.mcp_servers)), serverCards(agent.servers, health?.mcp_servers ?? [])]);
    this.#part("agents", [health?.agents, agent.tree], () => health?.agents && [
      heading("Other agents", attentionWords(health.agents)), agentCards(health.agents, agent.tree ?? {})]);
    this.#part("tools", [agent.tools, agent.servers], () => [
      heading("Tools", agent.tools.length ? `${plural(agent.tools.length, "tool")}, the first rule that fits decides` : ""),
      agent.tools.length ? toolTable(agent, this.#opened) : h("p", { class: "muted" }, "The agent has no tools.")]);
    this.#part("models", [agent.models, health?.models], () => agent.models?.length && [
      heading("Models"), modelTable(agent.models, health?.models ?? [])]);
    this.#part("tree", [agent.tree], () => agent.tree?.children && [heading("Nodes"), h("div", { class: "block agent-pad" }, treeList(agent.tree))]);
    this.#part("config", [agent.config, agent.file, agent.file_changed], () => configuration(agent));
    this.#part("stats", [list], () => list && stats(sums(list)));
    this.#part("runs", [list, this.#all, Math.floor(Date.now() / 60_000)], () => this.#runs(list));
    if (list) this.#plot.update(days(list));
  }

  /** Makes a part anew if what it shows has changed; the focus stays where it was. */
  #part(name, from, make) {
    const made = stringify(from.map((each) => each ?? null)), element = this.#parts.get(name);
    if (this.#shown.get(name) === made) return;
    this.#shown.set(name, made);
    const focus = element.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
    const children = [make()].flat().filter(Boolean);
    element.replaceChildren(...children);
    element.hidden = !children.length;
    if (focus) element.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
  }

  #attention() {
    const agent = this.#agent, notes = [];
    if (this.#problem) notes.push(note("bad", visible(this.#problem)));
    if (this.#health?.status === "not_ready") notes.push(note("bad", "The agent is not ready: a server it requires is not connected, or it is stopping."));
    for (const tool of agent.tools) for (const held of tool.held ?? []) notes.push(this.#heldNote(tool, held));
    for (const warning of agent.warnings ?? []) notes.push(note("wait", visible(warning)));
    if (agent.file_changed) {
      notes.push(note("wait", "The agent file has changed since the agent started. Restart the agent to use it."));
    }
    return notes;
  }

  #heldNote(tool, held) {
    const line = h("p", { class: "is-bad", role: "alert" });
    return note("wait",
      h("b", {}, visible(held.tool)), tool.server ? ` of ${visible(tool.server)} ` : " ",
      "now says less of itself than before: ", h("b", {}, visible(held.change)), ". The stricter hints count until you accept this.",
      line,
      h("p", {}, h("button", {
        class: "btn", type: "button", "data-focus": `accept ${tool.name} ${held.tool}`,
        onclick: () => this.#accept(tool, held, line),
      }, icon("check"), "Accept the new hints")));
  }

  #runs(list) {
    if (!list) return [heading("Runs"), h("div", { class: "skeleton" }, h("i"), h("i"), h("i"))];
    const found = runs(list), shown = this.#all ? found : found.slice(0, FEW);
    const total = Number(this.#list.summary.total);
    if (!found.length) return [heading("Runs"), h("p", { class: "muted" }, "No runs yet. ", h("a", { href: "#/" }, "Begin a conversation"))];
    return [
      heading("Runs, failures first", total > READ ? `the last of each of the newest ${READ} conversations` : "the last of each conversation"),
      h("div", { class: "block agent-wrap" }, h("table", { class: "agent-table agent-runs" },
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Conversation"), h("th", { scope: "col" }, "State"),
          h("th", { scope: "col", class: "num wide" }, "When"), h("th", { scope: "col", class: "num wide" }, "Tokens"),
          h("th", { scope: "col", class: "num" }, "Cost"))),
        h("tbody", {}, shown.map(runRow)))),
      found.length > FEW && h("button", {
        class: "btn quiet", type: "button", "data-focus": "all runs", "aria-expanded": String(this.#all),
        onclick: () => {
          this.#all = !this.#all;
          this.#draw();
        },
      }, this.#all ? "Show fewer" : `Show all ${count(found.length)}`)];
  }
}

function runRow(run) {
  const [tone, word] = STATES[run.state] ?? ["ring", run.state];
  const said = run.state === "failed" && run.code ? h("code", {}, visible(run.code))
    : run.state === "waiting" && run.pending ? `waits, ${count(run.pending)}` : word;
  const when = timeElement(run.at);
  when.textContent = ago(run.at);
  return h("tr", {},
    h("td", { class: "agent-run" }, h("span", { class: "row" }, h("span", { class: `dot ${tone}` }),
      h("a", { href: `#/conversations/${run.id}`, class: "ellipsis", "data-focus": run.id }, visible(run.title) || UNTITLED))),
    h("td", { class: ["bad", "wait", "live"].includes(tone) ? `is-${tone} nowrap` : "muted nowrap" }, said),
    h("td", { class: "num faint wide" }, when),
    h("td", { class: "num wide" }, count(run.tokens)),
    h("td", { class: "num" }, run.cost === undefined ? h("span", { class: "faint" }, "unknown") : dollars(run.cost)));
}

function stats(sum) {
  const stat = (name, value, more) => h("div", {}, h("dt", {}, name), h("dd", {}, value, more && h("small", {}, ` ${more}`)));
  const percent = sum.runs ? `${((100 * sum.failed) / sum.runs).toFixed(1)} %` : "";
  const settled = [sum.rejected && `${count(sum.rejected)} rejected`, sum.expired && `${count(sum.expired)} expired`].filter(Boolean);
  return [
    stat("Conversations", count(sum.runs)),
    stat("Failed in the end", count(sum.failed), sum.failed ? percent : ""),
    stat("Approvals", count(sum.approvals), settled.join(", ")),
    sum.wait !== null && stat("Median wait for a person", duration(sum.wait)),
    stat("Tokens", count(sum.tokens)),
    sum.cost !== null && stat("Cost", dollars(sum.cost), sum.runs && sum.cost ? `${dollars(sum.cost / sum.runs)} each` : ""),
  ].filter(Boolean);
}

function configuration(agent) {
  if (!agent.file) return [heading("Configuration"), h("p", { class: "muted" }, "A program configured this agent; there is no file.")];
  if (!agent.config) {
    return [heading("Configuration", visible(agent.file)),
      h("p", { class: "muted" }, "The file has changed since the agent started, so it is not what counts.")];
  }
  return [heading("Configuration", `${visible(agent.file)}, without secrets`),
    h("pre", { class: "code agent-config", tabindex: 0, "aria-label": "Configuration" }, yamlLines(agent.config))];
}

/** YAML with its keys set apart from its values. */
function yamlLines(text) {
  return visible(text.trimEnd()).split("\n").map((line, at) => {
    const [, key, rest] = /^(\s*(?:- )?[\w.-]+:)(.*)$/.exec(line) ?? [null, "", line];
    return [at ? "\n" : "", key && h("span", { class: "key" }, key), rest];
  });
}

function sinceLine(agent) {
  if (!agent.started_at) return [];
  return [agent.file ? `${visible(agent.file)}, running since ` : "running since ", timeElement(agent.started_at)];
}

const attentionWords = (parts = []) => {
  const number = troubled(parts).length;
  return number ? `${number} ${number === 1 ? "needs" : "need"} attention` : "";
};

const heading = (text, aside = "") =>
  h("div", { class: "agent-heading" }, h("h2", {}, text), aside && h("span", { class: "small faint" }, aside));

const note = (tone, ...content) => h("div", { class: `agent-note ${tone}` }, icon("alert"), h("div", {}, content));
