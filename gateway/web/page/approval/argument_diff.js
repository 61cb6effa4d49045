// The values of the arguments that a person changed. Pure.

import { Exact, equal } from "../core/exact_json.js";

/** The changed values as `{path, before, after}`, in the order of the old ones; `before` or `after` is
 * undefined for what is new or gone. Objects are compared name by name, everything else as a whole. */
export function differences(before, after, path = []) {
  if (!isObject(before) || !isObject(after)) {
    return equal(before, after) ? [] : [{ path, before, after }];
  }
  const names = [
    ...Object.keys(before),
    ...Object.keys(after).filter((name) => !Object.hasOwn(before, name)),
  ];
  return names.flatMap((name) => {
    const inner = [...path, name];
    if (!Object.hasOwn(before, name)) return [{ path: inner, before: undefined, after: after[name] }];
    if (!Object.hasOwn(after, name)) return [{ path: inner, before: before[name], after: undefined }];
    return differences(before[name], after[name], inner);
  });
}

/** The number of values, counted as in `differences`. */
export function countValues(value) {
  if (!isObject(value)) return 1;
  return Object.values(value).reduce((sum, inner) => sum + countValues(inner), 0);
}

/** The values below objects, as `[path, value]`. A path is written with dots, and a name that has one, or is
 * empty, in quotes: no two values have the same path. */
export function flat(value, path = []) {
  if (!isObject(value) || (path.length && !Object.keys(value).length)) return [[path.join("."), value]];
  return Object.entries(value).flatMap(([name, inner]) => flat(inner, [...path, quoted(name)]));
}

const quoted = (name) => (/^[^."\\]+$/.test(name) ? name : JSON.stringify(name));

/** The common and the differing arguments of several calls.
 *
 * `same`: `[path, value]`; `columns`: the paths that differ; `rows`: for each call a Map from path to
 * value; `usual`: for each column the value that most calls have, or undefined if no value is in more than
 * half of them. */
export function compare(calls) {
  const rows = calls.map((call) => new Map(flat(call).filter(([path]) => path !== "")));
  const paths = [...new Set(rows.flatMap((row) => [...row.keys()]))];
  const isSame = (path) => rows.every((row) => row.has(path) && equal(row.get(path), rows[0].get(path)));
  const columns = paths.filter((path) => !isSame(path));
  const usual = new Map(columns.map((path) => [path, majority(rows.map((row) => row.get(path)))]));
  return { same: paths.filter(isSame).map((path) => [path, rows[0].get(path)]), columns, rows, usual };
}

function majority(values) {
  const groups = [];
  for (const value of values) {
    const group = groups.find((each) => same(each.value, value));
    if (group) group.count += 1;
    else groups.push({ value, count: 1 });
    if (groups.length > 50) return undefined; // nearly all differ
  }
  return groups.find((each) => each.count * 2 > values.length)?.value;
}

export function same(a, b) {
  return a === undefined || b === undefined ? a === b : equal(a, b);
}

export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Exact);
}
