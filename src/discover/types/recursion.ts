import type { JsonSchema } from "../../lib/json.ts";
import type { Revivals } from "./revivals.ts";
import type { Path } from "./walker.ts";

/**
 * Writes every type where it is used, and only a type that holds itself once, under `$defs`. Some clients cannot
 * follow `$ref`, so that it is spent only where there is no other way.
 */
export class Recursion {
  readonly #open = new Map<string, { start: Path; suggested: string; name?: string }>();
  #closed = new Map<string, { start: Path; name: string }>();
  #definitions = new Map<string, JsonSchema>();
  readonly #revivals: Revivals;

  constructor(revivals: Revivals) {
    this.#revivals = revivals;
  }

  /** The schema of the type known as `key`: what `build` makes of it, or a reference when it is being built already. */
  enter(key: string, suggested: string, path: Path, build: () => JsonSchema): JsonSchema {
    const closed = this.#closed.get(key);
    if (closed) {
      this.#revivals.repeat(path, closed.start);
      return reference(closed.name);
    }
    const open = this.#open.get(key);
    if (open) {
      this.#revivals.repeat(path, open.start);
      open.name ??= this.#freeName(open.suggested);
      return reference(open.name);
    }
    const entry: { start: Path; suggested: string; name?: string } = { start: path, suggested };
    this.#open.set(key, entry);
    const schema = build();
    this.#open.delete(key);
    if (entry.name === undefined) return schema;
    this.#definitions.set(entry.name, schema);
    this.#closed.set(key, { start: path, name: entry.name });
    return reference(entry.name);
  }

  /** Remembers the state: the function that it gives returns to it. */
  mark(): () => void {
    const closed = new Map(this.#closed);
    const definitions = new Map(this.#definitions);
    const unnamed = [...this.#open.values()].filter(({ name }) => name === undefined);
    return () => {
      this.#closed = closed;
      this.#definitions = definitions;
      for (const entry of unnamed) delete entry.name;
    };
  }

  /** True if `enter` would give a reference. */
  isKnown(key: string): boolean {
    return this.#open.has(key) || this.#closed.has(key);
  }

  /** The schema as a document of its own: with `$defs`, and a root that is no bare reference. */
  finish(root: JsonSchema): JsonSchema {
    if (this.#definitions.size === 0) return root;
    const { $ref, ...rest } = root;
    const target = typeof $ref === "string" ? this.#definitions.get($ref.slice(referencePrefix.length)) : undefined;
    return { ...(target ?? root), ...rest, $defs: Object.fromEntries(this.#definitions) };
  }

  #freeName(suggested: string): string {
    const base = suggested.replace(/[^A-Za-z0-9_]/g, "") || "Type";
    const taken = new Set([...this.#definitions.keys(), ...[...this.#open.values()].map((entry) => entry.name)]);
    let name = base;
    for (let count = 2; taken.has(name); count += 1) name = `${base}${count}`;
    return name;
  }
}

const referencePrefix = "#/$defs/";

function reference(name: string): JsonSchema {
  return { $ref: referencePrefix + name };
}
