import type ts from "typescript";
import type { JsonSchema } from "../../../lib/json.ts";
import type { Reach, ReachCondition, ReachStep } from "../../discovery.ts";
import { budgets, type Budget } from "../budget.ts";
import type { Doc } from "../doc-comments.ts";

/** State while one schema is built. `walk` converts any type; each kind of type has a file, which calls it. */
export interface Walker {
  readonly checker: ts.TypeChecker;
  readonly isLibrary: (file: ts.SourceFile) => boolean;
  /** Inputs are closed and arrive as JSON; outputs are open and only need to survive `JSON.stringify`. */
  readonly direction: "input" | "output";
  /** True if the source states the type. An inferred type may depend on imports that discovery does not resolve. */
  readonly isExplicit: boolean;
  readonly budget: Budget;
  readonly recursion: Recursion;
  readonly revivals: Revivals;
  /** The part of the function's doc comment about an argument or one of its properties. */
  readonly docAt: (path: Path) => Doc | undefined;
  /** The destructuring element that binds this argument or property. */
  readonly bindingAt: (path: Path) => Binding | undefined;
  walk(type: ts.Type, place: TypePlace): JsonSchema;
  /** The schema from which a type is inferred, else the result of `build`. */
  inferred(type: ts.Type, place: TypePlace, build: (type: ts.Type) => JsonSchema): JsonSchema;
  /** Reports why the tool cannot be offered, and returns a placeholder schema. */
  refuse(place: TypePlace, code: string, reason: string, node?: ts.Node): JsonSchema;
  /** Returns the result of `build`, or why JSON cannot represent it; then everything that `build` recorded is discarded. */
  attempt<T>(build: () => T): Attempt<T>;
  /** Reports that something optional is not described, because of `fault`. */
  leaveOut(what: string, fault: Fault): void;
  /** Reports a fault of an attempt. */
  report(fault: Fault): void;
  /** Records that a property is also sent as a header. */
  noteHeader(name: string, node: ts.Node): void;
  /** Records an argument whose default is stated only in a comment. */
  noteDocumentedDefault(path: Path): void;
  /** Reports a problem that does not prevent the tool from being offered. */
  warn(place: TypePlace, code: string, message: string, node?: ts.Node): void;
}

/** Starts at the arguments: property names, and `*` for each element of an array or value of a record. */
export type Path = readonly string[];

export type Attempt<T> = { readonly value: T } | { readonly fault: Fault };

export interface TypePlace {
  readonly path: Path;
  /** Selects exactly the values at `path`. */
  readonly reach: Reach;
  readonly level: number;
  /** Additional properties are allowed. */
  readonly open: boolean;
  /** The type in the source. A hint: it is ignored unless it denotes this type. */
  readonly node?: ts.TypeNode | undefined;
  /** The type is a member of a union, with null alone or with other types. */
  readonly siblings?: "null" | "others";
}

export interface Binding {
  readonly initializer?: ts.Expression | undefined;
}

export interface Fault {
  readonly severity: "error" | "warning";
  readonly code: string;
  readonly message: string;
  readonly path: Path;
  /** The part of an argument that is left out, in TypeScript. */
  readonly leftOut?: string;
  /** Other positions in the argument with the same kind of fault. */
  readonly others?: readonly string[];
  /** The node at fault, if it is smaller than the parameter. */
  readonly node?: ts.Node | undefined;
}

/** The position of a nested value. */
export function within(place: TypePlace, step: ReachStep, node?: ts.TypeNode): TypePlace {
  const { path, reach, level } = place;
  return { ...place, path: [...path, nameOfStep(step)], reach: [...reach, step], level: level + 1, node };
}

function nameOfStep(step: ReachStep): string {
  return typeof step === "string" ? step : "*";
}

/** The path without conditions. */
export function toPath(path: Reach): Path {
  return path.filter((step) => typeof step === "string" || !("not" in step || "is" in step)).map(nameOfStep);
}

/** A path in TypeScript: `items[].at`. */
export function formatPath(path: Path): string {
  return path.map((step, index) => (step === "*" ? "[]" : index === 0 ? step : `.${step}`)).join("");
}

