import { hashAppContents, hashSkillFile } from "../../contract/contents-digests.ts";
import type { Contract, PromptContract, SkillContract, ToolContract } from "../../contract/contract.ts";
import { EXTENSION_TASKS } from "../../contract/extensions.ts";
import type { Cid } from "../../lib/cid.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import { createCallContext } from "../../outcome/answers.ts";
import { contextMeta } from "../../outcome/context.ts";
import type { RetryLimits } from "../../outcome/retry.ts";
import { appBounds } from "../../upstream/calls/apps.ts";
import type { ToolResult } from "../../upstream/messages/results.ts";
import { RelayedError, UpstreamError, errorBounds } from "../../upstream/messages/upstream-error.ts";
import type { ToolJournal } from "../journal/journal.ts";
import type { CallOptions, CallResult, Completer, Prompt, ReadResult, Resource, Tool } from "../offers/catalog.ts";
import { completionOf } from "../offers/completion.ts";
import { failure, isWrapped } from "../offers/content.ts";
import { LongObject } from "../offers/long-result.ts";
import { endedOf, gotPromptOf, readResultOf } from "../offers/upstream-results.ts";
import { type HostedUpstream, withheldError } from "../upstreams/hosted.ts";
import { type RoundEnd, withoutSuspended } from "../upstreams/upstream-call.ts";
import type { Consent } from "./consent.ts";
import { type Invocable, invocableTool } from "./invoke.ts";

/** The parts that a tool of an upstream needs in addition to its contract. */
export interface UpstreamToolParts {
  readonly hosted: HostedUpstream;
  /** The contract that the upstream lists, before changes by the entry. */
  readonly original: ToolContract;
  /** Its calls may become tasks of the upstream. */
  readonly isTaskTool: boolean;
  /** Options from the entry, sent in the context of calls. */
  readonly configured: JsonObject;
  readonly journal: ToolJournal;
  readonly consent?: Consent | undefined;
  readonly limits: RetryLimits & Pick<Limits, "upstreamCallMs">;
  /** Called for a contradictory result. */
  readonly warn: (message: string) => void;
}

/** A tool of an upstream, which validates the arguments itself. */
export function upstreamTool(contract: ToolContract, parts: UpstreamToolParts): Tool {
  const { hosted, original, isTaskTool, configured, journal, consent, limits, warn } = parts;
  const { name } = original;
  const invocable: Invocable<RoundEnd<ToolResult>> = {
    contract,
    journal,
    consent,
    limits,
    callMs: limits.upstreamCallMs,
    run(args, options) {
      // The context repeats the arguments, so omit it if it has nothing else.
      const context = contextMeta(createCallContext(name, args, options, configured));
      const meta = isEmpty(context) ? options.meta : { ...options.meta, ...context };
      const { task } = options;
      // A legacy upstream has already wrapped the value.
      const isLegacy = options.isLegacy && !isWrapped(original);
      const request = { method: "tools/call", name, args, served: original, meta, task, isLegacy } as const;
      return hosted.run(request, options);
    },
    // A retry is a new call, so it must not resume a suspended one.
    retryOptions: (options) => (options.answers ? { ...options, answers: withoutSuspended(options.answers) } : options),
    read(end) {
      if ("inputRequests" in end) return { outcome: "asked", asked: end };
      const { result, transient: transientMessage } = endedOf(end.ended, warn);
      const transient = end.isOfTask ? undefined : transientMessage;
      if ("inputRequests" in result) return { outcome: "asked", asked: result };
      return { outcome: result.isError ? "error" : "ok", result, transient };
    },
    readThrown: (error, options) => ({ outcome: "error", answer: () => toFailure(error, options) }),
  };
  const tool = invocableTool(invocable, isTaskTool ? DEFERRED_TASK : undefined);
  if (!isTaskTool) return tool;
  return { ...tool, cancelTask: (task, options) => hosted.cancelTask(task, options) };
}

/** The upstream decides for each call whether it becomes a task. */
const DEFERRED_TASK = { required: false, deferred: true };

