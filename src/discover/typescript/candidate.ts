import type ts from "typescript";
import type { BundledValue, DescribedTool, ToolAnnotations } from "../discovery.ts";
import type { Budget } from "./budget.ts";
import type { Doc } from "./doc-comments.ts";
import type { DefinitionProgram } from "./program.ts";
import type { Reporter } from "./reporter.ts";
import type { SchemaSource, SchemaSources } from "./schema-sources.ts";
import type { UnresolvedName } from "./types/unresolved.ts";

/** An exported function that is to be a tool. */
export interface Candidate {
  readonly name: string;
  /** The name under which the module exports it. */
  readonly export: string;
  readonly doc: Doc;
  readonly signature: ts.Signature;
  /** All signatures that are offered with it: a function may be overloaded. */
  readonly signatures: readonly ts.Signature[];
  /** The parameters, where they are put together from several signatures. */
  readonly parameters?: readonly Parameter[];
  /** The function's own source: it has the defaults and the names, even where a wrapper or an annotation has the types. */
  readonly implementation?: ts.SignatureDeclaration;
  /** A type that the function was declared to have and that leads nowhere. */
  readonly missing?: UnresolvedName;
  /** The files that export something else of this name each, so that the module has none of them. */
  readonly clashing: readonly string[];
  /** Where to point when the whole function is meant: its name. */
  readonly nameNode: ts.Node;
  /** The object whose handler it is. */
  readonly object?: ToolObject;
  /** Metadata and schemas from other exports of its module. */
  readonly module?: {
    readonly annotations?: ToolAnnotations;
    readonly input?: SchemaSource;
    readonly output?: SchemaSource;
  };
}

/** The program and the collectors with which a candidate is read. */
export interface Reading {
  readonly program: DefinitionProgram;
  readonly reporter: Reporter;
  readonly budget: Budget;
  /** Absent while types alone are read. */
  readonly schemas?: SchemaSources | undefined;
}

/** One parameter of a tool, as the checker sees it and as the author wrote it. */
export interface Parameter {
  readonly name: string;
  readonly type: ts.Type;
  readonly node?: ts.TypeNode | undefined;
  /** Where to point. */
  readonly declaration?: ts.Node | undefined;
  readonly initializer?: ts.Expression | undefined;
  readonly pattern?: ts.BindingPattern | undefined;
  readonly isOptional: boolean;
  readonly isRest: boolean;
}

/** An object with the handler of a tool. */
export interface ToolObject {
  readonly value: BundledValue;
  readonly described: DescribedTool;
  /** The property that holds its handler. */
  readonly handler: string;
  /** The property that holds the schema of its arguments. */
  readonly schema?: string;
}
