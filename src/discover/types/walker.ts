import type ts from "typescript";
import type { JsonSchema } from "../../lib/json.ts";
import { budgets, type Budget } from "../budget.ts";
import type { Reach, ReachCondition, ReachStep } from "../discovery.ts";
import type { Doc } from "../doc-comments.ts";

/**
 * State that the files of this folder share while one schema is made. `walk` turns any type into a schema; each kind of
 * type has a file, which comes back to `walk` for the types inside.
 */
export interface Walker {
  readonly checker: ts.TypeChecker;
  readonly isLibrary: (file: ts.SourceFile) => boolean;
  /** Inputs are closed and must be given as JSON; outputs are open and only need to survive `JSON.stringify`. */
  readonly direction: "input" | "output";
  /** True if the type was written down. An inferred one may rest on imports that discovery does not see. */
  readonly written: boolean;
  readonly budget: Budget;
  readonly recursion: Recursion;
  readonly revivals: Revivals;
  /** The part of the function's own doc comment about an argument or one of its properties. */
  readonly docAt: (path: Path) => Doc | undefined;
  /** The destructuring element that takes this argument or property. */
  readonly bindingAt: (path: Path) => Binding | undefined;
  walk(type: ts.Type, place: TypePlace): JsonSchema;
  /** The schema from which a type is inferred; the result of `build` if there is none. */
  inferred(type: ts.Type, place: TypePlace, build: (type: ts.Type) => JsonSchema): JsonSchema;
  /** Notes why the tool cannot be offered, and stands in for the schema. */
  refuse(place: TypePlace, code: string, reason: string, node?: ts.Node): JsonSchema;
  /** Gives what `build` makes, or why JSON cannot carry it; then all that `build` has noted is forgotten. */
  attempt<T>(build: () => T): Attempt<T>;
  /** Notes that something optional is not described, because of `fault`. */
  leaveOut(what: string, fault: Fault): void;
  /** Hands on a fault of an attempt. */
  report(fault: Fault): void;
  /** Notes where a property was told to travel as a header, too. */
  noteHeader(name: string, node: ts.Node): void;
  /** Notes an argument whose default is only what a comment says. */
  noteSpokenDefault(path: Path): void;
  /** Notes what the author should know, though the tool can be offered. */
  warn(place: TypePlace, code: string, message: string, node?: ts.Node): void;
}

/** From the arguments inwards: property names, `*` for each element of an array or value of a record. */
export type Path = readonly string[];

export type Attempt<T> = { readonly value: T } | { readonly fault: Fault };

export interface TypePlace {
  readonly path: Path;
  /** The values that `path` leads to, exactly. */
  readonly reach: Reach;
  readonly level: number;
  /** Extra properties are let through. */
  readonly open: boolean;
  /** The type as written. A hint only: it is used where it still denotes the type at hand. */
  readonly node?: ts.TypeNode | undefined;
  /** The type is a member of a union, with null alone or with other types. */
  readonly beside?: "null" | "others";
}

export interface Binding {
  readonly initializer?: ts.Expression | undefined;
}

export interface Fault {
  readonly severity: "error" | "warning";
  readonly code: string;
  readonly message: string;
  readonly path: Path;
  /** The part of an argument that is left out, as its author would write it. */
  readonly leftOut?: string;
  /** The same argument has further faults of its kind there. */
  readonly others?: readonly string[];
  /** The node at fault, when it is smaller than the parameter. */
  readonly node?: ts.Node | undefined;
}

/** The place one step further in. */
export function within(place: TypePlace, step: ReachStep, node?: ts.TypeNode): TypePlace {
  const { path, reach, level } = place;
  return { ...place, path: [...path, nameOfStep(step)], reach: [...reach, step], level: level + 1, node };
}

export function nameOfStep(step: ReachStep): string {
  return typeof step === "string" ? step : "*";
}

/** The names on the way: conditions have none. */
export function namesIn(path: Reach): Path {
  return path.filter((step) => typeof step === "string" || !("not" in step || "is" in step)).map(nameOfStep);
}

/** A path as an author would write it: `items[].at`. */
export function written(path: Path): string {
  return path.map((step, index) => (step === "*" ? "[]" : index === 0 ? step : `.${step}`)).join("");
}

export function pathKey(path: Reach): string {
  return JSON.stringify(path);
}

