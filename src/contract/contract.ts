import type { Cid } from "../lib/cid.ts";
import type { JsonObject, JsonSchema } from "../lib/json.ts";

/** The clients' view of a server. Serves hosted definitions and upstreams alike, so it knows neither. */

/** The clients' view of a server. Its CID changes exactly when this view does. */
export interface Contract {
  readonly description?: string;
  readonly tools: readonly ToolContract[];
  readonly resources: readonly ResourceContract[];
  readonly resourceTemplates: readonly ResourceTemplateContract[];
  readonly prompts: readonly PromptContract[];
  /** The apps that tools name, by URI; absent if there are none. */
  readonly apps?: readonly AppContract[];
  /** The protocol extensions that it supports, by name, with their settings (2026-07-28 `capabilities.extensions`). */
  readonly extensions?: JsonObject;
  /** By URI; absent if there are none. */
  readonly skills?: readonly SkillContract[];
}

/** An app and its digest: the CID of the structure of its contents, with their media types and `_meta`. */
export interface AppContract {
  readonly uri: string;
  readonly cid: Cid;
}

/** The lists of a contract. */
export type ContractList = "tools" | "resources" | "resourceTemplates" | "prompts" | "skills";

/** Fields that any item may have. Upstreams' items may have further fields, which are passed on. */
interface Listed {
  readonly icons?: readonly JsonObject[];
  readonly _meta?: JsonObject;
}

export interface ToolContract extends Listed {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  /** Schema of `structuredContent`: any JSON Schema 2020-12, not only objects. */
  readonly outputSchema?: JsonSchema;
  readonly annotations?: ToolAnnotations;
  readonly execution?: JsonObject;
}

export interface ResourceContract extends Listed {
  readonly uri: string;
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType?: string;
  /** In bytes. */
  readonly size?: number;
  readonly annotations?: JsonObject;
}

export interface ResourceTemplateContract extends Omit<ResourceContract, "uri" | "size"> {
  /** RFC 6570. */
  readonly uriTemplate: string;
}

export interface PromptContract extends Listed {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly arguments?: readonly PromptArgument[];
}

export interface PromptArgument {
  readonly name: string;
  readonly description?: string;
  /** False if absent. */
  readonly required?: boolean;
}

export interface ToolAnnotations {
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

/** One skill, with all its files, so that a client can check what it reads. */
export interface SkillContract {
  /** The address of its SKILL.md. */
  readonly uri: string;
  readonly frontmatter: SkillFrontmatter;
  /** `dynamic`: only for upstreams, whose files have no stable digests. */
  readonly resources: readonly SkillFile[] | "dynamic";
}

/** The frontmatter of a SKILL.md, every field as its author wrote it. */
export type SkillFrontmatter = JsonObject & { readonly name: string; readonly description: string };

export interface SkillFile {
  readonly uri: string;
  /** `sha256:` and 64 lowercase hexadecimal digits, of the file's bytes. */
  readonly digest: string;
  /** In bytes. */
  readonly size: number;
}
