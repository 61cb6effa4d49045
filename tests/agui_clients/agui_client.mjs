// A small client of AG-UI for the terminal, made with @ag-ui/client.
//
//     node agui_client.mjs URL THREAD MESSAGE
//
// It prints text as it streams, and asks about each interrupt: `y`, `n`, or other arguments as JSON.
// STOPGO_NPM_DIR is where the package is installed; without that variable, an `import` finds it beside a program.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const require = createRequire(join(process.env.STOPGO_NPM_DIR, 'package.json'));
const { HttpAgent, buildResumeArray } = require('@ag-ui/client');

const [url, threadId, text] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function answer(interrupt) {
  process.stdout.write(`${interrupt.message}\n(y/n/arguments) `);
  const said = (await lines.next()).value;
  const payload = { approved: said !== 'n' };
  if (said !== 'y' && said !== 'n') payload.editedArgs = JSON.parse(said);
  return { status: 'resolved', payload };
}

const agent = new HttpAgent({ url: `${url}/agui`, threadId });
agent.subscribe({
  onTextMessageContentEvent: ({ event }) => void process.stdout.write(event.delta),
  onTextMessageEndEvent: () => console.log(),
  onToolCallResultEvent: ({ event }) => console.log(`result: ${event.content}`),
  onRunErrorEvent: ({ event }) => {
    console.error(event.message);
    process.exitCode = 1;
  },
});

agent.addMessage({ id: crypto.randomUUID(), role: 'user', content: text });
await agent.runAgent();
while (agent.pendingInterrupts.length > 0) {
  const answers = {};
  for (const each of agent.pendingInterrupts) answers[each.id] = await answer(each);
  await agent.runAgent({ resume: buildResumeArray(agent.pendingInterrupts, answers) });
}
process.stdin.destroy();
