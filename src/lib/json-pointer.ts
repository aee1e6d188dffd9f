import { decodePercent } from "./decode-percent.ts";

/** The value that a reference such as `#/$defs/a~1b` points to (RFC 6901); undefined for other references. */
export function valueAt(root: unknown, reference: string): unknown {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  let at = root;
  for (const step of reference.split("/").slice(1)) {
    const name = decodePercent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return undefined;
    at = (at as Readonly<Record<string, unknown>>)[name];
  }
  return at;
}
