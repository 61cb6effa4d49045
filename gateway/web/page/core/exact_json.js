// JSON with exact numbers. JavaScript's numbers lose digits beyond 2^53, and turn 1.0 into 1. A number that
// would not be written as it was read becomes an `Exact`, which keeps its text.

export class Exact {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

/** Parses JSON text. Throws a SyntaxError for text that is not JSON. */
export function parse(text) {
  JSON.parse(text); // throws the browser's own message; the code below relies on valid JSON
  let at = 0;
  const TOKEN = /\s*("|[[\]{}:,]|[^\s[\]{}:,"]+)/y;
  const next = () => {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    at = TOKEN.lastIndex;
    if (found[1] !== '"') return found[1];
    const begin = at - 1;
    at = endOfString(text, at);
    return text.slice(begin, at);
  };
  const peek = () => {
    const before = at;
    const token = next();
    at = before;
    return token;
  };
  const value = (token) => {
    if (token === "{") {
      const object = {};
      while (peek() !== "}") {
        const name = JSON.parse(next());
        next(); // the colon
        const property = { enumerable: true, writable: true, configurable: true };
        // An assignment to `__proto__` would set the prototype.
        Object.defineProperty(object, name, { ...property, value: value(next()) });
        if (peek() === ",") next();
      }
      next();
      return object;
    }
    if (token === "[") {
      const array = [];
      while (peek() !== "]") {
        array.push(value(next()));
        if (peek() === ",") next();
      }
      next();
      return array;
    }
    const plain = JSON.parse(token);
    return typeof plain === "number" && String(plain) !== token ? new Exact(token) : plain;
  };
  return value(next());
}

/** The position after the closing quote of a string. A regular expression would overflow the stack on a
 * string of megabytes. */
function endOfString(text, from) {
  for (let end = text.indexOf('"', from); ; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text[end - 1 - backslashes] === "\\") backslashes += 1;
    if (backslashes % 2 === 0) return end + 1;
  }
}

/** Writes a value as JSON text, on one line or, with `indent` spaces per level, on several. */
export function stringify(value, indent = 0, depth = 0) {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const list = Array.isArray(value);
  const parts = list
    ? value.map((item) => stringify(item, indent, depth + 1))
    : Object.entries(value).map(
        ([name, item]) => `${JSON.stringify(name)}:${indent ? " " : ""}${stringify(item, indent, depth + 1)}`,
      );
  const [open, close] = list ? "[]" : "{}";
  if (!parts.length) return open + close;
  if (!indent) return open + parts.join(",") + close;
  const pad = " ".repeat(indent * (depth + 1));
  return `${open}\n${pad}${parts.join(`,\n${pad}`)}\n${" ".repeat(indent * depth)}${close}`;
}

/** Whether two values are the same JSON, regardless of the order of names. */
export function equal(a, b) {
  if (a instanceof Exact || b instanceof Exact) return isNumber(a) && isNumber(b) && String(a) === String(b);
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]));
}

const isNumber = (value) => value instanceof Exact || typeof value === "number";
