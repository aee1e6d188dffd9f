/**
 * Replaces the comparison library of the form library (by scripts/bundle-browser.mjs). Forms compare JSON, and elements
 * whose functions are new each time: any two functions count as equal.
 */
export function createCustomEqual(): (one: unknown, other: unknown) => boolean {
  return (one, other) => isEqual(one, other, new Map());
}

/** `under` holds the comparisons in progress: a cyclic structure is equal there if it is equal elsewhere. */
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

/** Any other object, such as a file, equals only itself. */
function isStructure(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}
