import type { JsonSchema } from "../lib/json.ts";

/**
 * The clients' view of a server, and what a difference between two such views means for them. A leaf: it serves hosted
 * definitions and upstreams alike, so it knows neither.
 */

/** The clients' view of a server. Its CID changes exactly when this view does. */
export interface Contract {
  readonly description?: string;
  readonly tools: readonly ToolContract[];
  readonly resources: readonly ResourceContract[];
  readonly resourceTemplates: readonly ResourceTemplateContract[];
  readonly prompts: readonly PromptContract[];
}

export interface ToolContract {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  /** Schema of `structuredContent`: any JSON Schema 2020-12, not only objects. */
  readonly outputSchema?: JsonSchema;
  readonly annotations?: ToolAnnotations;
}

export interface ResourceContract {
  readonly uri: string;
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType?: string;
}

export interface ResourceTemplateContract extends Omit<ResourceContract, "uri"> {
  /** RFC 6570. */
  readonly uriTemplate: string;
}

export interface PromptContract {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly arguments?: readonly PromptArgument[];
}

export interface PromptArgument {
  readonly name: string;
  readonly description?: string;
  readonly required: boolean;
}

export interface ToolAnnotations {
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}
