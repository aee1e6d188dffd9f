import { stableForm } from "../../contract/stable-form.ts";
import type { WithheldItem } from "../../contract/withheld-items.ts";
import { BerthError, errors, type ErrorCode } from "../../lib/errors.ts";
import { JsonText, type Json, type JsonDigest, type JsonObject } from "../../lib/json.ts";
import { LongText } from "../../lib/long-text.ts";
import type { TraceContext } from "../../lib/trace.ts";
import type { Observed } from "../../upstream/calls/observe.ts";
import type { TaskOfUpstream } from "../../upstream/messages/request.ts";
import { UpstreamError } from "../../upstream/messages/upstream-error.ts";
import type { UpstreamRequest } from "../../upstream/upstream.ts";
import type { CallResult, GuestLog, InputRequired } from "../offers/catalog.ts";
import { cidOf } from "../offers/contract-cids.ts";
import { LongObject, LongResult, type LongResultParts } from "../offers/long-result.ts";
import { LongToolResult } from "../offers/upstream-results.ts";
import type { RoundEnd, RoundOptions } from "./upstream-call.ts";

/**
 * A call of an upstream that another node runs, as the two tell each other of it: values that a transfer carries
 * (`lib/transfer.ts`). Long texts stay what they are: the node that passes them on never parses them.
 */

/** A request as it travels: the contract by which an item was offered is only named. */
export interface ForwardedRound {
  readonly request: JsonObject;
  /** The arguments of a tool when they are long, with the digest of what was given. */
  readonly longArgs?: { readonly text: string; readonly digest: JsonDigest; readonly given: JsonDigest };
  readonly principal: string | undefined;
  readonly capabilities: JsonObject | undefined;
  readonly trace: TraceContext | undefined;
  readonly answers: JsonObject | undefined;
  readonly deadlineMs: number;
  readonly hears: { readonly log: boolean; readonly progress: boolean; readonly task?: boolean };
  readonly refusesTasks?: boolean | undefined;
}

/** A line or an event on the way of a call. */
export type ForwardedPart =
  | { readonly log: GuestLog }
  | { readonly progress: Json }
  | { readonly task: TaskOfUpstream };

export type ForwardedEnd = { readonly end: PackedEnd } | { readonly error: PackedError };

export function packRound(request: UpstreamRequest, options: RoundOptions, deadlineMs: number): ForwardedRound {
  const served = "served" in request ? request.served : undefined;
  const args = "args" in request ? request.args : undefined;
  const { args: _args, ...rest } = request as UpstreamRequest & { args?: unknown };
  return {
    request: {
      ...(rest as unknown as JsonObject),
      ...(args !== undefined && !(args instanceof JsonText) && { args }),
      ...(served !== undefined && servedAs(served)),
    },
    ...(args instanceof JsonText && { longArgs: { text: args.text, digest: args.digest, given: args.givenDigest } }),
    principal: options.principal?.id,
    capabilities: options.client?.capabilities,
    trace: options.trace?.context,
    answers: options.answers,
    deadlineMs,
    hears: {
      log: options.onLog !== undefined,
      progress: options.onProgress !== undefined,
      task: options.onTask !== undefined,
    },
    refusesTasks: options.refusesTasks,
  };
}

/** Nodes of an earlier version know only the first. */
function servedAs(served: WithheldItem | string): JsonObject {
  return typeof served === "string" ? { served } : { served: cidOf(served), servedForm: cidOf(stableForm(served)) };
}

/** The request, and its caller as the node that runs the upstream knows it. */
export function unpackRound(
  { request, longArgs, principal, capabilities, trace, answers, deadlineMs, hears, refusesTasks }: ForwardedRound,
  tell: (part: ForwardedPart) => void,
): { readonly request: UpstreamRequest; readonly options: RoundOptions } {
  let args: JsonText | undefined;
  if (longArgs) {
    args = new JsonText(longArgs.text, longArgs.given);
    args.digest = longArgs.digest;
  }
  return {
    request: { ...request, ...(args && { args }) } as unknown as UpstreamRequest,
    options: {
      ...(principal !== undefined && { principal: { id: principal } }),
      ...(capabilities && { client: { capabilities } }),
      ...(trace && { trace: { context: trace } }),
      ...(answers && { answers }),
      deadlineMs,
      ...(hears.log && { onLog: (log: GuestLog) => tell({ log }) }),
      ...(hears.progress && { onProgress: (progress: Json) => tell({ progress }) }),
      ...(hears.task && { onTask: (task?: TaskOfUpstream) => task && tell({ task }) }),
      ...(request["task"] !== undefined && { task: request["task"] as unknown as TaskOfUpstream }),
      ...(refusesTasks && { refusesTasks }),
    },
  };
}

type PackedEnd =
  | { readonly asked: InputRequired }
  | { readonly plain: object }
  | {
      readonly object: { readonly pieces: LongText["pieces"] } & Pick<LongObject, "digest" | "older" | "file"> & {
          readonly meta: string | undefined;
        };
    }
  | {
      readonly tool: LongResultParts | InputRequired;
      readonly isLong: boolean;
      readonly transient: string | undefined;
      readonly warnings: readonly string[];
    };

export function packEnd(end: RoundEnd<object>): PackedEnd {
  if ("inputRequests" in end) return { asked: end };
  const { ended } = end;
  if (ended instanceof LongObject) {
    const { text, digest, older, file, meta } = ended;
    return { object: { pieces: text.pieces, digest, older, file, meta } };
  }
  if (!(ended instanceof LongToolResult)) return { plain: ended };
  const { ended: tool, warnings } = ended;
  const { result, transient } = tool;
  const isLong = result instanceof LongResult;
  return { tool: isLong ? result.parts : (result as InputRequired), isLong, transient, warnings };
}

export function unpackEnd(packed: PackedEnd): RoundEnd<object> {
  if ("asked" in packed) return packed.asked;
  if ("plain" in packed) return { ended: packed.plain };
  if ("object" in packed) {
    const { pieces, ...others } = packed.object;
    return { ended: new LongObject({ text: new LongText(...pieces), ...others }) };
  }
  const { tool, isLong, transient, warnings } = packed;
  const result: CallResult | InputRequired = isLong ? new LongResult(tool as LongResultParts) : (tool as InputRequired);
  return { ended: new LongToolResult({ result, ...(transient !== undefined && { transient }) }, warnings) };
}

interface PackedError {
  readonly code: ErrorCode;
  readonly detail: string;
  readonly data: Record<string, unknown> | undefined;
  /** Only that of an upstream's error. */
  readonly stderr: string | undefined;
}

/** Undefined for an error that only the log of its node may tell. */
export function packError(error: unknown): PackedError | undefined {
  if (!(error instanceof BerthError)) return undefined;
  const { code, detail, data } = error;
  return { code, detail, data, stderr: error instanceof UpstreamError ? error.stderr : undefined };
}

export function unpackError({ code, detail, data, stderr }: PackedError): BerthError {
  // A node of another version may know other errors.
  if (!Object.hasOwn(errors, code)) return new BerthError("internal", detail);
  const options = data ? { data } : {};
  if (stderr === undefined) return new BerthError(code, detail, options);
  return new UpstreamError(code, detail, { ...options, stderr });
}

/** An upstream as it was last seen; the lists that it failed to send are known where it runs. */
export function packObserved({ contract, problems, bytes }: Observed): Omit<Observed, "failed"> {
  return { contract, problems, bytes };
}
