import type { Contract, PromptContract, ToolContract } from "../../contract/contract.ts";
import { BerthError, type ErrorCode } from "../../errors.ts";
import type { Json, JsonObject } from "../../json.ts";
import type { Limits } from "../../config.ts";
import { contextMeta } from "../../outcome/context.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type {
  CallOptions,
  CallResult,
  Catalog,
  Completer,
  ContentBlock,
  InputRequired,
  Prompt,
  PromptResult,
  Resource,
  ResourceContents,
  Tool,
} from "../catalog.ts";
import { failure, isContentBlock } from "../content.ts";
import type { CallNotes } from "../observe.ts";
import { endOfResult, type Ended } from "../outcomes.ts";
import { contextOf, refusal } from "../../outcome/given.ts";
import { persist, type Persisted, type RetryLimits, type Tries } from "../../outcome/persist.ts";
import { callUpstream, passedOn, type UpstreamRequest } from "./call.ts";
import { heldBack, type HostedUpstream } from "./hosted.ts";
import { toolCid } from "./judge.ts";
import { withoutSuspended } from "./suspended.ts";

/** What is served of a server of others, and by what of its own. */
export interface Served {
  readonly contract: Contract;
  readonly originals: ReadonlyMap<string, ToolContract>;
  /** Not listed; who knows one from before is told why it is not called. */
  readonly held: readonly ToolContract[];
  /** What a tool finds in its call's context, by the name that clients know. */
  readonly optionsOf: (tool: string) => JsonObject;
  /** Of the tool that clients know by this name. */
  readonly notesOf: (tool: string) => CallNotes;
  readonly limits: RetryLimits & Pick<Limits, "upstreamCallMs">;
  /** Hears of a tool that contradicts itself. */
  readonly warn: (tool: string, message: string) => void;
}

/** How a contract of a server of others is carried out: by the server, whatever it takes to reach it. */
export function upstreamParts(
  hosted: HostedUpstream,
  served: Served,
): Pick<Catalog, "tool" | "resource" | "prompt" | "completer"> {
  const { contract } = served;
  const tools = new Map([
    ...served.held.map((tool) => [tool.name, heldTool(tool, served.notesOf(tool.name))] as const),
    ...contract.tools.map((tool) => [tool.name, toolOf(hosted, tool, served)] as const),
  ]);
  const prompts = new Map(contract.prompts.map((prompt) => [prompt.name, promptOf(hosted, prompt)]));
  const offersResources = contract.resources.length > 0 || contract.resourceTemplates.length > 0;
  const templates = new Set(contract.resourceTemplates.map(({ uriTemplate }) => uriTemplate));
  return {
    tool: (name) => tools.get(name),
    prompt: (name) => prompts.get(name),
    // Servers have resources that they do not list.
    resource: (uri) => (offersResources ? resourceOf(hosted, uri) : undefined),
    completer: (of, argument) => {
      if (prompts.has(of)) return completerOf(hosted, { type: "ref/prompt", name: of }, argument);
      return templates.has(of) ? completerOf(hosted, { type: "ref/resource", uri: of }, argument) : undefined;
    },
  };
}

function toolOf(hosted: HostedUpstream, contract: ToolContract, served: Served): Tool {
  const { originals, optionsOf, notesOf, limits, warn } = served;
  const original = originals.get(contract.name) ?? contract;
  const cid = toolCid(original);
  const { name } = original;
  const configured = optionsOf(contract.name);
  const notes = notesOf(contract.name);

  /** Makes the call once, and reads what the server says of how it ended. */
  const once = async (args: JsonObject, options: CallOptions): Promise<Ended> => {
    const meta = contextMeta(contextOf(name, args, options, configured));
    const send: UpstreamRequest<CallResult>["send"] = async (connection, sent) => {
      hosted.check(name, cid);
      return resultOf(await connection.callTool(name, args, sent));
    };
    const result = await callUpstream(hosted.upstream, hosted.suspended, { name, meta, send }, options);
    if ("inputRequests" in result) return { result };
    return endOfResult(result, (message) => warn(contract.name, message)) ?? { result };
  };

  const persistent = async (args: JsonObject, options: CallOptions, beganAt: number): Promise<Persisted<Ended>> => {
    const first = await once(args, options);
    const tries: Tries<Ended, CallOptions> = {
      // A call that is made anew goes on with none that was suspended.
      run: (again) => once(args, again.answers ? { ...again, answers: withoutSuspended(again.answers) } : again),
      transientOf: ({ transient }) => transient,
      questionsOf: ({ result }) => ("inputRequests" in result ? result.inputRequests : undefined),
    };
    const deadlineAt = beganAt + (options.deadlineMs ?? limits.upstreamCallMs);
    return persist(first, tries, { contract, options, deadlineAt, limits });
  };

  return {
    contract,
    async call(args, callOptions) {
      const beganAt = performance.now();
      const refused = callOptions.answers && refusal(contract.name, callOptions.answers);
      notes.entered();
      try {
        if (refused !== undefined) return notes.ended("error", beganAt, args, callOptions, failure(refused));
        const { result: ended, retries, needs } = await persistent(args, callOptions, beganAt);
        const result = needs === undefined ? ended.result : failure(needs);
        if ("inputRequests" in result) notes.ended("asked", beganAt, args, callOptions, undefined, retries);
        else notes.ended(result.isError ? "error" : "ok", beganAt, args, callOptions, result, retries);
        return result;
      } catch (error) {
        notes.ended("error", beganAt, args, callOptions, undefined);
        return asFailure(error, callOptions);
      } finally {
        notes.left();
      }
    },
  };
}

