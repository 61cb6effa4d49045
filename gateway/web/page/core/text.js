// Safe display of text: characters that would hide or reorder others become visible escapes.

// The rule of `runtime/visible_text.py`. The surface keeps tabs and line feeds; a variation selector
// 15 or 16 stays after a symbol and in a keycap, where it chooses the form of an emoji.
const HIDDEN = new RegExp(
  "(?![\\t\\n\\ufe0e\\ufe0f])" +
    "[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\u2800]|" +
    "(?<![\\p{So}\\p{Sm}\\p{Sk}\\u203c\\u2049\\u2139\\u3030#*0-9])[\\ufe0e\\ufe0f]|" +
    "(?<=[#*0-9])[\\ufe0e\\ufe0f](?!\\u20e3)",
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
