// The notice of a lost connection, and notifications of new approvals for people who turned them on.

import { h, icon } from "../core/dom.js";
import { browser } from "../core/storage.js";
import { plural, visible } from "../core/text.js";
import { clock } from "../core/times.js";

const QUIET = 1500; // milliseconds without a connection before the page says so
const LONG = 15_000;
const WANTED = "notify of approvals";

/** A bar that is shown while the connection is lost, with its duration and the remedy. */
export function connectionNotice(place, { live, announce }) {
  let timer;
  function draw() {
    clearTimeout(timer);
    const lost = live.state !== "live" && Date.now() - live.since;
    if (lost === false) {
      if (place.firstChild) announce("Connected again.");
      place.replaceChildren();
      return;
    }
    if (lost >= QUIET) place.replaceChildren(bar(lost >= LONG));
    if (lost < LONG) timer = setTimeout(draw, (lost < QUIET ? QUIET : LONG) - lost + 10);
  }
  function bar(long) {
    const since = clock(live.since);
    const words = long
      ? [
          h("strong", {}, "No connection to the agent"),
          ` since ${since}. Check that it runs. What you typed is kept, and approvals stay as they are.`,
        ]
      : [
          h("strong", {}, "Reconnecting."),
          ` Shown as of ${since}. Nothing is lost, and what you send is tried again.`,
        ];
    return h(
      "div",
      { class: `banner${long ? " bad" : ""}` },
      icon(long ? "alert" : "load", long ? "" : "spin"),
      h("p", { class: "grow" }, words),
      h("button", { class: "btn", type: "button", onclick: () => live.retry() }, "Try now"),
    );
  }
  live.addEventListener("state", draw);
  draw();
}

export const canNotify = () => "Notification" in window && Notification.permission !== "denied";

export function notifying() {
  return canNotify() && Notification.permission === "granted" && browser.get(WANTED) === "yes";
}

/** Requests the browser's permission the first time; browsers require that a button calls this. */
export async function setNotifying(wanted) {
  const granted = wanted && (await Notification.requestPermission()) === "granted";
  browser.set(WANTED, granted ? "yes" : "no");
  return granted;
}

/** A notification for each new approval, if the person is somewhere else and wanted it. */
export function notifyOfApprovals({ approvals, navigate }) {
  let waiting = [];
  approvals.addEventListener("requested", ({ detail }) => {
    if (!notifying() || document.hasFocus()) return;
    if (!waiting.length) setTimeout(show, 300); // those of parallel branches come together
    waiting.push(detail);
  });
  function show() {
    const [first] = waiting;
    const one = waiting.length === 1;
    const title = one
      ? `${visible(first.tool_name || "A question")} waits for you`
      : `${plural(waiting.length, "approval")} wait for you`;
    waiting = [];
    const note = new Notification(title, { tag: one ? first.uuid : "approvals", icon: "page/icon.svg" });
    note.onclick = () => {
      window.focus();
      navigate(one ? `#/approvals/${first.uuid}` : "#/inbox");
    };
  }
}