function heldTool(contract: ToolContract, notes: CallNotes): Tool {
  return {
    contract,
    async call(args, options) {
      notes.ended("error", performance.now(), args, options, undefined);
      return asFailure(heldBack(contract.name), options);
    },
  };
}

/** A server that did not finish is a failed call; one that refused the request is passed on as what it said. */
function asFailure(error: unknown, { failuresReject }: CallOptions): CallResult {
  const passed = passedOn(error);
  if (!(passed instanceof BerthError) || failuresReject) throw passed;
  if (!(passed.code in UNFINISHED)) throw passed;
  return failure(passed.message);
}

const UNFINISHED: Partial<Record<ErrorCode, true>> = {
  upstream_not_started: true,
  upstream_ended: true,
  upstream_timeout: true,
  upstream_protocol: true,
  upstream_busy: true,
  upstream_changed: true,
  guest_failed: true,
};

/** The fields of a result that every revision has. */
export function resultOf({
  content,
  structuredContent,
  isError,
}: {
  content: readonly unknown[];
  structuredContent?: unknown;
  isError?: boolean;
}): CallResult {
  return {
    content: content.filter((block): block is ContentBlock => isContentBlock(block as Json)),
    ...(structuredContent !== undefined && { structuredContent: structuredContent as Json }),
    ...(isError === true && { isError: true }),
  };
}

function resourceOf(hosted: HostedUpstream, uri: string): Resource {
  return {
    async read(options) {
      try {
        return await callUpstream(
          hosted.upstream,
          hosted.suspended,
          {
            send: async (connection, sent) => ({
              contents: contentsOf((await connection.readResource(uri, sent)).contents),
            }),
          },
          options,
        );
      } catch (error) {
        if (isNotFound(error)) throw new BerthError("resource_not_found", uri, { data: { uri }, cause: error });
        throw passedOn(error);
      }
    },
  };
}

/** -32002 until 2025-11-25, -32602 since. */
function isNotFound(error: unknown): boolean {
  if (!(error instanceof UpstreamError) || error.code !== "upstream_refused") return false;
  return [-32002, -32602].includes(error.data?.["rpc"] as number);
}

function contentsOf(
  contents: readonly { readonly uri: string; readonly [field: string]: unknown }[],
): ResourceContents[] {
  return contents.flatMap(({ uri, mimeType, text, blob }): ResourceContents[] => {
    const named = { uri, ...(typeof mimeType === "string" && { mimeType }) };
    if (typeof text === "string") return [{ ...named, text }];
    return typeof blob === "string" ? [{ ...named, blob }] : [];
  });
}

function promptOf(hosted: HostedUpstream, contract: PromptContract): Prompt {
  return {
    contract,
    async get(args, options) {
      const wrong = Object.keys(args).find((name) => typeof args[name] !== "string");
      if (wrong !== undefined) throw new BerthError("invalid_params", `/${wrong} must be a text`);
      const texts = args as Record<string, string>;
      try {
        return await callUpstream<PromptResult>(
          hosted.upstream,
          hosted.suspended,
          { send: async (connection, sent) => messagesOf(await connection.getPrompt(contract.name, texts, sent)) },
          options,
        );
      } catch (error) {
        throw passedOn(error);
      }
    },
  };
}

function messagesOf({
  description,
  messages,
}: {
  description?: string;
  messages: readonly { role: string; content: unknown }[];
}): PromptResult {
  return {
    ...(description !== undefined && { description }),
    messages: messages.flatMap(({ role, content }): PromptResult["messages"] => {
      const isKnown = (role === "user" || role === "assistant") && isContentBlock(content as Json);
      return isKnown ? [{ role, content: content as ContentBlock }] : [];
    }),
  };
}

function completerOf(hosted: HostedUpstream, ref: JsonObject, argument: string): Completer {
  return {
    async complete(value, others, options) {
      const params = {
        ref,
        argument: { name: argument, value },
        ...(Object.keys(others).length > 0 && { context: { arguments: others } }),
      };
      try {
        const completion = await callUpstream(
          hosted.upstream,
          hosted.suspended,
          { send: (connection, sent) => connection.complete(params, sent) },
          options,
        );
        return completionOf(completion);
      } catch (error) {
        throw passedOn(error);
      }
    },
  };
}

const VALUES_MAX = 100;

function completionOf(completion: { readonly values: readonly string[] } | InputRequired) {
  if ("inputRequests" in completion) throw new BerthError("guest_failed", "a completion cannot ask");
  const { total, hasMore } = completion as { total?: unknown; hasMore?: unknown };
  const values = completion.values.slice(0, VALUES_MAX);
  return {
    values,
    total: typeof total === "number" ? total : completion.values.length,
    hasMore: hasMore === true || completion.values.length > VALUES_MAX,
  };
}
