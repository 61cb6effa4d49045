// Statistics of the list of conversations: runs with failures first, sums, days. Pure.

const ORDER = ["failed", "auth_required", "waiting", "running", "cancelled", "finished"];
const DAY = 86_400_000;

export const STATES = {
  failed: ["bad", "failed"],
  auth_required: ["wait", "needs a token"],
  waiting: ["wait", "waits for a person"],
  running: ["live", "working"],
  cancelled: ["ring", "cancelled"],
  finished: ["ring", "finished"],
};

/** The last run of each conversation: failures, waiting runs, others; in each group the newest first. */
export function runs(conversations) {
  return conversations
    .filter((each) => each.run)
    .map((each) => ({
      id: each.id,
      title: each.title,
      state: each.run.state,
      code: each.run.code,
      pending: each.pending_approvals.length,
      at: each.updated_at,
      tokens: tokensOf(each),
      cost: each.usage.cost_usd,
    }))
    .sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || b.at.localeCompare(a.at));
}

/** Sums over the conversations; an unknown median or cost is null. */
export function sums(conversations) {
  const approvals = conversations.flatMap((each) => each.approvals);
  const waits = approvals
    .filter((each) => each.decision)
    .map((each) => (Date.parse(each.decision.decided_at) - Date.parse(each.created_at)) / 1000)
    .sort((a, b) => a - b);
  const costs = conversations.map((each) => each.usage.cost_usd).filter(known);
  const all = conversations.filter((each) => each.run);
  return {
    runs: all.length,
    failed: all.filter((each) => each.run.state === "failed").length,
    approvals: approvals.length,
    rejected: approvals.filter((each) => each.decision?.approved === false).length,
    expired: approvals.filter((each) => each.state === "expired").length,
    wait: waits.length ? waits[Math.floor((waits.length - 1) / 2)] : null,
    cost: costs.length ? costs.reduce((sum, each) => sum + Number(each), 0) : null,
    tokens: conversations.reduce((sum, each) => sum + tokensOf(each), 0),
  };
}

/** One entry per day, today last: the usage of the conversations that began on that day. */
export function days(conversations, number = 14, now = new Date()) {
  const noon = new Date(now.getFullYear(), now.getMonth(), now.getDate(), 12).getTime();
  const found = new Map();
  for (let back = number - 1; back >= 0; back--) {
    const date = new Date(noon - back * DAY);
    found.set(date.toDateString(), { date, cost: 0, input: 0, output: 0, conversations: 0 });
  }
  for (const { created_at, usage } of conversations) {
    const day = found.get(new Date(created_at).toDateString());
    if (!day) continue;
    day.conversations += 1;
    day.cost += known(usage.cost_usd) ? Number(usage.cost_usd) : 0;
    day.input += Number(usage.input_tokens);
    day.output += Number(usage.output_tokens);
  }
  return [...found.values()];
}

/** Round values of an axis from 0 to at least `most`, in at most four steps. */
export function ticks(most) {
  if (!(most > 0)) return [0, 1];
  const rough = most / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * (1 - 1e-9));
  const made = [0];
  while (made.at(-1) < most * (1 - 1e-9)) made.push(made.length * step);
  return made;
}

const tokensOf = ({ usage }) => Number(usage.input_tokens) + Number(usage.output_tokens);

const known = (value) => value !== undefined && value !== null;
