// The items of a chat, folded from events: messages, replies with their tool calls, approvals, ends of runs.
// Pure and incremental: each frame is read once.

import { groupOf } from "../approval/approval_text.js";
import { nodeOf } from "../core/keys.js";
import { attachedAddresses, pictureAddresses } from "./pictures.js";

const ENDS = { "run.finished": "finished", "run.failed": "failed", "run.cancelled": "cancelled" };
const OPEN = new Set(["writing", "requested", "waiting", "running"]);

/** `items` only grows, and each item keeps its `id`. `take` returns the changed and new items.
 *
 * Kinds of items: "message" (text, pictures, queued), "reply" (node, parts: texts and calls in order),
 * "approval" (uuid, state, more: those of the same tool that were asked while it waited), "auth" (server,
 * open), "failure" (code, message), "cancelled", "answer" (text), "completed". */
export class ChatLog {
  items = [];
  pending = []; // approvals without an end, the oldest first
  title = "";
  seq = 0;
  run = null; // {state, at, ended, code}
  completed = null; // the time
  root = null; // the tree of the last run
  usage = { input: 0, output: 0, cost: null };
  approvals = 0;
  auth = null; // the last item of that kind
  #nodes = new Map(); // open replies by key of the node
  #delegated = new Set(); // keys of nodes that stand for another agent
  #texts = new Map(); // text parts by key of the model call
  #calls = new Map(); // tool calls by key
  #owners = new Map(); // items by text part or call
  #byUuid = new Map(); // approvals, and the items that they belong to
  #groups = new Map(); // the newest item of each group of approvals
  #byCommand = new Map(); // messages
  #said = []; // texts of the current turn
  #failed = null; // key of the step that failed first
  #changed = new Set();

  take({ events = [], deltas = [] }) {
    this.#changed = new Set();
    for (const event of events) {
      this.seq = event.seq;
      this.#event(event, event.body ?? {});
    }
    for (const frame of deltas) this.#delta(frame);
    return this.#changed;
  }

  /** The id of the item that shows an approval. */
  itemOf(uuid) {
    return this.#byUuid.get(uuid)?.item.id;
  }

  get messages() {
    return this.items.filter(({ kind }) => kind === "message");
  }

