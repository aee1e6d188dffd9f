import type { PromptArgument, SkillFrontmatter, ToolAnnotations } from "../contract/contract.ts";
import type { Icon } from "../contract/icons.ts";
import type { Cid } from "../lib/cid.ts";
import type { JsonObject, JsonSchema } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import type { PackagesInReach } from "../packages/package-set.ts";

export type { PromptArgument, SkillFrontmatter, ToolAnnotations } from "../contract/contract.ts";

/**
 * This folder turns the source of a definition into its tools, problems and bundle. The serving process uses it through
 * `compiler.ts`, which starts `compiler-child.ts`; only that child loads the compiler and the bundler. The folder must
 * not know how results are stored or how guests run.
 */

/** Everything found in a definition's source. Pure data, which the serving process reads without a compiler. */
export interface Discovery {
  readonly tools: readonly DiscoveredTool[];
  readonly resources: readonly DiscoveredResource[];
  readonly prompts: readonly DiscoveredPrompt[];
  readonly completions: readonly DiscoveredCompletion[];
  /** The apps that its tools name with `@ui`, in source order; absent if there are none. */
  readonly apps?: readonly DiscoveredApp[];
  /** Every problem found. An error with a `tool` excludes that tool; the others remain. */
  readonly problems: readonly Problem[];
  /** The grants that its tags request, in source order; absent if there are none. They grant nothing. */
  readonly requested?: readonly RequestedGrant[];
  /** Its skills, by path; absent if it has none. */
  readonly skills?: readonly DiscoveredSkill[];
}

/** A folder with a SKILL.md in the definition's folder of skills. */
export interface DiscoveredSkill {
  /** Its folder, relative to the folder of skills: `refunds`, or `billing/refunds`. */
  readonly path: string;
  readonly frontmatter: SkillFrontmatter;
  /** Its files by path relative to its folder, also those of nested skills. `digest` is the SHA-256 in hexadecimal. */
  readonly files: readonly { readonly path: string; readonly digest: string; readonly size: number }[];
}

