// The banner while the agent is halted.

import { get } from "../core/api.js";
import { h, icon } from "../core/dom.js";
import { visible } from "../core/text.js";
import { timeElement } from "../core/times.js";

/** A bar that is shown while the agent is halted, with the reason, the time and the person. */
export function haltNotice(place, { live, announce }) {
  let reads = 0;
  function draw(halt) {
    if (!halt.halted) {
      if (place.firstChild) announce("The agent is no longer halted.");
      return void place.replaceChildren();
    }
    const by = halt.by ? ` by ${visible(halt.by)}` : "";
    const words = [
      h("strong", {}, "The agent is halted"),
      halt.reason ? `: ${visible(halt.reason)}` : "",
      " (since ",
      timeElement(halt.at),
      `${by}). Calls that must not be repeated wait. `,
      "You can reject them now, and approve them after the halt.",
    ];
    place.replaceChildren(h("div", { class: "banner bad" }, icon("stop"), h("p", { class: "grow" }, words)));
  }
  async function read() {
    const turn = ++reads;
    try {
      const halt = await get("/halt");
      if (turn === reads) draw(halt);
    } catch {
      // An older agent cannot be halted. After a lost connection, "again" repeats this reading.
    }
  }
  live.addEventListener("again", read);
  live.addEventListener("halt", ({ detail }) => {
    reads += 1;
    draw(detail);
  });
}
