import type { Contract, ContractList } from "../contract/contract.ts";
import { offeredExtensions, relayedExtensions } from "../contract/extensions.ts";
import { withoutReserved } from "../contract/reserved-meta.ts";
import { cutText } from "../lib/cut-text.ts";
import { turnTaker } from "../lib/event-loop.ts";
import type { JsonObject } from "../lib/json.ts";
import { firstProblems, type Problem } from "../lib/problem.ts";
import type { UpstreamConnection } from "./connection.ts";
import type { UpstreamListed, ListedPrompt, ListedResource, ListedTemplate, ListedTool } from "./lists.ts";
import type { RequestOptions } from "./request.ts";
import { UpstreamError } from "./upstream-error.ts";

/** Everything that a server lists, and its faults. */
export interface Survey extends Contract {
  readonly tools: readonly ListedTool[];
  readonly resources: readonly ListedResource[];
  readonly resourceTemplates: readonly ListedTemplate[];
  readonly prompts: readonly ListedPrompt[];
  /** Empty here, because the server failed to send them. */
  readonly failed: readonly FailedList[];
  readonly problems: readonly Problem[];
  /** The size of everything listed. */
  readonly bytes: number;
}

export interface FailedList {
  readonly list: ContractList;
  readonly error: UpstreamError;
}

/**
 * Requests every list at once; those that the server does not have are empty. One that fails is left out with a
 * problem, and the others count; rejects if none of them works, or the server is gone.
 */
export async function surveyOf(upstream: UpstreamConnection, options?: RequestOptions): Promise<Survey> {
  const { capabilities } = upstream;
  const failed: FailedList[] = [];
  const problems: Problem[] = [];
  const orNone = async <T>(
    list: FailedList["list"],
    method: string,
    asked: Promise<UpstreamListed<T>>,
  ): Promise<UpstreamListed<T>> => {
    try {
      return await asked;
    } catch (error) {
      if (!isOfOneMethod(error)) throw error;
      // Servers that have resources need not know templates.
      const isExpected = list === "resourceTemplates" && isUnknownMethod(error);
      if (!isExpected) {
        failed.push({ list, error });
        problems.push(methodProblem(method, error));
      }
      return { items: [], problems: [], bytes: 0 };
    }
  };
  const [tools, resources, resourceTemplates, prompts, skills] = await Promise.all([
    orNone("tools", "tools/list", upstream.listTools(options)),
    orNone("resources", "resources/list", upstream.listResources(options)),
    orNone("resourceTemplates", "resources/templates/list", upstream.listResourceTemplates(options)),
    orNone("prompts", "prompts/list", upstream.listPrompts(options)),
    orNone("skills", "skills/list", upstream.listSkills(options)),
  ]);
  // A list of templates does not make up for a failing list of resources.
  const offered = ["tools", "resources", "prompts"].filter((list) => capabilities[list] !== undefined);
  const broken = offered.flatMap((list) => failed.find((each) => each.list === list) ?? []);
  if (offered.length > 0 && broken.length === offered.length) throw broken[0]!.error;
  const lists = [tools, resources, resourceTemplates, prompts, skills];
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

/** True when one method alone fails: the server is there, and may do everything else. */
export function isOfOneMethod(error: unknown): error is UpstreamError {
  if (!(error instanceof UpstreamError)) return false;
  return error.code === "upstream_refused" || error.code === "upstream_timeout" || error.code === "upstream_protocol";
}

/** A server that advertises what it does not have is used for the rest. */
export function methodProblem(method: string, error: UpstreamError): Problem {
  if (isUnknownMethod(error)) {
    const message = `It advertises ${method} but does not know that method; it is left out.`;
    return { code: "method-missing", message, severity: "warning" };
  }
  const message = `${method} fails and is left out: ${cutText(error.message, MESSAGE_UNITS_MAX)}`;
  return { code: "method-failed", message, severity: "error" };
}

function isUnknownMethod(error: UpstreamError): boolean {
  return error.data?.["rpc"] === METHOD_NOT_FOUND;
}

const METHOD_NOT_FOUND = -32601;
/** Bounded, because the server may say anything. */
const MESSAGE_UNITS_MAX = 500;

/**
 * The contract from a server's lists, in its own order. All that it says is kept but for the members of `_meta` that are
 * not for clients. Other calls get their turn meanwhile.
 */
export async function contractOf(survey: Survey): Promise<Contract> {
  const { description, tools, resources, resourceTemplates, prompts, skills, extensions } = survey;
  return {
    ...(description !== undefined && { description }),
    tools: await each(tools),
    resources: await each(resources),
    resourceTemplates: await each(resourceTemplates),
    prompts: await each(prompts),
    ...(skills && { skills }),
    ...(extensions && { extensions }),
  };
}

async function each<Item extends { readonly _meta?: JsonObject }>(items: readonly Item[]): Promise<Item[]> {
  const turn = turnTaker();
  const made: Item[] = [];
  for (const item of items) {
    await turn();
    made.push(passed(item));
  }
  return made;
}

function passed<Item extends { readonly _meta?: JsonObject }>(item: Item): Item {
  if (item._meta === undefined) return item;
  const meta = withoutReserved(item._meta);
  if (meta === item._meta) return item;
  const { _meta, ...rest } = item;
  return { ...rest, ...(meta && { _meta: meta }) } as Item;
}
