// A server of the TypeScript SDK: `typescript_server.mjs stdio`, or `http PORT`, with sessions as in its examples.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

function make() {
  const server = new McpServer({ name: "notes", version: "1" });
  const inputSchema = { name: z.string() };
  const said = (text) => ({ content: [{ type: "text", text }] });
  server.registerTool("read_note", { inputSchema, annotations: { readOnlyHint: true } }, ({ name }) => said(`the text of ${name}`));
  server.registerTool("remove_note", { inputSchema, annotations: { destructiveHint: true } }, ({ name }) => said(`removed ${name}`));
  server.registerTool("read_broken_note", { inputSchema, annotations: { readOnlyHint: true } }, ({ name }) => {
    throw new Error(`${name} is broken`);
  });
  return server;
}

if (process.argv[2] === "stdio") {
  await make().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  createServer(async (request, response) => {
    const id = request.headers["mcp-session-id"];
    let transport = sessions.get(id);
    if (!transport && id) {
      response.writeHead(400, { "content-type": "application/json" });
      const error = { code: -32000, message: "Bad Request: No valid session ID provided" };
      response.end(JSON.stringify({ jsonrpc: "2.0", error, id: null }));
      return;
    }
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (session) => sessions.set(session, transport),
      });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  }).listen(Number(process.argv[3]), "127.0.0.1");
}
