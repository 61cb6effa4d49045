// The client of @ag-ui/client, told what to do line by line. It is strict: it refuses a stream that the protocol
// does not allow, and warns of whatever it does not know.
//
//     node stock_client.mjs URL THREAD
//
// Each line is an order: {"say"?: text, "id"?: of the message, "resume"?: [...], "token"?: text, "forget"?: true}.
// Each answer has the types of the events, and what the client holds after the run.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const require = createRequire(join(process.env.STOPGO_NPM_DIR, 'package.json'));
const { HttpAgent } = require('@ag-ui/client');

const [url, threadId] = process.argv.slice(2);
const warnings = [];
console.warn = console.error = (...what) => warnings.push(what.map(String).join(' '));

const agent = new HttpAgent({ url: `${url}/agui`, threadId });
for await (const line of createInterface({ input: process.stdin })) {
  const { say, id, resume, token, forget } = JSON.parse(line);
  if (forget) agent.pendingInterrupts = [];
  agent.headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (say) agent.addMessage({ id: id ?? crypto.randomUUID(), role: 'user', content: say });
  const types = [];
  const told = { types, outcome: null, error: null };
  warnings.length = 0;
  try {
    await agent.runAgent(
      { resume },
      {
        onEvent: ({ event }) => void types.push(event.type),
        onRunFinishedEvent: ({ outcome }) => void (told.outcome = outcome),
        onRunErrorEvent: ({ event }) => void (told.error = event.code),
      },
    );
  } catch (error) {
    told.error = String(error);
  }
  const { messages, state, pendingInterrupts } = agent;
  console.log(JSON.stringify({ ...told, messages, state, interrupts: pendingInterrupts, warnings }));
}