export function pathKey(path: Reach): string {
  return JSON.stringify(path);
}

/** Inlines every type but recursive ones, which are in `$defs`: some clients cannot follow `$ref`. */
export class Recursion {
  readonly #open = new Map<string, { start: Reach; suggested: string; name?: string }>();
  #closed = new Map<string, { start: Reach; name: string }>();
  #definitions = new Map<string, JsonSchema>();
  readonly #revivals: Revivals;

  constructor(revivals: Revivals) {
    this.#revivals = revivals;
  }

  /** The schema of the type with this key: the result of `build`, or a reference while that is being built. */
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

  /** Adds a definition, and returns its name. */
  define(suggested: string, schema: JsonSchema): string {
    const name = this.#freeName(suggested);
    this.#definitions.set(name, schema);
    return name;
  }

  /** Returns a function that restores the current state. */
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

  /** True if `enter` would return a reference. */
  isKnown(key: string): boolean {
    return this.#open.has(key) || this.#closed.has(key);
  }

  /** The schema as a document: with `$defs`, and a root that is not only a reference. */
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

/** The objects that strings in the arguments are converted to before the function is called. */
export type RevivedKind = "date" | "url";

export interface Revival {
  readonly kind: RevivedKind;
  readonly path: Reach;
}

/** Paths of `Date`s and `URL`s in the arguments; those in recursive types level by level, up to a limit. */
export class Revivals {
  /** Replaced and never modified, as callers keep snapshots. */
  #revivals: readonly Revival[] = [];
  readonly #references: { path: Reach; start: Reach }[] = [];

  add(kind: RevivedKind, path: Reach): void {
    this.#revivals = [...this.#revivals, { kind, path }];
  }

  /** Records that `path` has the type that was walked at `start`. */
  repeat(path: Reach, start: Reach): void {
    this.#references.push({ path, start });
  }

  /** Returns a function that restores the current state. */
  mark(): () => void {
    const found = this.#revivals;
    const references = this.#references.length;
    return () => {
      this.#revivals = found;
      this.#references.length = references;
    };
  }

  get all(): readonly Revival[] {
    return this.#revivals;
  }

  /** Removes paths whose values cannot be distinguished from other strings. */
  forget(revivals: readonly Revival[]): void {
    this.#revivals = this.#revivals.filter((revival) => !revivals.includes(revival));
  }

  /** Inserts a condition into paths, after their first steps. */
  restrict(revivals: readonly Revival[], steps: number, condition: ReachCondition): Revival[] {
    const restricted = revivals.map(({ kind, path }) => ({ kind, path: path.toSpliced(steps, 0, condition) }));
    this.#revivals = [...this.#revivals.filter((revival) => !revivals.includes(revival)), ...restricted];
    return restricted;
  }

  paths(expected: RevivedKind): Reach[] {
    return this.repeated(this.#revivals.filter(({ kind }) => kind === expected).map(({ path }) => path));
  }

  /** These paths, and their repetitions in recursive types that start above this number of steps. */
  repeated(paths: readonly Reach[], steps = Infinity): Reach[] {
    const result = new Map(paths.map((path) => [pathKey(path), path]));
    const limit = result.size + budgets.recursiveRevivals;
    // Each round adds one level of recursion, so that shallow paths come first.
    for (let last = [...result.values()]; last.length > 0 && result.size < limit;) {
      const next = last
        .flatMap((path) => this.#repeated(path, steps))
        .filter((path) => path.length <= budgets.recursiveRevivalSteps && !result.has(pathKey(path)))
        .sort((a, b) => a.length - b.length)
        .slice(0, limit - result.size);
      for (const path of next) result.set(pathKey(path), path);
      last = next;
    }
    return [...result.values()];
  }

  #repeated(base: Reach, steps: number): Reach[] {
    return this.#references
      .filter(({ start }) => start.length < steps && startsWith(base, start))
      .map(({ path, start }) => path.concat(base.slice(start.length)));
  }
}

function startsWith(path: Reach, start: Reach): boolean {
  return start.length <= path.length && start.every((step, index) => path[index] === step);
}
