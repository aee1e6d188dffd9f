import type { PromptArgument, SkillFrontmatter, ToolAnnotations } from "../contract/contract.ts";
import type { Icon } from "../contract/icons.ts";
import type { Cid } from "../lib/cid.ts";
import type { JsonObject, JsonSchema } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import type { PackagesInReach } from "../packages/package-set.ts";

export type { PromptArgument, SkillFrontmatter, ToolAnnotations } from "../contract/contract.ts";

/**
 * This folder turns the source of a definition into its tools, its problems and its bundle. A process that serves comes
 * in by `compiler.ts`, which starts `compiler-child.ts`: that process alone loads the compiler and the bundler. The
 * folder must not know how results are stored, or how guests are carried out.
 */

/**
 * Everything found in a definition's source. Pure data: it is stored by content and read by the serving process,
 * which never loads the compiler that made it.
 */
export interface Discovery {
  readonly tools: readonly DiscoveredTool[];
  readonly resources: readonly DiscoveredResource[];
  readonly prompts: readonly DiscoveredPrompt[];
  readonly completions: readonly DiscoveredCompletion[];
  /** The apps that its tools name with `@ui`, in the order of the source; absent where there are none. */
  readonly apps?: readonly DiscoveredApp[];
  /** Every problem found. An error with a `tool` leaves that tool out; the others are still here. */
  readonly problems: readonly Problem[];
  /** The grants that its tags request, in the order of the source; absent where there are none. They grant nothing. */
  readonly requested?: readonly RequestedGrant[];
  /** Its skills, by path; absent where it has none. */
  readonly skills?: readonly DiscoveredSkill[];
}

/** A folder with a SKILL.md in the definition's folder of skills. */
export interface DiscoveredSkill {
  /** Its folder, relative to the folder of skills: `refunds`, or `billing/refunds`. */
  readonly path: string;
  readonly frontmatter: SkillFrontmatter;
  /**
   * Its files, by path, relative to its folder; those of skills in it, too. Each is a file of the definition. The digest
   * is the SHA-256 of its bytes in hexadecimal digits.
   */
  readonly files: readonly { readonly path: string; readonly digest: string; readonly size: number }[];
}