/** True for a tool whose calls may become tasks. */
export function supportsTasks({ extensions }: Contract, { execution }: ToolContract): boolean {
  const { taskSupport } = execution ?? {};
  if (taskSupport !== undefined) return taskSupport === "optional" || taskSupport === "required";
  return extensions?.[EXTENSION_TASKS] !== undefined;
}

/** A withheld tool. Clients that have it from an earlier list get an error that explains why. */
export function withheldTool(contract: ToolContract, journal: ToolJournal): Tool {
  return {
    contract,
    async call(args, options) {
      journal.record({ args, options, beganAt: performance.now() }, { outcome: "error" });
      const error = withheldError("tool", contract.name);
      if (options.failuresReject) throw error;
      return failure(error.message);
    },
  };
}

/** Turns a failure of the upstream into a result; passes on its error if it refused the request. */
function toFailure(error: unknown, { failuresReject }: CallOptions): CallResult {
  const callerError = toCallerError(error, failuresReject === true && isTaskError(error));
  if (!(callerError instanceof BerthError) || failuresReject) throw callerError;
  if (!(callerError.code in UNFINISHED)) throw callerError;
  return failure(callerError.message);
}

const UNFINISHED: Partial<Record<ErrorCode, true>> = {
  upstream_not_started: true,
  upstream_ended: true,
  answer_lost: true,
  upstream_timeout: true,
  upstream_protocol: true,
  upstream_busy: true,
  too_many_processes: true,
  upstream_changed: true,
  guest_failed: true,
};

function isEmpty(value: JsonObject): boolean {
  for (const _name in value) return false;
  return true;
}

/** The approved contents of a URI. */
export interface ApprovedContents {
  /** Digest of an app; null if no contents are approved, so none are served. */
  readonly app?: Cid | null | undefined;
  /** Skills whose folders contain it, innermost first. */
  readonly skills: readonly SkillContract[];
}

/** A resource of the upstream, listed or not. */
export function upstreamResource(hosted: HostedUpstream, uri: string, { app, skills }: ApprovedContents): Resource {
  const [skill] = skills;
  return {
    async read(options) {
      try {
        const of = skill && { name: skill.uri, served: skill };
        const { meta, isLegacy } = options;
        const end = await hosted.run({ method: "resources/read", uri, ...of, meta, isLegacy }, options);
        if ("inputRequests" in end) return end;
        const read = end.ended instanceof LongObject ? end.ended : readResultOf(end.ended);
        if (app !== undefined) checkApp(hosted, uri, app, read);
        if (skill) checkFile(hosted, uri, skills, read);
        return read;
      } catch (error) {
        if (isMissingResource(error)) throw new BerthError("resource_not_found", uri, { data: { uri }, cause: error });
        throw toCallerError(error);
      }
    },
  };
}

/** Throws `upstream_changed` for contents that are not approved, and triggers a new inspection of the upstream. */
function checkApp(hosted: HostedUpstream, uri: string, approved: Cid | null, { contents }: ReadResult): void {
  if (approved !== null && hashAppContents(contents, appBounds.upstreamAppBytes) === approved) return;
  hosted.upstream.hasChanged();
  const detail = `the app "${uri}" differs from the approved one; it is withheld until the change is approved`;
  throw new BerthError("upstream_changed", detail);
}

/** Like `checkApp`, for a file whose digest differs from the one approved with its skill. */
function checkFile(hosted: HostedUpstream, uri: string, skills: readonly SkillContract[], read: ReadResult): void {
  const listed = skills.flatMap(({ resources }) =>
    resources === "dynamic" ? [] : resources.filter((file) => file.uri === uri),
  );
  if (listed.length === 0) return;
  const digest = read instanceof LongObject ? read.file : hashSkillFile(read.contents);
  if (listed.every((file) => file.digest === digest)) return;
  hosted.upstream.hasChanged();
  const detail = `the file "${uri}" is withheld: its digest differs from the one approved with its skill`;
  throw new BerthError("upstream_changed", detail);
}

/** A file of a withheld skill; see `heldTool`. */
export function withheldFile({ uri }: SkillContract): Resource {
  return { read: () => Promise.reject(withheldError("skill", uri)) };
}

