import type {
  Contract,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  ToolContract,
} from "../contract/contract.ts";
import { cutText } from "../lib/cut-text.ts";
import { turnTaker } from "../lib/event-loop.ts";
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
  readonly list: Exclude<keyof Contract, "description">;
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
  const [tools, resources, resourceTemplates, prompts] = await Promise.all([
    orNone("tools", "tools/list", upstream.listTools(options)),
    orNone("resources", "resources/list", upstream.listResources(options)),
    orNone("resourceTemplates", "resources/templates/list", upstream.listResourceTemplates(options)),
    orNone("prompts", "prompts/list", upstream.listPrompts(options)),
  ]);
  // A list of templates does not make up for a failing list of resources.
  const offered = ["tools", "resources", "prompts"].filter((list) => capabilities[list] !== undefined);
  const broken = offered.flatMap((list) => failed.find((each) => each.list === list) ?? []);
  if (offered.length > 0 && broken.length === offered.length) throw broken[0]!.error;
  const lists = [tools, resources, resourceTemplates, prompts];
  return {
    ...(upstream.instructions !== undefined && { description: upstream.instructions }),
    tools: tools.items,
    resources: resources.items,
    resourceTemplates: resourceTemplates.items,
    prompts: prompts.items,
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
 * The contract from a server's lists, in its own order: only fields that a contract knows. Other calls get their turn
 * meanwhile.
 */
export async function contractOf(survey: Survey): Promise<Contract> {
  const { description, tools, resources, resourceTemplates, prompts } = survey;
  return {
    ...(description !== undefined && { description }),
    tools: await each(tools, toolOf),
    resources: await each(resources, resourceOf),
    resourceTemplates: await each(resourceTemplates, templateOf),
    prompts: await each(prompts, promptOf),
  };
}

async function each<Item, Made>(items: readonly Item[], make: (item: Item) => Made): Promise<Made[]> {
  const turn = turnTaker();
  const made: Made[] = [];
  for (const item of items) {
    await turn();
    made.push(make(item));
  }
  return made;
}

function toolOf({ name, title, description, inputSchema, outputSchema, annotations }: ListedTool): ToolContract {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema !== undefined && { outputSchema }),
    ...(annotations !== undefined && { annotations }),
  };
}

function resourceOf({ uri, ...named }: ListedResource): ResourceContract {
  return { uri, ...namedOf(named) };
}

function templateOf({ uriTemplate, ...named }: ListedTemplate): ResourceTemplateContract {
  return { uriTemplate, ...namedOf(named) };
}

function namedOf({ name, title, description, mimeType }: Omit<ResourceContract, "uri">): Omit<ResourceContract, "uri"> {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
  };
}

function promptOf({ name, title, description, arguments: args }: ListedPrompt): PromptContract {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(args !== undefined && {
      arguments: args.map(({ name, description, required }) => ({
        name,
        ...(description !== undefined && { description }),
        required,
      })),
    }),
  };
}