/** `@secret NAME` or `@network host[:port]`, each perhaps with a purpose behind it. */
export interface RequestedGrant {
  /** The field of an entry that would grant it. */
  readonly field: "secrets" | "network";
  /** As that field takes it: the name of a secret, or a host. */
  readonly value: string;
  readonly purpose?: string;
  /** Where the tag stands, from 1. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Files of one definition. */
export const sourceBounds = fixed({ sourceFiles: 256 });

/** The discovery of a definition without a single valid function. */
export const nothingFound: Omit<Discovery, "problems" | "apps"> = {
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
  /** The plain schema of the awaited return value; null for `void`, and for results that are already MCP content. */
  readonly outputSchema: JsonSchema | null;
  readonly annotations: ToolAnnotations;
  readonly task?: TaskSupport;
  readonly ui?: ToolUi;
  readonly call: CallShape;
  /** Where the function stands, from 1. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** `@task`: a call of the tool can go on while its caller does something else. */
export interface TaskSupport {
  /** The tool is for clients that know tasks; the others are refused. */
  readonly required: boolean;
  /** The call becomes a task when the function says so (`startTask`), and not at once. */
  readonly deferred: boolean;
}

/** `@ui chart.html`: an app shows the results of the tool; `@ui app`: apps alone call it. */
export interface ToolUi {
  /** The URI of the app. */
  readonly uri?: string;
  /** Absent where models and apps may call it. */
  readonly visibility?: readonly ("model" | "app")[];
}

/** An HTML file of the definition that `@ui` names. */
export interface DiscoveredApp {
  /** `ui://<server>/<path>` */
  readonly uri: string;
  /** The file's path in the definition. */
  readonly file: string;
  /** `_meta.ui` of its contents (`csp`, `permissions`, `prefersBorder`), as the file's first comment says it. */
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

/** A function with `@prompt`: what it returns is the prompt's messages, or the text of one message of the user. */
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

/** The same with its addresses, which the compiler leaves to whoever stores what it found. */
export interface CompiledApp extends DiscoveredApp {
  /** The CID of its file, which is content of the definition. */
  readonly content: Cid;
  /** The CID of what a client reads under its URI. */
  readonly digest: Cid;
}

/** How named arguments become a JavaScript call. Made by discovery, carried out by the guest runner. */
export interface CallShape {
  /** The name under which the bundle exports the function. */
  readonly export: string;
  /** `positional`: one parameter an argument, in `params` order. `object`: the whole arguments object is the only parameter. */
  readonly style: "positional" | "object";
  readonly params: readonly string[];
  /** The last of `params` is a rest parameter: its array is spread. */
  readonly rest?: boolean;
  /** The function takes the host's context after its parameters. */
  readonly context?: boolean;
  /** An async generator: each yield is progress. */
  readonly streaming?: boolean;
  /** A result that is iterable, or has a length, is serialized as an array. */
  readonly list?: boolean;
  /** Arguments that are `Date`s. */
  readonly dates?: readonly Reach[];
  /** Arguments that are `URL`s. */
  readonly urls?: readonly Reach[];
  /**
   * Paths (property names, `*` for each element of an array or value of a record) of arguments whose default is stated
   * only in a comment. Their schema has it, and calls are not completed with it, since the code may differ.
   */
  readonly spokenDefaults?: readonly (readonly string[])[];
  /** The function is a member of what the bundle exports, and called on it: `["weather", "execute"]`. */
  readonly member?: readonly string[];
  /** The property under which the function takes its arguments object. */
  readonly under?: string;
  /** The function takes what other frameworks give a handler after its arguments, and not the host's context. */
  readonly options?: boolean;
  /** Where arguments are parsed by a schema of the definition's own before the function gets them. */
  readonly parsed?: readonly ParsedArgument[];
}

/** A value that the bundle holds: what it exports under a name, or a part of that. */
export interface BundledValue {
  readonly export: string;
  readonly path: readonly string[];
}

export interface ParsedArgument {
  readonly schema: BundledValue;
  /** No steps: all arguments together. */
  readonly at: Reach;
  /** An absent value is parsed, too: the schema has a default for it. */
  readonly absent?: boolean;
  /** Null stands for no value, and is not parsed. */
  readonly orNull?: boolean;
}

/** The schemas and tool objects of a bundle that are to be described as JSON, and what describes those of libraries. */
export interface SchemaRequest {
  readonly schemas: readonly (BundledValue & { readonly io: "input" | "output" })[];
  readonly tools: readonly string[];
  /** The properties one of which makes an object a tool. */
  readonly handlers: readonly string[];
  /** Exports that hold the converters of libraries whose schemas cannot describe themselves. */
  readonly converters: { readonly zod?: string; readonly valibot?: string };
}

/** The JSON Schema of a value, or why there is none, as the end of a sentence. */
export type DescribedSchema = { readonly json: JsonSchema } | { readonly fault: string };

/** A tool object as it is when the bundle has been loaded. */
export interface DescribedTool {
  /** The same for the same object. */
  readonly id: number;
  /** From the export to it. */
  readonly at: readonly string[];
  readonly name?: string;
  readonly title?: string;
  readonly description?: string;
  readonly annotations?: ToolAnnotations;
  readonly input?: DescribedSchema;
  readonly output?: DescribedSchema;
}

/** The answer of a bundle to a request: one element for each of its elements. */
export interface DescribedSchemas {
  readonly schemas: readonly DescribedSchema[];
  readonly tools: readonly (readonly DescribedTool[])[];
  /** Why there is no answer. */
  readonly fault?: string;
}

/**
 * Loads a bundle twice in a guest that has no grants, at different times and with different random numbers, and gives
 * its answers as JSON; or why it does not load, where `isPassing` if another try may succeed.
 */
export type DescribeSchemas = (
  bundle: string,
  request: SchemaRequest,
) => Promise<readonly [string, string] | { readonly fault: string; readonly isPassing?: boolean }>;

/** A path into the arguments that selects exactly the intended values. */
export type Reach = readonly ReachStep[];

/**
 * A property name; `*` for each element of an array or value of a record; the elements from an index on; or the values
 * under the keys that match one regular expression and not the other.
 */
export type ReachStep =
  | string
  | { readonly from: number }
  | { readonly match?: string; readonly unless?: string }
  | ReachCondition;

/** A condition on the value instead of a step: it is not one of the texts, or a property of it has one of the values. */
export type ReachCondition =
  | { readonly not: readonly unknown[] }
  | { readonly property: string; readonly is: readonly unknown[] };

/** A definition as the compiler takes it: all its own files, already read. */
export interface DefinitionSource {
  readonly language: "typescript" | "shell";
  /** The server it is for; a shell definition's tool is named after it. */
  readonly server: string;
  /** A key of `files`. */
  readonly entry: string;
  /** Path relative to the folder of sources (forward slashes) → text, or base64 where the name is one of `isBytes`. Only these can be imported. */
  readonly files: Readonly<Record<string, string>>;
  /** The npm packages that its imports lead to; absent where they lead to none. */
  readonly packages?: PackagesInReach;
}

/** A definition after discovery and bundling: what the serving process needs to list and to run it. */
export interface Compiled extends Discovery {
  /** One self-contained ES module (TypeScript) or the script itself (shell); absent when nothing can run. */
  readonly bundle?: string;
  /** The parts of the bundle that come from npm packages of a set, the largest first; absent where there are none. */
  readonly packages?: readonly PackageShare[];
}

/** The part of a bundle that comes from one package. */
export interface PackageShare {
  readonly name: string;
  readonly version: string;
  readonly bytes: number;
}

/** The problem that keeps a sound definition from being bundled, such as an import that leads nowhere. */
export interface Bundling {
  readonly bundling?: readonly Problem[];
}

/** A compilation that failed through no fault of the source: nothing is known of the source, and the next try may succeed. */
export function isServiceFault({ code }: Pick<Problem, "code">): boolean {
  return code === "compiler-unavailable" || code === "compiler-closed";
}
