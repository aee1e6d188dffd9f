import type ts from "typescript";
import type { JsonSchema } from "../../lib/json.ts";
import type { Budget } from "../budget.ts";
import type { Doc } from "../doc-comments.ts";
import type { Revivals } from "./revivals.ts";
import type { Recursion } from "./recursion.ts";

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
  readonly level: number;
  /** Extra properties are let through. */
  readonly open: boolean;
  /** The type as written. A hint only: it is used where it still denotes the type at hand. */
  readonly node?: ts.TypeNode | undefined;
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
export function within(place: TypePlace, step: string, node?: ts.TypeNode): TypePlace {
  return { ...place, path: [...place.path, step], level: place.level + 1, node };
}

/** A path as an author would write it: `items[].at`. */
export function written(path: Path): string {
  return path.map((step, index) => (step === "*" ? "[]" : index === 0 ? step : `.${step}`)).join("");
}
