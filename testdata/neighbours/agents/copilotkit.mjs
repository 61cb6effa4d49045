// The runtime of CopilotKit with an agent of AG-UI, and the agent of its page: `ask URL WORDS...`. It is only a client.
import { createServer } from "node:http";
import { HttpAgent } from "@ag-ui/client";
import { ProxiedCopilotRuntimeAgent } from "@copilotkit/core";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

const [url, ...words] = process.argv.slice(3);
const runtime = new CopilotRuntime({ agents: { keeper: new HttpAgent({ url: `${url}/agui` }) } });
const server = createServer(createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" }));
await new Promise((done) => server.listen(process.env.PORT, "127.0.0.1", done));
const runtimeUrl = `http://127.0.0.1:${process.env.PORT}/api/copilotkit`;
const agent = new ProxiedCopilotRuntimeAgent({ runtimeUrl, agentId: "keeper", threadId: crypto.randomUUID() });
let interrupts = [];
for (const word of words) {
  const payload = { approved: word === "yes" };
  const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
  if (!interrupts.length) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: word });
  const before = agent.messages.length;
  let asked = [];
  await agent.runAgent(resume.length ? { resume } : {}, {
    onRunFinishedEvent: ({ event }) => void (asked = event.outcome?.interrupts ?? []),
    onRunErrorEvent: ({ event }) => void console.error(event),
  });
  interrupts = asked;
  const said = agent.messages.slice(before).filter(({ role }) => role === "assistant");
  const texts = [...said.map(({ content }) => content), ...asked.map(({ message }) => message)];
  console.log(JSON.stringify({ text: texts.filter(Boolean).join("\n") }));
}
process.exit(0);
