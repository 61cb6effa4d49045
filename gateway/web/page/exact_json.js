// JSON with exact numbers. JavaScript's own numbers lose digits beyond 2^53, and turn 1.0 into 1.
// A number that would not be written back as it was read becomes an `Exact`, which keeps its text.

export class Exact {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

/** Raises a SyntaxError for text that is not JSON. */
export function parse(text) {
  JSON.parse(text); // the grammar, with the browser's own message; below it holds
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
      const made = {};
      while (peek() !== "}") {
        const name = JSON.parse(next());
        next(); // the colon
        const property = { enumerable: true, writable: true, configurable: true };
        Object.defineProperty(made, name, { ...property, value: value(next()) }); // even of `__proto__`
        if (peek() === ",") next();
      }
      next();
      return made;
    }
    if (token === "[") {
      const made = [];
      while (peek() !== "]") {
        made.push(value(next()));
        if (peek() === ",") next();
      }
      next();
      return made;
    }
    const plain = JSON.parse(token);
    return typeof plain === "number" && String(plain) !== token ? new Exact(token) : plain;
  };
  return value(next());
}

/** The position after the quote that ends a string. A pattern would overflow the stack on megabytes. */
function endOfString(text, from) {
  for (let end = text.indexOf('"', from); ; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return end + 1;
  }
}

/** JSON text. With `indent`, objects and arrays are spread over lines. */
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

/** Whether two values are the same JSON, with the order of names ignored. */
export function equal(a, b) {
  if (a instanceof Exact || b instanceof Exact) return isNumber(a) && isNumber(b) && String(a) === String(b);
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  if (names.length !== Object.keys(b).length) return false;
  return names.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name]));
}

const isNumber = (value) => value instanceof Exact || typeof value === "number";
