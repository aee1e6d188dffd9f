/**
 * Stands in for the library of comparisons that the form library brings along (scripts/bundle-browser.mjs puts it
 * there). What forms compare is JSON, and elements whose functions are new each time: any two of those count as equal.
 */
export function createCustomEqual(): (one: unknown, other: unknown) => boolean {
  return (one, other) => isEqual(one, other, new Map());
}

/** `under` holds what is being compared: a structure that comes back to itself is equal there if it is elsewhere. */
function isEqual(one: unknown, other: unknown, under: Map<unknown, unknown>): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one === "function") return typeof other === "function";
  if (!isStructure(one) || !isStructure(other) || Array.isArray(one) !== Array.isArray(other)) return false;
  if (under.has(one)) return under.get(one) === other;
  const names = Object.keys(one);
  if (names.length !== Object.keys(other).length) return false;
  under.set(one, other);
  const equal = names.every((name) => Object.hasOwn(other, name) && isEqual(one[name], other[name], under));
  under.delete(one);
  return equal;
}

/** Anything else that is an object, such as a file, equals itself alone. */
function isStructure(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}