  #event(event, body) {
    const { type, at } = event;
    if (type === "message.added") this.#message(event, body);
    else if (type === "run.started") this.#started(body, at);
    else if (type === "run.resumed") this.#state("running");
    else if (type === "run.waiting") this.#state("waiting");
    else if (type === "run.auth_required") this.#wants(event, body);
    else if (type === "step.finished") this.#step(body, at);
    else if (type.startsWith("tool.")) this.#tool(type, body, at);
    else if (type === "approval.requested") this.#asked(event, body);
    else if (type.startsWith("approval.") && type !== "approval.voted") this.#answered(type, body);
    else if (Object.hasOwn(ENDS, type)) this.#end(event, body);
    else if (type === "conversation.completed") {
      this.completed = at;
      this.#add({ id: `e${event.seq}`, kind: "completed", at });
    }
  }

  #message(event, body) {
    const text = String(body.text ?? "");
    this.title ||= text.replace(/\s+/g, " ").trim().slice(0, 200);
    const open = this.run && !this.run.ended;
    const item = this.#add({
      id: `e${event.seq}`,
      kind: "message",
      text,
      pictures: attachedAddresses(body.pictures),
      at: event.at,
      seq: event.seq,
      queued: Boolean(open),
    });
    this.#byCommand.set(body.command, item);
  }

  #started(body, at) {
    this.run = { state: "running", at, ended: null };
    this.root = body.tree ?? this.root;
    this.#said = [];
    this.#failed = null;
    const message = this.#byCommand.get(body.command);
    if (message?.queued) {
      message.queued = false;
      this.#changed.add(message);
    }
  }

  #state(state) {
    if (!this.run) return;
    this.run.state = state;
    if (state === "running") this.#closeAuth();
  }

  #wants(event, body) {
    this.#state("auth_required");
    this.#closeAuth();
    const { run, server, status, challenge } = body;
    const again = Boolean(this.auth && this.auth.run === run && this.auth.server === server);
    this.auth = this.#add({
      id: `e${event.seq}`,
      kind: "auth",
      at: event.at,
      run,
      server,
      status,
      challenge,
      again,
      open: true,
    });
    this.#nodes.clear(); // later replies come below the card
  }

  #closeAuth() {
    if (!this.auth?.open) return;
    this.auth.open = false;
    this.#changed.add(this.auth);
  }

  #step(body, at) {
    const { key, kind, node } = body;
    if (body.usage) this.#use(body.usage);
    if (body.error) this.#failed ??= key; // the innermost step is recorded first
    if (kind === "model") {
      const part = this.#text(key, node, at);
      Object.assign(part, {
        live: false,
        text: body.text ?? "",
        error: body.error ?? null,
      });
      if (part.text.trim()) this.#said.push(part.text.trim());
      (body.tool_calls ?? []).forEach((call, index) =>
        this.#call(`${key}.${index}`, node, at, call, "requested"),
      );
      this.#dropWriting(key, body.tool_calls?.length ?? 0);
    } else if (kind === "call") {
      const call = this.#call(key, node, at);
      Object.assign(call, { state: body.outcome, result: body.content });
      this.#touch(call);
    } else if (kind === "delegation") {
      this.#delegated.add(nodeOf(key));
    } else if (kind === "node" && this.#delegated.has(key) && body.end?.text) {
      const part = this.#text(`${key}:end`, node, at);
      Object.assign(part, { live: false, text: body.end.text });
      this.#said.push(body.end.text.trim());
    }
  }

  #use(usage) {
    this.usage.input += Number(usage.input_tokens ?? 0);
    this.usage.output += Number(usage.output_tokens ?? 0);
    if (usage.cost_usd !== undefined && usage.cost_usd !== null)
      this.usage.cost = (this.usage.cost ?? 0) + Number(usage.cost_usd);
  }

  #tool(type, body, at) {
    const call = this.#call(body.key, body.node, at);
    if (type === "tool.started") {
      Object.assign(call, {
        state: "running",
        tool: call.facade ? call.tool : body.tool,
        server: body.server,
        arguments: body.arguments,
        began: at,
        progress: null,
      });
      if (body.facade) Object.assign(call, { facade: body.facade, tool: body.tool });
    } else if (type === "tool.finished") {
      this.#took(call, at);
      if (body.need) call.state = "waiting";
      else {
        call.state = body.rejected ? "rejected" : body.result?.is_error ? "failed" : "done";
        call.result = body.result?.content ?? "";
        call.pictures = pictureAddresses(body.result?.parts);
      }
    } else if (type === "tool.unknown") {
      this.#took(call, at);
      Object.assign(call, { state: "unknown", result: body.reason });
    }
    this.#touch(call);
  }

  #took(call, at) {
    if (call.began) call.seconds = (call.seconds ?? 0) + (new Date(at) - new Date(call.began)) / 1000;
    call.progress = null;
  }

  #asked(event, body) {
    this.approvals += 1;
    const one = {
      uuid: body.id,
      at: event.at,
      state: "pending",
      tool: body.tool_name,
      tool_args: body.tool_args,
      key: body.key,
      decision: null,
      body,
    };
    const group = groupOf({ ...body, state: "pending" });
    let item = group && this.#groups.get(group);
    if (item && [item, ...item.more].some(({ state }) => state === "pending")) {
      item.more.push(one);
      this.#changed.add(item);
    } else {
      item = this.#add({ id: `a${body.id}`, kind: "approval", ...one, more: [] });
      this.#groups.set(group, item);
    }
    this.#byUuid.set(body.id, { one: item.uuid === body.id ? item : one, item });
    this.pending = [...this.pending, body.id];
    const call = this.#calls.get(body.key);
    if (call) {
      call.state = "waiting";
      this.#touch(call);
    }
    // Later replies of the node come below the card.
    for (const [key, reply] of this.#nodes) if (reply.node === body.node) this.#nodes.delete(key);
  }

  #answered(type, body) {
    const found = this.#byUuid.get(body.id);
    this.pending = this.pending.filter((uuid) => uuid !== body.id);
    if (!found) return;
    const { one, item } = found,
      decision = body.decision ?? null;
    Object.assign(one, {
      state: { resolved: "decided", void: "void", expired: "expired" }[type.slice(9)],
      decision,
    });
    this.#changed.add(item);
    const call = this.#calls.get(one.key);
    if (!call || call.state !== "waiting") return;
    if (one.state === "expired") call.state = "expired";
    else if (decision?.action === "respond") call.state = "answered";
    else if (one.state === "decided") call.state = decision?.approved === false ? "rejected" : "requested";
    this.#touch(call);
  }

  #end(event, body) {
    const state = ENDS[event.type];
    if (this.run) Object.assign(this.run, { state, ended: event.at, code: body.code });
    this.#closeAuth();
    this.#stopWriting(event.at);
    if (state === "failed")
      this.#add({
        id: `e${event.seq}`,
        kind: "failure",
        at: event.at,
        code: body.code,
        message: body.message,
        key: this.#failed,
      });
    else if (state === "cancelled") this.#add({ id: `e${event.seq}`, kind: "cancelled", at: event.at });
    else if (body.text?.trim() && !this.#said.some((text) => body.text.includes(text))) {
      this.#add({ id: `e${event.seq}`, kind: "answer", at: event.at, text: body.text });
    }
    this.#nodes.clear();
    this.#delegated.clear();
    this.#groups.clear();
  }

  #stopWriting(at) {
    for (const part of this.#texts.values()) {
      if (!part.live) continue;
      part.live = false;
      this.#owners.get(part).at ??= at;
      this.#touch(part);
    }
    for (const [key, call] of this.#calls) {
      if (call.state === "writing") this.#remove(key, call);
      else if (OPEN.has(call.state)) call.state = "cancelled";
      else continue;
      this.#touch(call);
    }
    this.#texts.clear();
    this.#calls.clear();
  }

  #delta(frame) {
    const { key, node, attempt } = frame;
    if (frame.type === "tool.progress") {
      const call = this.#calls.get(key);
      if (call?.state !== "running") return;
      call.progress = {
        done: Number(frame.progress),
        total: frame.total && Number(frame.total),
        message: frame.message,
      };
      this.#touch(call);
      return;
    }
    if (frame.type !== "model.delta" || !this.run || this.run.ended) return;
    const known = this.#texts.get(key);
    if (known && (!known.live || attempt < known.attempt)) return;
    const part = this.#text(key, node, null);
    if (attempt > part.attempt) {
      if (part.attempt) this.#dropWriting(key, 0);
      Object.assign(part, { attempt, text: "" });
    }
    // A client that joined late lacks the first pieces: the text then begins within a sentence.
    if (frame.text && !part.text) part.partial = /^[\s\p{Ll}\p{P}]/u.test(frame.text);
    if (frame.text) part.text += frame.text;
    if (frame.call) this.#call(`${key}.${frame.call.index}`, node, null, frame.call, "writing");
    this.#touch(part);
  }

  /** Removes calls that a model began to generate and did not finish. */
  #dropWriting(key, kept) {
    for (let index = kept; this.#calls.get(`${key}.${index}`)?.state === "writing"; index += 1) {
      this.#remove(`${key}.${index}`, this.#calls.get(`${key}.${index}`));
    }
  }

  #remove(key, call) {
    const item = this.#owners.get(call);
    for (const part of item?.parts ?? [])
      if (part.calls) part.calls = part.calls.filter((one) => one !== call);
    this.#calls.delete(key);
  }

  #reply(nodeKey, node, at) {
    let item = this.#nodes.get(nodeKey);
    if (item) {
      item.at ??= at;
      return item;
    }
    item = this.#add({ id: `r${this.items.length}:${nodeKey}`, kind: "reply", node, at, parts: [] });
    this.#nodes.set(nodeKey, item);
    return item;
  }

  #text(key, node, at) {
    let part = this.#texts.get(key);
    if (!part) {
      part = { id: key, text: "", live: true, attempt: 0 };
      this.#owners.set(part, this.#reply(nodeOf(key), node, at));
      this.#owners.get(part).parts.push(part);
      this.#texts.set(key, part);
    }
    this.#owners.get(part).at ??= at;
    this.#touch(part);
    return part;
  }

  #call(key, node, at, proposed, state) {
    let call = this.#calls.get(key);
    if (!call) {
      call = { key, tool: "", arguments: null, state: state ?? "requested", result: null, seconds: null };
      const item = this.#reply(nodeOf(key), node ?? "", at);
      this.#owners.set(call, item);
      if (!item.parts.at(-1)?.calls) item.parts.push({ id: `${key}+`, calls: [] });
      item.parts.at(-1).calls.push(call);
      this.#calls.set(key, call);
    }
    if (proposed)
      Object.assign(call, {
        tool: proposed.name ?? call.tool,
        arguments: proposed.arguments ?? call.arguments,
        state,
      });
    this.#touch(call);
    return call;
  }

  #touch(part) {
    const item = this.#owners.get(part);
    if (item) this.#changed.add(item);
  }

  #add(item) {
    this.items.push(item);
    this.#changed.add(item);
    return item;
  }
}
