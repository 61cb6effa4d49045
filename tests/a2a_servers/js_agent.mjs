// An agent made with @a2a-js/sdk that does what the text of a message says: the counterpart of sdk_agent.py, which
// says how.
//
//     node js_agent.mjs LEDGER [--version 1.0|0.3] [--binding JSONRPC|HTTP+JSON] [--no-streaming] [--port PORT]
//
// STOPGO_NPM_DIR is where the package is installed: node looks for packages only above the file itself.

import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

const require = createRequire(join(process.env.STOPGO_NPM_DIR, 'package.json'));
const express = require('express');
const types = require('@a2a-js/sdk');
const server = require('@a2a-js/sdk/server');
const { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } = require('@a2a-js/sdk/server/express');

const { values: chosen, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    version: { type: 'string', default: '1.0' },
    binding: { type: 'string', default: 'JSONRPC' },
    'no-streaming': { type: 'boolean', default: false },
    port: { type: 'string', default: '0' },
  },
});
const note = (line) => appendFileSync(positionals[0], `${JSON.stringify(line)}\n`);

const ITEMS = {
  i1: { tool: 'rm', arguments: { path: '/x' }, description: 'Remove /x' },
  i2: { tool: 'mv', arguments: { from: '/y', to: '/z' }, description: 'Move /y to /z' },
};
const QUESTIONS = { ask: ['May I?'], 'ask twice': ['May I?', 'Really?'] };
const FILES = {
  text: { text: 'a text' },
  file: {
    raw: Buffer.from(Array.from({ length: 256 }, (_, n) => n)).toString('base64'),
    filename: 'bytes.bin',
    mediaType: 'application/octet-stream',
  },
  data: { data: { rows: [1, 2, 3] } },
  link: { url: 'https://files.example/a.pdf', filename: 'a.pdf', mediaType: 'application/pdf' },
};

const textOf = (message) =>
  message.parts
    .filter((part) => 'text' in part)
    .map((part) => part.text)
    .join(' ')
    .trim();

// The first decision on each of the items.
function decisionsIn(messages) {
  const found = {};
  for (const { data } of messages.flatMap((message) => message.parts))
    if (data?.id in ITEMS && typeof data.approved === 'boolean') found[data.id] ??= data.approved;
  return found;
}

// What one message makes of a task.
class Turn {
  constructor(bus, taskId, contextId, stopped) {
    Object.assign(this, { bus, ids: { taskId, contextId }, stopped });
  }

  // Events are told as A2A 1.0 writes them.
  publish(event) {
    const { payload } = types.StreamResponse.fromJSON(event);
    this.bus.publish({ kind: payload.$case, data: payload.value });
  }

  message(...parts) {
    return { messageId: randomUUID(), role: 'ROLE_AGENT', ...this.ids, parts };
  }

  status(state, ...parts) {
    const status = { state: `TASK_STATE_${state}`, timestamp: new Date().toISOString() };
    if (parts.length) status.message = this.message(...parts);
    this.publish({ statusUpdate: { ...this.ids, status } });
  }

  artifact(part, name = '') {
    this.publish({ artifactUpdate: { ...this.ids, artifact: { artifactId: randomUUID(), name, parts: [part] } } });
  }

  complete(text) {
    this.artifact({ text });
    this.status('COMPLETED');
  }

  async go(words, answers, decided, bearer) {
    const [word, rest] = words.split(/ (.*)/s);
    if (word === 'echo') this.complete(`echo: ${rest ?? ''}`);
    else if (words === 'ask items') this.askItems(decided);
    else if (words in QUESTIONS) this.ask(QUESTIONS[words], answers);
    else if (words === 'login') {
      if (bearer === 'Bearer good') this.complete('hello good');
      else this.status('AUTH_REQUIRED', { text: 'login at https://idp.example' });
    } else if (words === 'file') {
      for (const [name, part] of Object.entries(FILES)) this.artifact(part, name);
      this.status('COMPLETED');
    } else if (word === 'slow') await this.work(Number(rest));
    else if (words === 'reject') this.status('REJECTED', { text: 'I will not' });
    else this.status('FAILED', { text: words === 'fail' ? 'it broke' : `what is '${words}'?` });
  }