export function upstreamPrompt(hosted: HostedUpstream, contract: PromptContract): Prompt {
  const { name } = contract;
  return {
    contract,
    async get(args, options) {
      const wrong = Object.keys(args).find((name) => typeof args[name] !== "string");
      if (wrong !== undefined) throw new BerthError("invalid_params", `/${wrong} must be a string`);
      const texts = args as Record<string, string>;
      try {
        const { meta, isLegacy } = options;
        const request = { method: "prompts/get", name, args: texts, served: contract, meta, isLegacy } as const;
        const end = await hosted.run(request, options);
        if ("inputRequests" in end) return end;
        return end.ended instanceof LongObject ? end.ended : gotPromptOf(end.ended);
      } catch (error) {
        throw toCallerError(error);
      }
    },
  };
}

/** A withheld prompt; see `heldTool`. */
export function withheldPrompt(contract: PromptContract): Prompt {
  return { contract, get: () => Promise.reject(withheldError("prompt", contract.name)) };
}

export function upstreamCompleter(hosted: HostedUpstream, ref: JsonObject, argument: string): Completer {
  return {
    async complete(value, others, options) {
      const params = {
        ref,
        argument: { name: argument, value },
        ...(Object.keys(others).length > 0 && { context: { arguments: others } }),
      };
      try {
        const end = await hosted.run({ method: "completion/complete", params }, options);
        if ("inputRequests" in end) throw new BerthError("guest_failed", "a completion cannot ask questions");
        return completionOf(end.ended);
      } catch (error) {
        throw toCallerError(error);
      }
    },
  };
}

/** -32002 up to 2025-11-25, -32602 since. */
function isMissingResource(error: unknown): boolean {
  if (!(error instanceof UpstreamError) || error.code !== "upstream_refused") return false;
  return [-32002, -32602].includes(error.data?.["rpc"] as number);
}

/** Turns a failure into the error that the caller gets. An upstream's own errors keep their code, message and data. */
function toCallerError(error: unknown, isWithinTask = false): unknown {
  const { upstreamErrorBytes } = errorBounds;
  // The data of the error shows the URI, which may contain secrets.
  if (error instanceof BerthError && error.code === "launcher_invalid") {
    return new BerthError("upstream_not_started", error.message, { cause: error });
  }
  if (!(error instanceof UpstreamError) || error.code !== "upstream_refused") return error;
  const { rpc, message, data } = error.data ?? {};
  if (typeof rpc !== "number" || typeof message !== "string") return error;
  // The error of a task cannot be mistaken for one of the connection.
  if (!Number.isSafeInteger(rpc) || (CONNECTION_CODES.has(rpc) && !isWithinTask))
    return withoutData(error, rpc, message, upstreamErrorBytes);
  const isShort = data !== undefined && Buffer.byteLength(JSON.stringify(data)) <= upstreamErrorBytes;
  const relayed = { rpc, message: cutText(message, upstreamErrorBytes), data: isShort ? data : undefined };
  const code =
    rpc === INVALID_PARAMS ? "invalid_params" : rpc === MISSING_CAPABILITY ? "missing_capability" : error.code;
  return new RelayedError(code, relayed, error);
}

/** True for the final error of a task of the upstream. */
function isTaskError(error: unknown): boolean {
  return error instanceof UpstreamError && error.data?.["isOfTask"] === true;
}

const INVALID_PARAMS = -32602;
/** 2026-07-28: the client lacks a required capability. The upstream knows the client's capabilities. */
const MISSING_CAPABILITY = -32021;

/**
 * Codes about the connection between Berth and the upstream. Passed on, they would look like errors of Berth's own
 * connection with the client, so they become internal errors (-32603) with the code in their data.
 *
 * Parse error, invalid request, unknown method, not initialized or no such resource, wrong header, version, cancelled.
 */
const CONNECTION_CODES: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32002, -32020, -32022, -32800]);

function withoutData(error: UpstreamError, rpc: number, message: string, bytesMax: number): BerthError {
  return new BerthError("upstream_refused", cutText(error.detail, bytesMax), {
    data: { rpc, message: cutText(message, bytesMax) },
    cause: error,
  });
}
