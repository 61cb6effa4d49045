// The filters and the order of the inbox.

import { groupOf, KINDS, TOGETHER } from "../approval/approval_text.js";
import { h, setText } from "../core/dom.js";
import { visible } from "../core/text.js";

export const SORTS = { oldest: "Oldest first", newest: "Newest first", expiry: "Expiring first" };

/** `{element, show(filter, all, count)}`; `change` gets `{kind}`, `{tool}` or `{sort}`. */
export function filterBar(change) {
  const pick = (label, name) => {
    const made = h("select", { "aria-label": label, onchange: () => change({ [name]: made.value }) });
    return made;
  };
  const kind = pick("Kind", "kind");
  const tool = pick("Tool", "tool");
  const sort = pick("Order", "sort");
  const count = h("span", { class: "faint small" });
  const show = (filter, all, text) => {
    const names = [...new Set([...all.map(({ tool_name }) => tool_name).sort(), filter.tool])].filter(
      Boolean,
    );
    const tools = Object.fromEntries(names.map((name) => [name, visible(name)]));
    fillSelect(kind, { "": "All kinds", ...KINDS }, filter.kind);
    fillSelect(tool, { "": "All tools", ...tools }, filter.tool);
    fillSelect(sort, SORTS, filter.sort);
    setText(count, text);
  };
  return { element: h("div", { class: "inbox-filters" }, kind, tool, count, sort), show };
}

/** The approvals that pass a filter, in its order. Pure. */
export function filtered(all, { kind, tool, sort }) {
  const fits = (each) => (!kind || each.kind === kind) && (!tool || each.tool_name === tool);
  const time = (text) => (text ? Date.parse(text) : Infinity);
  const oldest = (a, b) => time(a.created_at) - time(b.created_at);
  const orders = {
    newest: (a, b) => oldest(b, a),
    expiry: (a, b) =>
      a.expires_at === b.expires_at ? oldest(a, b) : time(a.expires_at) < time(b.expires_at) ? -1 : 1,
  };
  return all.filter(fits).sort(orders[sort] ?? oldest);
}

/** The key of the approvals that are shown as one entry: those of one tool that wait in one conversation. */
export function gatherKey(approval) {
  const group = groupOf(approval);
  return group && `${approval.conversation_id} ${group}`;
}

/** The entries of the list: an approval, or, in the place of the first, many of one tool and conversation as
 * `{...first, together: [approval]}`. Pure. */
export function gathered(approvals) {
  const groups = new Map();
  for (const each of approvals) {
    const key = gatherKey(each);
    if (key && !groups.has(key)) groups.set(key, []);
    groups.get(key)?.push(each);
  }
  return approvals.flatMap((each) => {
    const group = groups.get(gatherKey(each)) ?? [];
    if (group.length < TOGETHER) return [each];
    return group[0] === each ? [{ ...each, together: group }] : [];
  });
}

function fillSelect(select, values, chosen = "") {
  const key = JSON.stringify(values);
  if (select.dataset.values !== key) {
    select.dataset.values = key;
    select.replaceChildren(...Object.entries(values).map(([value, label]) => h("option", { value }, label)));
  }
  select.value = chosen;
}
