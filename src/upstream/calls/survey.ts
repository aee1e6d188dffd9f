import type { Contract, ContractList } from "../../contract/contract.ts";
import { offeredExtensions, relayedExtensions } from "../../contract/extensions.ts";
import { withoutReserved } from "../../contract/reserved-meta.ts";
import { cutText } from "../../lib/cut-text.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { JsonObject } from "../../lib/json.ts";
import { firstProblems, type Problem } from "../../lib/problem.ts";
import type { UpstreamListed, ListedPrompt, ListedResource, ListedTemplate, ListedTool } from "../messages/lists.ts";
import type { RequestOptions } from "../messages/request.ts";
import { isMethodError, isUnknownMethod, type UpstreamError } from "../messages/upstream-error.ts";
import type { UpstreamConnection } from "./connection.ts";

export interface Survey extends Contract {
  readonly tools: readonly ListedTool[];
  readonly resources: readonly ListedResource[];
  readonly resourceTemplates: readonly ListedTemplate[];
  readonly prompts: readonly ListedPrompt[];
  /** Lists that the server failed to send; at most their first pages are included. */
  readonly failed: readonly FailedList[];
  readonly problems: readonly Problem[];
  readonly bytes: number;
}

export interface FailedList {
  readonly list: ContractList;
  readonly error: UpstreamError;
}

/** Like `surveyLists`; rejects if nothing is listed because lists fail. */
export async function surveyServer(upstream: UpstreamConnection, options?: RequestOptions): Promise<Survey> {
  const survey = await surveyLists(upstream, options);
  requireEntries(survey, survey.failed);
  return survey;
}

/** For callers that would compare or store an empty contract. Throws if nothing is listed because lists fail. */
export function requireEntries(contract: Contract, [failed]: readonly FailedList[]): void {
  const { tools, resources, resourceTemplates, prompts } = contract;
  if (failed && [tools, resources, resourceTemplates, prompts].every((list) => list.length === 0)) throw failed.error;
}

/**
 * Requests all lists concurrently; those that the server does not have are empty. A list that fails affects no other
 * list, and is reported as a problem. Rejects if the server is gone.
 */
export async function surveyLists(upstream: UpstreamConnection, options?: RequestOptions): Promise<Survey> {
  const { capabilities } = upstream;
  const orEmpty = <T>(request: Promise<UpstreamListed<T>>): Promise<UpstreamListed<T>> =>
    request.catch((error: unknown) => {
      if (!isMethodError(error)) throw error;
      return { items: [], problems: [], bytes: 0, failure: error };
    });
  const lists = await Promise.all([
    orEmpty(upstream.listTools(options)),
    orEmpty(upstream.listResources(options)),
    orEmpty(upstream.listResourceTemplates(options)),
    orEmpty(upstream.listPrompts(options)),
    orEmpty(upstream.listSkills(options)),
  ]);
  const [tools, resources, resourceTemplates, prompts, skills] = lists;
  const failed: FailedList[] = [];
  const problems: Problem[] = [];
  for (const [index, { failure }] of lists.entries()) {
    const [list, method] = METHODS[index]!;
    // Servers that have resources need not support templates.
    if (!failure || (list === "resourceTemplates" && isUnknownMethod(failure))) continue;
    failed.push({ list, error: failure });
    problems.push(methodProblem(method, failure, "only entries listed before are used"));
  }
  const extensions = (upstream.era === "modern" ? offeredExtensions : relayedExtensions)(capabilities);
  return {
    ...(upstream.instructions !== undefined && { description: upstream.instructions }),
    tools: tools.items,
    resources: resources.items,
    resourceTemplates: resourceTemplates.items,
    prompts: prompts.items,
    ...(skills.items.length > 0 && { skills: skills.items }),
    ...(extensions && { extensions }),
    failed,
    problems: firstProblems([...problems, ...lists.flatMap((list) => list.problems)]),
    bytes: lists.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

const METHODS: readonly (readonly [list: ContractList, method: string])[] = [
  ["tools", "tools/list"],
  ["resources", "resources/list"],
  ["resourceTemplates", "resources/templates/list"],
  ["prompts", "prompts/list"],
  ["skills", "skills/list"],
];

/** The problem of an advertised method that fails: the server is used without it. */
export function methodProblem(method: string, error: UpstreamError, effect = "it is left out"): Problem {
  const [code, message] = isUnknownMethod(error)
    ? ["method-missing", `It advertises ${method} but does not know that method; ${effect}.`]
    : ["method-failed", `${method} fails; ${effect}: ${cutText(error.message, MESSAGE_UNITS_MAX)}`];
  return { code, message, severity: "warning" };
}

/** Bounded, because the server controls the text. */
const MESSAGE_UNITS_MAX = 500;

/**
 * The contract from a server's lists, in its own order, without the members of `_meta` that are not for clients. Yields
 * to other calls.
 */
export async function toContract(survey: Survey): Promise<Contract> {
  const { description, tools, resources, resourceTemplates, prompts, skills, extensions } = survey;
  return {
    ...(description !== undefined && { description }),
    tools: await passAll(tools),
    resources: await passAll(resources),
    resourceTemplates: await passAll(resourceTemplates),
    prompts: await passAll(prompts),
    ...(skills && { skills }),
    ...(extensions && { extensions }),
  };
}

async function passAll<Item extends { readonly _meta?: JsonObject }>(items: readonly Item[]): Promise<Item[]> {
  const maybeYield = createYielder();
  const passed: Item[] = [];
  for (const item of items) {
    await maybeYield();
    passed.push(passOn(item));
  }
  return passed;
}

function passOn<Item extends { readonly _meta?: JsonObject }>(item: Item): Item {
  if (item._meta === undefined) return item;
  const meta = withoutReserved(item._meta);
  if (meta === item._meta) return item;
  const { _meta, ...rest } = item;
  return { ...rest, ...(meta && { _meta: meta }) } as Item;
}
