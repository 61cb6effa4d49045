// Times and amounts as people read them.

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });

/** The time of day of a date or of milliseconds: "09:05:00". */
export const clock = (at) => CLOCK.format(at);

/** A `<time>` in the reader's zone, with UTC on hover. */
export function timeElement(at) {
  const made = document.createElement("time");
  const date = new Date(at);
  made.dateTime = at;
  made.title = `${at.slice(0, 19).replace("T", " ")} UTC`;
  made.textContent = isToday(date) ? clock(date) : `${DAY.format(date)}, ${clock(date)}`;
  return made;
}

function isToday(date) {
  return date.toDateString() === new Date().toDateString();
}

/** Seconds as "0.4 s", "12 s", "4 m 05 s", "2 h 10 m" or "3 d 4 h". */
export function duration(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${two((seconds % 3600) / 60)} m`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** How long ago, short: "now", "14 m", "2 h", "Fri", "3 Nov". */
export function ago(at, now = Date.now()) {
  const seconds = (now - new Date(at)) / 1000;
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  const options = seconds < 6 * 86_400 ? { weekday: "short" } : { day: "numeric", month: "short" };
  return new Intl.DateTimeFormat(undefined, options).format(new Date(at));
}

const FIGURES = new Intl.NumberFormat();

export const count = (number) => FIGURES.format(Number(number));

/** US dollars in cents, or with two digits of smaller amounts: "$0.50", "$0.0031"; "" if unknown. */
export function money(dollars) {
  if (dollars === undefined || dollars === null) return "";
  const value = Number(dollars);
  return `$${value.toFixed(value > 0 && value < 0.1 ? 1 - Math.floor(Math.log10(value)) : 2)}`;
}
