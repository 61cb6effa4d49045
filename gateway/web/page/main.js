// The frame of the page: the view for the address, the context that all views share, and the keys.

import { announce } from "./core/announce.js";
import { get, readSession } from "./core/api.js";
import { ApprovalsStore } from "./approval/approvals_store.js";
import { access, setKey } from "./core/credentials.js";
import { h } from "./core/dom.js";
import { haltNotice } from "./shell/halt_notice.js";
import { onKeys } from "./shell/shortcuts.js";
import { Live } from "./core/live.js";
import { connectionNotice, notifyOfApprovals } from "./shell/notices.js";
import { places, sidebar } from "./shell/sidebar.js";
import { noRole, signIn } from "./shell/sign_in.js";
import { visible } from "./core/text.js";

const VIEWS = {
  "": () => import("./chat/conversation_view.js"),
  conversations: () => import("./chat/conversation_view.js"),
  inbox: () => import("./inbox/inbox.js"),
  approvals: () => import("./inbox/inbox.js"),
  agent: () => import("./agent/agent.js"),
};
const TITLES = {
  "": "New conversation",
  conversations: "Conversations",
  inbox: "Inbox",
  approvals: "Inbox",
  agent: "Agent",
};

const app = document.getElementById("app");
const main = document.getElementById("main");
const live = new Live();
const approvals = new ApprovalsStore(live);
const context = {
  agent: { name: "", tools: [], servers: [], models: [] },
  approvals,
  live,
  navigate,
  announce,
  setTitle,
  side: null,
};
let view = null,
  shown = 0,
  title = "",
  checking = null;

function navigate(hash) {
  const address = hash.startsWith("#") ? hash : `#${hash}`;
  if (location.hash === address) route();
  else location.hash = address;
}

function setTitle(text = title) {
  title = text;
  const waiting = approvals.pending.length;
  document.title = `${waiting ? `(${waiting}) ` : ""}${visible(title)}`;
}

/** The path and the query of the address. */
function parsed() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function route() {
  const wanted = parsed();
  const place = wanted.path[0] ?? "";
  app.dataset.place = place === "conversations" && wanted.path.length === 1 ? "list" : place || "new";
  context.side.show(wanted);
  bottom.show(wanted);
  if (view?.place === place && view.update?.(wanted)) return;
  const turn = ++shown;
  const focused = document.activeElement;
  view?.close?.();
  view = null;
  main.replaceChildren();
  main.className = "main";
  const known = Object.hasOwn(VIEWS, place);
  setTitle(known ? TITLES[place] : "Not found");
  if (!known) return void main.append(unknown());
  let made;
  try {
    const module = await VIEWS[place]();
    if (turn !== shown) return; // the address has changed meanwhile
    made = await module.show(main, wanted, context);
  } catch (error) {
    console.error(error);
    if (turn === shown) main.replaceChildren(unloaded());
    return;
  }
  if (turn !== shown) return void made?.close?.();
  view = Object.assign(made ?? {}, { place });
  // A person may have moved the focus while the view was loaded.
  const taken = document.activeElement;
  if (view.first && [focused, document.body].includes(taken)) view.first.focus({ preventScroll: true });
  else if (taken === document.body) main.focus({ preventScroll: true });
}

const unknown = () =>
  h(
    "div",
    { class: "empty" },
    h("h2", {}, "There is nothing at this address"),
    h("a", { href: "#/" }, "Begin a conversation"),
  );

const unloaded = () =>
  h(
    "div",
    { class: "empty" },
    h("h2", {}, "This part of the page did not load"),
    h("p", {}, "The agent may be restarting. Nothing is lost."),
    h("button", { class: "btn", type: "button", onclick: () => location.reload() }, "Load again"),
  );

/** The answer of `GET /session`; null, and the view to sign in, without a valid credential. */
async function signedIn() {
  try {
    return await readSession();
  } catch (error) {
    if (error.status !== 401) return {}; // the agent is away, or has no such route
    close();
    setKey(null); // it would take precedence over a login
    signIn(main, (await get("/page/sign-in")).ways);
    return null;
  }
}

/** Leaves only `main`, for views of people who may not use the agent. */
function close() {
  shown += 1;
  view?.close?.();
  view = null;
  live.close();
  window.removeEventListener("hashchange", route);
  app.dataset.place = "closed";
  setTitle("Sign in");
}

async function checkSession() {
  checking ??= signedIn().finally(() => (checking = null));
}

async function begin() {
  const description = get("/page/agent").catch(() => ({ ...context.agent, name: "The agent" }));
  const session = await signedIn();
  if (!session) return;
  if (session.subject && !session.roles.length) {
    close();
    return void noRole(main, session);
  }
  // A page cannot see why a websocket was refused.
  if (session.subject) live.addEventListener("ended", checkSession);
  access.addEventListener("refused", checkSession);
  haltNotice(document.getElementById("halt"), context);
  live.connect();
  connectionNotice(document.getElementById("notices"), context);
  notifyOfApprovals(context);
  onKeys(context, () => view?.keys ?? {});
  window.addEventListener("hashchange", route);
  context.agent = await description;
  context.side.update(session);
  await route();
}

const bottom = places(document.getElementById("bottom"), context);
context.side = sidebar(document.getElementById("side"), context);
approvals.addEventListener("change", () => setTitle());
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

// The rest takes seconds if the agent is away, and the frame does not need it.
context.side.show(parsed());
bottom.show(parsed());
main.append(h("div", { class: "skeleton", "aria-hidden": "true" }, h("i"), h("i"), h("i")));
await begin();