/**
 * Writes every type where it is used, and only a type that holds itself once, under `$defs`. Some clients cannot
 * follow `$ref`, so that it is spent only where there is no other way.
 */
export class Recursion {
  readonly #open = new Map<string, { start: Reach; suggested: string; name?: string }>();
  #closed = new Map<string, { start: Reach; name: string }>();
  #definitions = new Map<string, JsonSchema>();
  readonly #revivals: Revivals;

  constructor(revivals: Revivals) {
    this.#revivals = revivals;
  }

  /** The schema of the type known as `key`: what `build` makes of it, or a reference when it is being built already. */
  enter(key: string, suggested: string, path: Reach, build: () => JsonSchema): JsonSchema {
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
    const entry: { start: Reach; suggested: string; name?: string } = { start: path, suggested };
    this.#open.set(key, entry);
    const schema = build();
    this.#open.delete(key);
    if (entry.name === undefined) return schema;
    this.#definitions.set(entry.name, schema);
    this.#closed.set(key, { start: path, name: entry.name });
    return reference(entry.name);
  }

  /** Puts a schema among the definitions, and gives its name there. */
  define(suggested: string, schema: JsonSchema): string {
    const name = this.#freeName(suggested);
    this.#definitions.set(name, schema);
    return name;
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

/** The objects that texts in the arguments become before the function is called. */
export type RevivedKind = "date" | "url";

export interface Revival {
  readonly kind: RevivedKind;
  readonly path: Reach;
}

/**
 * Where `Date`s and `URL`s stand in the arguments. A schema cannot say it (they are strings there), so that the paths
 * are kept beside it. Recursive types have them at endless paths: those are listed level by level down to a limit.
 */
export class Revivals {
  /** Never changed in place, so that whoever keeps it has what was found by then. */
  #found: readonly Revival[] = [];
  readonly #references: { path: Reach; start: Reach }[] = [];

  add(kind: RevivedKind, path: Reach): void {
    this.#found = [...this.#found, { kind, path }];
  }

  /** At `path` stands what was walked at `start` before. */
  repeat(path: Reach, start: Reach): void {
    this.#references.push({ path, start });
  }

  /** Remembers the state: the function that it gives returns to it. */
  mark(): () => void {
    const found = this.#found;
    const references = this.#references.length;
    return () => {
      this.#found = found;
      this.#references.length = references;
    };
  }

  get all(): readonly Revival[] {
    return this.#found;
  }

  /** For places that turn out to be undecidable. */
  forget(revivals: readonly Revival[]): void {
    this.#found = this.#found.filter((revival) => !revivals.includes(revival));
  }

  /** Makes a condition part of paths, behind their first steps. */
  restrict(revivals: readonly Revival[], steps: number, condition: ReachCondition): Revival[] {
    const restricted = revivals.map(({ kind, path }) => ({ kind, path: path.toSpliced(steps, 0, condition) }));
    this.#found = [...this.#found.filter((revival) => !revivals.includes(revival)), ...restricted];
    return restricted;
  }

  paths(wanted: RevivedKind): Reach[] {
    return this.repeated(this.#found.filter(({ kind }) => kind === wanted).map(({ path }) => path));
  }

  /** These paths, and where else the same stands in recursive types that start above this number of steps. */
  repeated(paths: readonly Reach[], steps = Infinity): Reach[] {
    const known = new Map(paths.map((path) => [pathKey(path), path]));
    const limit = known.size + budgets.recursiveRevivals;
    // What was found last is longest; a round adds one level of recursion, so that shallow paths come first.
    for (let last = [...known.values()]; last.length > 0 && known.size < limit;) {
      const next = last
        .flatMap((found) => this.#repeated(found, steps))
        .filter((path) => path.length <= budgets.recursiveRevivalSteps && !known.has(pathKey(path)))
        .sort((a, b) => a.length - b.length)
        .slice(0, limit - known.size);
      for (const path of next) known.set(pathKey(path), path);
      last = next;
    }
    return [...known.values()];
  }

  #repeated(found: Reach, steps: number): Reach[] {
    return this.#references
      .filter(({ start }) => start.length < steps && startsWith(found, start))
      .map(({ path, start }) => path.concat(found.slice(start.length)));
  }
}

function startsWith(path: Reach, start: Reach): boolean {
  return start.length <= path.length && start.every((step, index) => path[index] === step);
}
