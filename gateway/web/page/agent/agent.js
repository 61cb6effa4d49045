// The page about the agent: its parts with their states, its runs, its tools, its configuration.

import { ApiError, get, post } from "../core/api.js";
import { agentCards, modelTable, serverCards, treeList, withProblems } from "./agent_parts.js";
import { usagePlot } from "./agent_plot.js";
import { runTable, stats } from "./agent_run_table.js";
import { days, runs, sums } from "./agent_runs.js";
import { agentTabs } from "./agent_tabs.js";
import { toolTable } from "./agent_tools.js";
import { codeBox } from "../core/code_box.js";
import { h, icon } from "../core/dom.js";
import { stringify } from "../core/exact_json.js";
import { count, timeElement } from "../core/times.js";
import { plural, visible } from "../core/text.js";

const EVERY = 10_000; // milliseconds between looks at the health
const LATER = 2000; // after a change of a run, because several often come together
const READ = 200; // conversations
const FEW = 8; // runs that are shown at first

export async function show(main, route, context) {
  if (route.path[1] === "policy") return (await import("./policy.js")).show(main, route, context);
  const page = new AgentPage(main, context);
  page.begin();
  return page;
}

class AgentPage {
  #context;
  #parts = new Map();
  #shown = new Map(); // the values of each part; the same values need no redrawing
  #opened = new Set(); // tools whose reasons are shown in full
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
    const part = (name, tag = "section", attributes = {}) => {
      this.#parts.set(name, h(tag, attributes));
      return this.#parts.get(name);
    };
    const noted = { class: "stack", "aria-label": "Needs attention", "aria-live": "polite" };
    const used = heading("Model usage", "14 days, by the day a conversation began");
    main.append(
      h("header", { class: "top" },
        h("h1", { class: "nowrap" }, "Agent"), agentTabs(""), h("span", { class: "grow" }),
        part("since", "span", { class: "small faint ellipsis" })),
      h("div", { class: "scroll" }, h("div", { class: "agent-page" },
        h("section", { class: "stack" }, part("head", "div"), part("stats", "dl", { class: "agent-stats" })),
        part("attention", "section", noted),
        part("servers"),
        part("agents"),
        h("div", { class: "agent-split" }, part("runs"), h("section", {}, used, this.#plot.element)),
        part("tools"),
        h("div", { class: "agent-split" },
          h("div", { class: "agent-page-part" }, part("models"), part("tree")),
          part("config")))));
  }

  begin() {
    this.#draw();
    this.#read();
    this.#look();
    this.#timer = setInterval(() => this.#look(), EVERY);
    const options = { signal: this.#gone.signal };
    document.addEventListener("visibilitychange", () => this.#look(), options);
    this.#context.live?.addEventListener("frames", ({ detail }) => {
      if (detail.some(({ type }) => /^(run|approval)\./.test(type))) this.#readSoon();
    }, options);
    this.#context.live?.addEventListener("again", () => this.#readSoon(), options);
  }

  close() {
    this.#gone.abort();
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
    this.#plot.close();
  }

  // ---------------------------------------------------------------- reading

  #readSoon() {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#read();
    }, LATER);
  }

  /** Reads the health while the page is visible, and the tools again when a server's state has changed. */
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
      if (error.name === "AbortError") return;
      if (!(error instanceof ApiError)) throw error;
      this.#problem = error.message;
    }
    if (!this.#gone.signal.aborted) this.#draw();
  }

  async #accept(tool, held, line) {
    let text = `Accepted. What ${visible(held.tool)} says of itself now counts.`;
    try {
      await post(`/tools/${encodeURIComponent(tool.name)}/accept`, { hash: held.hash });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      text = visible([error.message, error.hint].filter(Boolean).map(sentence).join(" "));
      line.replaceChildren(text);
    }
    this.#context.announce(text);
    await this.#try(async (signal) => (this.#agent = await get("/page/agent", signal)));
  }

  // ---------------------------------------------------------------- drawing

  #draw() {
    const agent = this.#agent, health = this.#health, list = this.#list?.conversations ?? null;
    const troubles = [agent.tools, agent.warnings, health?.status, this.#problem, agent.file_changed];
    const minute = Math.floor(Date.now() / 60_000); // for times such as "2 m"
    this.#part("since", [agent.file, agent.started_at], () => sinceLine(agent));
    this.#part("head", [agent.name, agent.description], () => titleOf(agent));
    this.#part("attention", troubles, () => this.#attention());
    const own = health?.mcp_servers ?? [];
    this.#part("servers", [agent.servers, own], () => servers(agent, own));
    this.#part("agents", [health?.agents, agent.tree], () => others(agent, health?.agents ?? []));
    this.#part("tools", [agent.tools, agent.servers], () => this.#tools());
    this.#part("models", [agent.models, health?.models], () => models(agent, health?.models ?? []));
    this.#part("tree", [agent.tree, agent.tools], () => nodes(agent));
    this.#part("config", [agent.config, agent.file, agent.file_changed], () => configuration(agent));
    this.#part("stats", [list], () => list && stats(sums(list)));
    this.#part("runs", [list, this.#all, minute], () => this.#runs(list));
    if (list) this.#plot.update(days(list));
  }

  /** Redraws a part if its values have changed; the focus stays where it was. */
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
    if (this.#health?.status === "not_ready") {
      notes.push(note("bad", "The agent is not ready: a server that it needs is away, or it is stopping."));
    }
    for (const tool of agent.tools) {
      for (const held of tool.held ?? []) notes.push(this.#heldNote(tool, held));
    }
    for (const warning of agent.warnings ?? []) notes.push(note("wait", visible(warning)));
    if (agent.file_changed) {
      notes.push(note("wait", "The agent file has changed. Restart the agent to use the new one."));
    }
    return notes;
  }

  #heldNote(tool, held) {
    const line = h("p", { class: "is-bad" });
    const button = h("button", {
      class: "btn", type: "button", "data-focus": `accept ${tool.name} ${held.tool}`,
      onclick: () => this.#accept(tool, held, line),
    }, icon("check"), "Accept the new hints");
    return note("wait",
      h("b", {}, visible(held.tool)), tool.server ? ` of ${visible(tool.server)}` : "",
      " now has weaker hints: ", h("b", {}, visible(held.change)),
      ". The stricter hints count until you accept the new ones.",
      line, h("p", {}, button));
  }

  #tools() {
    const agent = this.#agent;
    if (!agent.tools.length) return [heading("Tools"), h("p", { class: "muted" }, "The agent has no tools.")];
    const number = plural(agent.tools.length, "tool");
    return [heading("Tools", `${number}; the first rule that fits decides`), toolTable(agent, this.#opened)];
  }

  #runs(list) {
    if (!list) return [heading("Runs"), h("div", { class: "skeleton" }, h("i"), h("i"), h("i"))];
    const found = runs(list), shown = this.#all ? found : found.slice(0, FEW);
    if (!found.length) {
      const begin = h("a", { href: "#/" }, "Begin a conversation");
      return [heading("Runs"), h("p", { class: "muted" }, "No runs yet. ", begin)];
    }
    const part = Number(this.#list.summary.total) > READ;
    const aside = `the last of ${part ? `each of the newest ${READ} conversations` : "each conversation"}`;
    const more = h("button", {
      class: "btn quiet", type: "button", "data-focus": "all runs", "aria-expanded": String(this.#all),
      onclick: () => {
        this.#all = !this.#all;
        this.#draw();
      },
    }, this.#all ? "Show fewer" : `Show all ${count(found.length)}`);
    return [heading("Runs, failures first", aside), runTable(shown), found.length > FEW && more];
  }
}

// -------------------------------------------------------------------- pieces

function sinceLine(agent) {
  if (!agent.started_at) return [];
  const words = agent.file ? `${visible(agent.file)}, running since ` : "Running since ";
  return [words, timeElement(agent.started_at)];
}

function titleOf(agent) {
  return [
    h("h2", { class: "agent-title" }, visible(agent.name)),
    agent.description && h("p", { class: "muted" }, visible(agent.description)),
  ];
}

function servers(agent, health) {
  if (!agent.servers?.length) return [];
  return [heading("Servers", attentionWords(health)), serverCards(agent.servers, health)];
}

function others(agent, health) {
  if (!health.length) return [];
  return [heading("Other agents", attentionWords(health)), agentCards(health, agent.tree ?? {})];
}

function models(agent, health) {
  return agent.models?.length ? [heading("Models"), modelTable(agent.models, health)] : [];
}

function nodes({ tree, tools }) {
  if (!tree?.children) return [];
  return [heading("Nodes"), h("div", { class: "block agent-pad" }, treeList(tree, tools))];
}

function configuration({ file, config, file_changed: changed }) {
  const plain = (text) => h("p", { class: "muted" }, text);
  if (!file) return [heading("Configuration"), plain("A program configured this agent; there is no file.")];
  if (!config) {
    const other = "The file has changed since the agent started, so it is not what counts.";
    return [heading("Configuration", visible(file)), plain(changed ? other : "The file is empty.")];
  }
  const about = { class: "code agent-config", tabindex: 0, "aria-label": "Configuration" };
  const text = visible(config.trimEnd());
  const block = codeBox(h("pre", about, yamlLines(text)), text);
  return [heading("Configuration", `${visible(file)}, without secrets`), block];
}

/** YAML with highlighted keys. */
function yamlLines(text) {
  return text.split("\n").map((line, at) => {
    const [, key, rest] = /^(\s*(?:- )?[\w.-]+:)(.*)$/.exec(line) ?? [null, "", line];
    return [at ? "\n" : "", key && h("span", { class: "key" }, key), rest];
  });
}

const sentence = (text) => text.slice(0, 1).toUpperCase() + text.slice(1).replace(/(?<![.!?])$/, ".");

function attentionWords(parts) {
  const number = withProblems(parts).length;
  return number ? `${count(number)} ${number === 1 ? "needs" : "need"} attention` : "";
}

function heading(text, aside = "") {
  const said = aside && h("span", { class: "small faint" }, aside);
  return h("div", { class: "agent-heading" }, h("h2", {}, text), said);
}

function note(tone, ...content) {
  return h("div", { class: `agent-note ${tone}` }, icon("alert"), h("div", {}, content));
}
