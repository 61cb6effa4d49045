// stub
import { h } from "./dom.js";
export function show(main, route, context) {
  main.append(h("header", { class: "top" }, h("h1", {}, "New conversation")));
  return { close() {} };
}
