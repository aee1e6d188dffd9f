import type ts from "typescript";
import type { BundledValue, DescribedTool, ToolAnnotations } from "../discovery.ts";
import type { Budget } from "./budget.ts";
import type { Doc } from "./doc-comments.ts";
import type { DefinitionProgram } from "./program.ts";
import type { Reporter } from "./reporter.ts";
import type { SchemaSource, SchemaSources } from "./schema-sources.ts";
import type { UnresolvedName } from "./types/unresolved.ts";

/** An exported function that may become a tool. */
export interface Candidate {
  readonly name: string;
  /** The name under which the module exports it. */
  readonly export: string;
  readonly doc: Doc;
  readonly signature: ts.Signature;
  /** All signatures that are offered with it, if the function is overloaded. */
  readonly signatures: readonly ts.Signature[];
  /** The parameters, if they are merged from several signatures. */
  readonly parameters?: readonly Parameter[];
  /** The function's source, with defaults and names, even if a wrapper or an annotation has the types. */
  readonly implementation?: ts.SignatureDeclaration;
  /** An unresolved type in the function's declaration. */
  readonly missing?: UnresolvedName;
  /** Files that each export something else under this name, so that the module exports none of them. */
  readonly clashing: readonly string[];
  /** The node for problems about the whole function: its name. */
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

/** The program and the collectors used to read a candidate. */
export interface ReadContext {
  readonly program: DefinitionProgram;
  readonly reporter: Reporter;
  readonly budget: Budget;
  /** Absent while only types are read. */
  readonly schemas?: SchemaSources | undefined;
}

/** One parameter of a tool, as the checker sees it and as the author wrote it. */
export interface Parameter {
  readonly name: string;
  readonly type: ts.Type;
  readonly node?: ts.TypeNode | undefined;
  /** The node for problems about the parameter. */
  readonly declaration?: ts.Node | undefined;
  readonly initializer?: ts.Expression | undefined;
  readonly pattern?: ts.BindingPattern | undefined;
  readonly isOptional: boolean;
  readonly isRest: boolean;
}

/** An object that contains the handler of a tool. */
export interface ToolObject {
  readonly value: BundledValue;
  readonly described: DescribedTool;
  /** The property with the handler. */
  readonly handler: string;
  /** The property with the schema of its arguments. */
  readonly schema?: string;
}
