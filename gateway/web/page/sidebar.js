// stub
import { h, icon } from "./dom.js";
const PLACES = [["#/", "Conversations", "chat"], ["#/inbox", "Inbox", "inbox"], ["#/agent", "Agent", "agent"]];
export function places(element, context) {
  element.append(...PLACES.map(([href, name, sign]) => h("a", { href }, icon(sign), name)));
  return { show() {} };
}
export function sidebar(element, context) {
  const nav = h("nav", { class: "places" });
  places(nav, context);
  element.append(nav);
  return { show() {}, update() {}, search() {}, move() { return false; } };
}
