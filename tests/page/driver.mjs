// Drives Chromium, told what to do line by line; `browser.py` writes the lines.
//
//     node driver.mjs [CHROMIUM]
//
// A line {"tab": NAME, "chain": [[METHOD, ...ARGUMENTS], ...]} calls methods of playwright, each on the result of the one
// before, and the first on the page; {"tab", "order", "given"} carries out one of `orders`. The answer is {"value"}, or
// {"error", "seen": what the page shows}. It ends when there are no more lines.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const require = createRequire(join(process.env.STOPGO_NPM_DIR, "package.json"));
const { chromium } = require("playwright-core");
const UPNG = require("upng-js");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const PATIENCE = Number(process.env.STOPGO_PAGE_PATIENCE ?? 60) * 1000; // milliseconds until what should be seen is missed
const browser = await chromium.launch({
  executablePath: process.argv[2] ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--no-proxy-server", "--font-render-hinting=none", "--host-resolver-rules=MAP *.test 127.0.0.1"],
});
const tabs = new Map(); // by name: {page, context, complaints}

/** A page must not reach elsewhere, ask by dialogs, or log errors: whatever does is a complaint. */
function watch(page, home, complaints) {
  const complain = (kind, text) => void complaints.push(`${kind}: ${text}`);
  const away = (address) => !address.startsWith(home) && !/^(data|blob|about):/.test(address);
  page.on("console", (message) => {
    if (["error", "warning", "assert"].includes(message.type())) complain("console", message.text());
  });
  page.on("pageerror", (error) => complain("exception", error.stack ?? String(error)));
  page.on("dialog", async (dialog) => {
    complain("dialog", `${dialog.type()} ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("request", (request) => void (away(request.url()) && complain("request", request.url())));
  page.on("websocket", (socket) => {
    const address = socket.url().replace(/^ws/, "http");
    if (away(address)) complain("websocket", socket.url());
  });
  page.on("popup", (popup) => complain("popup", popup.url()));
}

const orders = {
  async open(name, { home, beside, ...options }) {
    const context = beside ? tabs.get(beside).context : await browser.newContext(options);
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    const complaints = [];
    watch(page, home, complaints);
    tabs.set(name, { page, context, complaints });
  },
  async close(name) {
    const { page, context } = tabs.get(name);
    tabs.delete(name);
    // A route of a test may be fetching still: without this its error, that the page is closed, would end the driver.
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.close();
    if (![...tabs.values()].some((tab) => tab.context === context)) await context.close();
  },
  seen,
  complaints: (name) => tabs.get(name).complaints.splice(0),
  async axe(name) {
    const { page } = tabs.get(name);
    await page.evaluate(axe);
    const run = "axe.run(document, { resultTypes: ['violations'] })";
    const { violations } = await page.evaluate(run);
    return violations.map(({ id, impact, help, nodes }) => ({
      id,
      impact,
      help,
      nodes: nodes.map(({ html, failureSummary }) => `${html.slice(0, 300)} ${failureSummary}`),
    }));
  },
  async picture(name, path) {
    const { page } = tabs.get(name);
    const image = UPNG.decode(await page.screenshot({ animations: "disabled", caret: "hide" }));
    const colours = UPNG.encode(UPNG.toRGBA8(image), image.width, image.height, 128);
    require("node:fs").writeFileSync(path, Buffer.from(colours));
    return colours.byteLength;
  },
  /** The seconds of processor time that the page has taken since this was asked for first. */
  async worked(name) {
    const tab = tabs.get(name);
    if (!tab.session) {
      tab.session = await tab.context.newCDPSession(tab.page);
      await tab.session.send("Performance.enable", { timeDomain: "threadTicks" });
    }
    const { metrics } = await tab.session.send("Performance.getMetrics");
    const now = metrics.find((each) => each.name === "TaskDuration").value;
    return now - (tab.worked ??= now);
  },
  /** Keep the addresses of requests that contain a text. */
  keep(name, text) {
    const tab = tabs.get(name);
    tab.kept = [];
    tab.page.on("request", (request) => void (request.url().includes(text) && tab.kept.push(request.url())));
  },
  kept: (name) => tabs.get(name).kept,
  /** What a script says of the page: milliseconds, mostly. */
  measure: (name, script) => tabs.get(name).page.evaluate(script),
};

/** What JSON cannot say: regular expressions and functions. */
const revived = (value) => {
  if (value === null || typeof value !== "object") return value;
  if ("function" in value) return (0, eval)(value.function);
  if ("regex" in value) return new RegExp(value.regex, value.flags);
  if (Array.isArray(value)) return value.map(revived);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, revived(each)]));
};

async function follow(name, chain) {
  let at = tabs.get(name).page;
  for (const [method, ...given] of chain) {
    at = typeof at[method] === "function" ? await at[method](...revived(given)) : at[method];
  }
  return at === undefined || (at && typeof at === "object" && !Array.isArray(at)) ? null : at;
}

async function seen(name) {
  try {
    const { page, complaints } = tabs.get(name);
    const shown = page.locator("main, #notices");
    const texts = await Promise.all((await shown.all()).map((each) => each.ariaSnapshot({ timeout: 2000 })));
    return [page.url(), await page.title(), ...complaints, ...texts].join("\n");
  } catch (error) {
    return String(error);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { tab, order, given, chain } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await (order ? orders[order](tab, ...(given ?? [])) : follow(tab, chain))) ?? null };
  } catch (error) {
    answer = { error: String(error.message ?? error), seen: tab && tabs.has(tab) ? await seen(tab) : "" };
  }
  console.log(JSON.stringify(answer));
}
await browser.close();
