import type { PromptContract } from "../../contract/contract.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import type { Completer, Completion, Prompt, PromptResult, ReadResult, Resource } from "./catalog.ts";
import { LongObject } from "../calls/long-result.ts";
import { callUpstream, passedOn, type UpstreamRequest } from "../calls/upstream-call.ts";
import { heldBack, type HostedUpstream } from "../serving/hosted.ts";
import { completionOf, contentsOf, messagesOf } from "../calls/upstream-results.ts";

/** A resource that the upstream reads, listed or not. */
export function upstreamResource({ upstream, suspended, limits }: HostedUpstream, uri: string): Resource {
  const send: Send<ReadResult> = async (connection, sent) => {
    const result = await connection.readResource(uri, sent);
    return result instanceof LongObject ? result : { contents: contentsOf(result.contents) };
  };
  return {
    async read(options) {
      try {
        return await callUpstream(upstream, suspended, { send }, options);
      } catch (error) {
        if (isNotFound(error)) throw new BerthError("resource_not_found", uri, { data: { uri }, cause: error });
        throw passedOn(error, limits);
      }
    },
  };
}

export function upstreamPrompt(hosted: HostedUpstream, contract: PromptContract): Prompt {
  const { upstream, suspended, limits } = hosted;
  return {
    contract,
    async get(args, options) {
      const wrong = Object.keys(args).find((name) => typeof args[name] !== "string");
      if (wrong !== undefined) throw new BerthError("invalid_params", `/${wrong} must be a text`);
      const texts = args as Record<string, string>;
      const send: Send<PromptResult> = async (connection, sent) => {
        hosted.check("prompt", contract);
        const result = await connection.getPrompt(contract.name, texts, sent);
        return result instanceof LongObject ? result : messagesOf(result);
      };
      try {
        return await callUpstream(upstream, suspended, { send }, options);
      } catch (error) {
        throw passedOn(error, limits);
      }
    },
  };
}

/** A prompt that waits for a person: a client that knows it from before is told why it is not there. */
export function heldPrompt(contract: PromptContract): Prompt {
  return { contract, get: () => Promise.reject(heldBack("prompt", contract.name)) };
}

export function upstreamCompleter(
  { upstream, suspended, limits }: HostedUpstream,
  ref: JsonObject,
  argument: string,
): Completer {
  return {
    async complete(value, others, options) {
      const params = {
        ref,
        argument: { name: argument, value },
        ...(Object.keys(others).length > 0 && { context: { arguments: others } }),
      };
      try {
        const send: Send<Completion> = async (connection, sent) =>
          completionOf(await connection.complete(params, sent));
        const completion = await callUpstream(upstream, suspended, { send }, options);
        if ("inputRequests" in completion) throw new BerthError("guest_failed", "a completion cannot ask");
        return completion;
      } catch (error) {
        throw passedOn(error, limits);
      }
    },
  };
}

type Send<T> = UpstreamRequest<T>["send"];

/** -32002 until 2025-11-25, -32602 since. */
function isNotFound(error: unknown): boolean {
  if (!(error instanceof UpstreamError) || error.code !== "upstream_refused") return false;
  return [-32002, -32602].includes(error.data?.["rpc"] as number);
}
