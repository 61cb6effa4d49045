// Messages that are being sent, kept over a reload: each is sent with the same idempotency key until the
// agent has answered.

import { newKey } from "../core/api.js";
import { tab } from "../core/storage.js";

const DRAFT = "draft:",
  SENT = "sent:";

const read = (name) => {
  try {
    return JSON.parse(tab.get(name));
  } catch {
    return null;
  }
};

const write = (name, value) => {
  if (value === null || value === "" || value.length === 0) tab.remove(name);
  else tab.set(name, JSON.stringify(value));
};

/** The draft. `id`: the conversation's, or "new". */
export const draft = (id) => read(DRAFT + id) ?? "";
export const keepDraft = (id, text) => write(DRAFT + id, text);

/** The messages of a conversation that are not in its log yet, the oldest first. */
export const entries = (id) => read(SENT + id) ?? [];

/** `after`: the last event at the time of writing. */
export function add(id, text, after, key = newKey()) {
  const entry = { key, text, after, at: new Date().toISOString(), state: "sending" };
  write(SENT + id, [...entries(id), entry]);
  return entry;
}

export function change(id, key, fields) {
  write(
    SENT + id,
    entries(id).map((entry) => (entry.key === key ? { ...entry, ...fields } : entry)),
  );
}

export function drop(id, key) {
  write(
    SENT + id,
    entries(id).filter((entry) => entry.key !== key),
  );
}

/** The first message of a conversation that does not exist yet. */
export const first = () => read("first");
export const keepFirst = (value) => write("first", value);

/** `entries` without those in the log: each message of the log stands for one entry with its text. */
export function unmatched(entries, messages) {
  const free = [...messages];
  return entries.filter((entry) => {
    const found = free.findIndex((message) => message.seq > entry.after && message.text === entry.text);
    if (found < 0) return true;
    free.splice(found, 1);
    return false;
  });
}
