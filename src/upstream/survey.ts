import type { Contract } from "../contract/contract.ts";
import { firstProblems, type Problem } from "../problem.ts";
import type { UpstreamConnection } from "./connection.ts";
import type { RequestOptions } from "./request.ts";
import { UpstreamError } from "./upstream-error.ts";
import type { Listed, ListedPrompt, ListedResource, ListedTemplate, ListedTool } from "./lists.ts";

/** All that a server lists, and what was wrong in it. */
export interface Survey extends Contract {
  readonly tools: readonly ListedTool[];
  readonly resources: readonly ListedResource[];
  readonly resourceTemplates: readonly ListedTemplate[];
  readonly prompts: readonly ListedPrompt[];
  readonly problems: readonly Problem[];
  /** Of all that was listed. */
  readonly bytes: number;
}

/** Asks for every list at once; those that the server does not have are empty. */
export async function surveyOf(upstream: UpstreamConnection, options?: RequestOptions): Promise<Survey> {
  const [tools, resources, resourceTemplates, prompts] = await Promise.all([
    upstream.listTools(options),
    upstream.listResources(options),
    upstream.listResourceTemplates(options).catch(noneIfUnknown),
    upstream.listPrompts(options),
  ]);
  const lists = [tools, resources, resourceTemplates, prompts];
  return {
    ...(upstream.instructions !== undefined && { description: upstream.instructions }),
    tools: tools.items,
    resources: resources.items,
    resourceTemplates: resourceTemplates.items,
    prompts: prompts.items,
    problems: firstProblems(lists.flatMap(({ problems }) => problems)),
    bytes: lists.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

/** Servers that have resources need not know templates. */
function noneIfUnknown(error: unknown): Listed<ListedTemplate> {
  const isUnknown = error instanceof UpstreamError && error.data?.["rpc"] === METHOD_NOT_FOUND;
  if (!isUnknown) throw error;
  return { items: [], problems: [], bytes: 0 };
}

const METHOD_NOT_FOUND = -32601;
