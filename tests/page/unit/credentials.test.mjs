// The credentials that requests and websockets of the page carry.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { get, post, readSession, remove, useToken } from "../../../gateway/web/page/core/api.js";
import { access, setKey, setSession } from "../../../gateway/web/page/core/credentials.js";
import { Link } from "../../../gateway/web/page/core/feed.js";

let answers, sent, sockets, reloads;

globalThis.location = { reload: () => (reloads += 1) };
globalThis.fetch = async (path, { method, headers }) => {
  sent.push({ path, method, headers });
  const [status, body] = answers.shift() ?? [200, {}];
  return { ok: status < 400, status, text: async () => JSON.stringify(body) };
};
globalThis.WebSocket = class {
  constructor(path) {
    sockets.push(path);
  }
  close() {}
};

beforeEach(() => {
  setKey(null);
  useToken(null);
  setSession({});
  [answers, sent, sockets, reloads] = [[], [], [], 0];
});

const settled = () => new Promise((resolve) => setTimeout(resolve, 0));
const headers = () => sent.map(({ headers }) => headers);

test("without authentication, a token for tools is the only credential", async () => {
  useToken("T");
  await get("/tools");
  const link = new Link(() => "/events/ws", () => {}, () => {});
  assert.deepEqual(headers(), [{ Authorization: "Bearer T" }]);
  assert.deepEqual(sockets, ["events/ws"]); // at once, without a ticket
  link.close();
});

test("an API key is sent with each request, and websockets get a ticket", async () => {
  setKey("sg_1_x");
  useToken("T");
  setSession({ subject: "ci", roles: ["operator"] });
  await get("/tools");
  assert.deepEqual(headers(), [{ "X-API-Key": "sg_1_x", "X-Tool-Authorization": "Bearer T" }]);
  answers = [[200, { ticket: "t/1", expires_in: 30 }]];
  const link = new Link(() => "/events/ws?type=run.*", () => {}, () => {});
  await settled();
  assert.equal(sent[1].path, "ticket");
  assert.deepEqual(sockets, ["events/ws?type=run.*&ticket=t%2F1"]);
  link.close();
});

test("a link that was closed meanwhile opens no websocket, and one without a ticket tries again", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const states = [];
  setKey("sg_1_x");
  answers = [
    [200, { ticket: "a" }],
    [401, { code: "unauthenticated" }],
    [200, { ticket: "b" }],
  ];
  const closed = new Link(() => "/events/ws", () => {}, () => {});
  closed.close();
  const link = new Link(() => "/events/ws", () => {}, (state) => states.push(state));
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([sockets, states], [[], ["lost"]]);
  context.mock.timers.tick(1000);
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(sockets, ["events/ws?ticket=b"]);
  link.close();
});

test("changes of a session carry its CSRF token, reads do not", async () => {
  answers = [[200, { subject: "alice", roles: [], csrf: "c1" }]];
  await readSession();
  await get("/tools");
  await post("/conversations", {}, { key: "k" });
  await remove("/conversations/1");
  assert.deepEqual(
    headers().map((each) => each["X-CSRF-Token"]),
    [undefined, undefined, "c1", "c1"],
  );
});

test("after a login in another tab, a change is repeated with the new CSRF token", async () => {
  setSession({ subject: "alice", roles: [], csrf: "c1" });
  answers = [
    [403, { code: "invalid_csrf_token" }],
    [200, { subject: "alice", roles: [], csrf: "c2" }],
    [200, { done: true }],
  ];
  assert.deepEqual(await post("/conversations", {}, { key: "k" }), { done: true });
  assert.deepEqual(
    sent.map(({ path, headers }) => [path, headers["X-CSRF-Token"], headers["Idempotency-Key"]]),
    [
      ["conversations", "c1", "k"],
      ["session", undefined, undefined],
      ["conversations", "c2", "k"],
    ],
  );
  assert.equal(reloads, 0);
});

test("a change is not made as another person", async () => {
  setSession({ subject: "alice", roles: [], csrf: "c1" });
  answers = [
    [403, { code: "invalid_csrf_token" }],
    [200, { subject: "mallory", roles: [], csrf: "c2" }],
  ];
  await assert.rejects(post("/conversations", {}, { key: "k" }), { code: "invalid_csrf_token" });
  assert.equal(sent.length, 2);
  assert.equal(reloads, 1);
});

test("a credential that is refused is announced once for each request, not for the session itself", async () => {
  let refused = 0;
  access.addEventListener("refused", () => (refused += 1));
  answers = [
    [401, { code: "unauthenticated" }],
    [401, { code: "unauthenticated" }],
  ];
  await assert.rejects(get("/tools"), { status: 401 });
  await assert.rejects(readSession(), { status: 401 });
  assert.equal(refused, 1);
});
