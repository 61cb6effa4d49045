// Safe display of text: characters that would hide or reorder others become visible escapes.

// Controls but tab and line feed, soft hyphen, invisible spaces and joiners, marks of direction,
// separators, tags.
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c" +
    "\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180e" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\ufffb" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]|" +
    "[\\ud800-\\udbff](?![\\udc00-\\udfff])|" +
    "(?<![\\ud800-\\udbff])[\\udc00-\\udfff]|" +
    // These two belong to an emoji; elsewhere they hide data.
    "(?<![\\p{Extended_Pictographic}#*0-9])[\\ufe0e\\ufe0f]",
  "gu",
);

/** `text` with each invisible or direction-changing character as `\u{...}`. */
export function visible(text) {
  return String(text).replace(HIDDEN, (found) => `\\u{${found.codePointAt(0).toString(16)}}`);
}

/** The first `length` characters, with an ellipsis if there were more; never half a character. */
export function shorten(text, length = 120) {
  if (text.length <= length) return text;
  const end = length - 1;
  const split = text.charCodeAt(end - 1) >> 10 === 0x36; // a high surrogate would lose its half
  return `${text.slice(0, split ? end - 1 : end)}…`;
}

/** "1 approval", "2 approvals". */
export function plural(number, one, many = `${one}s`) {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}