/** `@secret NAME` or `@network host[:port]`, optionally followed by a purpose. */
export interface RequestedGrant {
  /** The field of an entry that would grant it. */
  readonly field: "secrets" | "network";
  /** In the format of that field: the name of a secret, or a host. */
  readonly value: string;
  readonly purpose?: string;
  /** Position of the tag, from 1. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** The maximum number of files in one definition. */
export const sourceBounds = fixed({ sourceFiles: 256 });

/** The discovery of a definition without a single valid function. */
export const emptyDiscovery: Omit<Discovery, "problems" | "apps"> = {
  tools: [],
  resources: [],
  prompts: [],
  completions: [],
};

export interface DiscoveredTool {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly icons?: readonly Icon[];
  /** JSON Schema 2020-12, `type: "object"`, inlined; `$defs` only for recursive types. */
  readonly inputSchema: JsonSchema;
  /** The plain schema of the awaited return value; null for `void` and for results that are already MCP content. */
  readonly outputSchema: JsonSchema | null;
  readonly annotations: ToolAnnotations;
  readonly task?: TaskSupport;
  readonly ui?: ToolUi;
  readonly call: CallShape;
  /** Position of the function, from 1. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** `@task`: a call of the tool can continue while its caller does something else. */
export interface TaskSupport {
  /** Clients that do not support tasks cannot call the tool. */
  readonly required: boolean;
  /** The call becomes a task only when the function asks for it (`startTask`). */
  readonly deferred: boolean;
}

/** `@ui chart.html`: an app shows the results of the tool; `@ui app`: apps alone call it. */
export interface ToolUi {
  /** The URI of the app. */
  readonly uri?: string;
  /** Absent if models and apps may call it. */
  readonly visibility?: readonly ("model" | "app")[];
}

/** An HTML file of the definition that `@ui` names. */
export interface DiscoveredApp {
  /** `ui://<server>/<path>` */
  readonly uri: string;
  /** The file's path in the definition. */
  readonly file: string;
  /** `_meta.ui` of its contents (`csp`, `permissions`, `prefersBorder`), from the file's first comment. */
  readonly ui?: JsonObject;
}

/** A function with `@resource <uri or RFC 6570 template> [mime]`: reading the URI calls it with the template's variables. */
export interface DiscoveredResource {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly icons?: readonly Icon[];
  /** A URI, or a template when it has `{…}`. */
  readonly uri: string;
  readonly mimeType?: string;
  /** The schema of the template's variables. */
  readonly inputSchema: JsonSchema;
  readonly call: CallShape;
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** A function with `@prompt`: it returns the prompt's messages, or the text of a single user message. */
export interface DiscoveredPrompt {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly icons?: readonly Icon[];
  readonly arguments: readonly PromptArgument[];
  readonly inputSchema: JsonSchema;
  readonly call: CallShape;
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** A function with `@completes <function>.<argument>`: `(value: string, others) => string[]`. */
export interface DiscoveredCompletion {
  /** The name of the prompt, or the URI template of the resource, whose argument it completes. */
  readonly of: string;
  readonly argument: string;
  readonly call: CallShape;
}

/** An app with its content addresses, which are computed when the discovery is stored. */
export interface CompiledApp extends DiscoveredApp {
  /** The CID of its file, which is part of the definition's content. */
  readonly content: Cid;
  /** The CID of the content that clients read at its URI. */
  readonly digest: Cid;
}

/** How named arguments become a JavaScript call. Created by discovery, executed by the guest runner. */
export interface CallShape {
  /** The name under which the bundle exports the function. */
  readonly export: string;
  /** `positional`: one parameter per argument, in `params` order. `object`: one parameter for all arguments. */
  readonly style: "positional" | "object";
  readonly params: readonly string[];
  /** The last of `params` is a rest parameter: its array is spread. */
  readonly rest?: boolean;
  /** The function takes the host's context after its parameters. */
  readonly context?: boolean;
  /** An async generator: each yield is progress. */
  readonly streaming?: boolean;
  /** A result that is iterable or has a length is serialized as an array. */
  readonly list?: boolean;
  /** Paths of arguments that are `Date`s. */
  readonly dates?: readonly Reach[];
  /** Paths of arguments that are `URL`s. */
  readonly urls?: readonly Reach[];
  /**
   * Paths (property names, `*` for each element of an array or value of a record) of arguments whose default is stated
   * only in a comment. The schema includes it, but calls are not completed with it because the code may differ.
   */
  readonly spokenDefaults?: readonly (readonly string[])[];
  /** The function is a method of an exported value and is called on it: `["weather", "execute"]`. */
  readonly member?: readonly string[];
  /** The property under which the function takes its arguments object. */
  readonly under?: string;
  /** The function takes the options that other frameworks pass after the arguments, not the host's context. */
  readonly options?: boolean;
  /** Arguments that a schema of the definition parses before the function receives them. */
  readonly parsed?: readonly ParsedArgument[];
}

/** A value in the bundle: an export, or a part of one. */
export interface BundledValue {
  readonly export: string;
  readonly path: readonly string[];
}

export interface ParsedArgument {
  readonly schema: BundledValue;
  /** Empty: all arguments together. */
  readonly at: Reach;
  /** Absent values are parsed as well: the schema has a default for them. */
  readonly absent?: boolean;
  /** Null means no value and is not parsed. */
  readonly orNull?: boolean;
}

/** The schemas and tool objects of a bundle to describe as JSON, and the converters for schemas of libraries. */
export interface SchemaRequest {
  readonly schemas: readonly (BundledValue & { readonly io: "input" | "output" })[];
  readonly tools: readonly string[];
  /** The properties that mark an object as a tool; one is enough. */
  readonly handlers: readonly string[];
  /** Exports that hold the converters of libraries whose schemas cannot describe themselves. */
  readonly converters: { readonly zod?: string; readonly valibot?: string };
}

/** The JSON Schema of a value, or the reason that there is none, as the end of a sentence. */
export type DescribedSchema = { readonly json: JsonSchema } | { readonly fault: string };

/** A tool object after the bundle has been loaded. */
export interface DescribedTool {
  /** Identical for the same object. */
  readonly id: number;
  /** The path from the export to the object. */
  readonly at: readonly string[];
  readonly name?: string;
  readonly title?: string;
  readonly description?: string;
  readonly annotations?: ToolAnnotations;
  readonly input?: DescribedSchema;
  readonly output?: DescribedSchema;
}

/** A bundle's answer to a request, in the order of the request. */
export interface DescribedSchemas {
  readonly schemas: readonly DescribedSchema[];
  readonly tools: readonly (readonly DescribedTool[])[];
  /** Why there is no answer. */
  readonly fault?: string;
}

/**
 * Loads a bundle twice in a guest without grants, at different times and with different random numbers, and returns
 * both answers as JSON; or why it could not be loaded, with `isPassing` if a retry may succeed.
 */
export type DescribeSchemas = (
  bundle: string,
  request: SchemaRequest,
) => Promise<readonly [string, string] | { readonly fault: string; readonly isPassing?: boolean }>;

/** A path into the arguments that selects exactly the intended values. */
export type Reach = readonly ReachStep[];

/**
 * A property name; `*` for each element of an array or value of a record; the elements from an index on; or the values
 * whose keys match one regular expression and not the other.
 */
export type ReachStep =
  | string
  | { readonly from: number }
  | { readonly match?: string; readonly unless?: string }
  | ReachCondition;

/** A condition on the value: it is none of these values, or a property of it has one of the values. */
export type ReachCondition =
  | { readonly not: readonly unknown[] }
  | { readonly property: string; readonly is: readonly unknown[] };

/** A definition as input of the compiler: all its own files, already read. */
export interface DefinitionSource {
  readonly language: "typescript" | "shell";
  /** The server it is compiled for; a shell definition's tool is named after it. */
  readonly server: string;
  /** A key of `files`. */
  readonly entry: string;
  /** Path relative to the source folder → text, or base64 for binary files. Only these can be imported. */
  readonly files: Readonly<Record<string, string>>;
  /** The npm packages that its imports reach; absent if there are none. */
  readonly packages?: PackagesInReach;
}

/** A definition after discovery and bundling: everything the serving process needs to list and run it. */
export interface Compiled extends Discovery {
  /** One self-contained ES module (TypeScript) or the script itself (shell); absent when nothing can run. */
  readonly bundle?: string;
  /** The parts of the bundle that come from npm packages, largest first; absent if there are none. */
  readonly packages?: readonly PackageShare[];
}

/** The part of a bundle that comes from one package. */
export interface PackageShare {
  readonly name: string;
  readonly version: string;
  readonly bytes: number;
}

/** Problems that prevent a valid definition from being bundled, such as an unresolved import. */
export interface Bundling {
  readonly bundling?: readonly Problem[];
}

/** A compilation that failed through no fault of the source: a retry may succeed. */
export function isServiceFault({ code }: Pick<Problem, "code">): boolean {
  return code === "compiler-unavailable" || code === "compiler-closed";
}