  ask(questions, answers) {
    if (answers.some((answer) => answer !== 'approved')) this.complete('not done');
    else if (answers.length === questions.length) this.complete('done');
    else this.status('INPUT_REQUIRED', { text: questions[answers.length] });
  }

  askItems(decided) {
    const pending = Object.entries(ITEMS)
      .filter(([id]) => !(id in decided))
      .map(([id, item]) => ({ id, kind: 'tool', ...item }));
    if (pending.length) this.status('INPUT_REQUIRED', { text: 'May I do these?' }, { data: { pending } });
    else {
      const told = Object.keys(ITEMS).map((id) => `${id} ${decided[id] ? 'approved' : 'rejected'}`);
      this.complete(told.join(', '));
    }
  }

  async work(seconds) {
    const half = () => sleep(seconds * 500, undefined, { signal: this.stopped });
    this.status('WORKING');
    try {
      await half();
      this.status('WORKING', { text: 'half of it is over' });
      await half();
    } catch (error) {
      if (error.name !== 'AbortError') throw error;
      return; // whoever cancelled it says so
    }
    this.complete('slow: all of it is over');
  }
}

class Scripted {
  tasks = new Map();

  async execute({ task, userMessage, taskId, contextId, context }, bus) {
    const stop = new AbortController();
    const turn = new Turn(bus, taskId, contextId, stop.signal);
    const messages = [...(task?.history ?? []), userMessage].map((each) => types.Message.toJSON(each));
    const said = [...new Map(messages.map((each) => [each.messageId, each])).values()].filter(
      (each) => each.role === 'ROLE_USER',
    );
    const words = textOf(said[0]);
    if (words.startsWith('say ')) {
      turn.publish({ message: turn.message({ text: `say: ${words.slice(4)}` }) });
      return;
    }
    this.tasks.set(taskId, { contextId, stop });
    // The SDK wants a task first, also when there is one, in a state that does not end the stream.
    const state = task ? 'TASK_STATE_WORKING' : 'TASK_STATE_SUBMITTED';
    turn.publish({ task: { id: taskId, contextId, status: { state }, history: messages } });
    const bearer = context.state.get(server.STATE_HEADERS_KEY).authorization;
    await turn.go(words, said.slice(1).map(textOf), decisionsIn(said), bearer);
  }

  async cancelTask(taskId, bus) {
    const { contextId, stop } = this.tasks.get(taskId);
    note({ cancelled: taskId });
    stop.abort();
    new Turn(bus, taskId, contextId).status('CANCELED');
  }
}

const app = express();
const listening = app.listen(Number(chosen.port), '127.0.0.1', () => {
  const url = `http://127.0.0.1:${listening.address().port}`;
  const path = { JSONRPC: '/a2a', 'HTTP+JSON': '/rest' }[chosen.binding];
  const card = types.AgentCard.fromJSON({
    name: 'js-agent',
    description: 'Does what it is told',
    version: '1.0.0',
    supportedInterfaces: [
      { url: url + path, protocolBinding: chosen.binding, protocolVersion: chosen.version },
    ],
    capabilities: { streaming: !chosen['no-streaming'] },
    defaultInputModes: ['text/plain', 'application/json'],
    defaultOutputModes: ['text/plain', 'application/json', 'application/octet-stream'],
    skills: [{ id: 'script', name: 'Script', description: 'Does what it is told', tags: ['test'] }],
  });
  const requestHandler = new server.DefaultRequestHandler(card, new server.InMemoryTaskStore(), new Scripted());
  const legacyCompat = { enabled: chosen.version === '0.3' };
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication, legacyCompat };

  // The SDK leaves a body alone that has been read.
  app.use(express.raw({ type: () => true, limit: '10mb' }), (req, _res, next) => {
    const text = req.body?.length ? req.body.toString() : null;
    try {
      req.body = text && JSON.parse(text);
    } catch {
      req.body = text;
    }
    note({ method: req.method, path: req.originalUrl.split('?')[0], headers: req.headers, body: req.body });
    req.body ??= undefined;
    next();
  });
  app.use(
    '/.well-known/agent-card.json',
    agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }),
  );
  app.use(path, chosen.binding === 'JSONRPC' ? jsonRpcHandler(options) : restHandler(options));
  console.log(JSON.stringify({ url }));
});
