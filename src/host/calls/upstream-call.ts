import { hash } from "node:crypto";
import { BerthError } from "../../lib/errors.ts";
import { isObject, JsonText, type JsonObject } from "../../lib/json.ts";
import { cutText } from "../../lib/cut-text.ts";
import type { Limits } from "../../limits/limits.ts";
import { isLogLevel } from "../../lib/log-level.ts";
import type { UpstreamConnection } from "../../upstream/connection.ts";
import type { Ask, UpstreamCallOptions as SentOptions } from "../../upstream/request.ts";
import { PassedOnError, UpstreamError } from "../../upstream/upstream-error.ts";
import type { Upstream, UpstreamCall } from "../../upstream/upstream.ts";
import type { CallOptions, GuestLog, InputRequired } from "../catalog/catalog.ts";
import type { Caller } from "./upstream-open-call.ts";
import type { SuspendedCalls } from "./upstream-suspended.ts";

/** A request's name and parameters, and how a connection sends it. */
export interface UpstreamRequest<T> {
  readonly name?: string;
  /** The arguments of a tool call. */
  readonly args?: JsonObject | JsonText;
  readonly meta?: JsonObject;
  readonly send: (connection: UpstreamConnection, options: SentOptions) => Promise<T>;
}

/** Sends a request to an upstream, with all of the caller's options that an upstream can use. */
export function callUpstream<T>(
  upstream: Upstream,
  suspended: SuspendedCalls,
  { name = "", args, meta, send }: UpstreamRequest<T>,
  options: CallOptions,
): Promise<T | InputRequired> {
  return suspended.run<T>(options, (caller) => {
    const digest = args && digestOf(name, args);
    const call: UpstreamCall = { name, digest, ask: askOf(caller), onLog: options.onLog && logTo(caller) };
    return upstream.request(call, (connection, ask) => send(connection, sentOptions(caller, connection, meta, ask)));
  });
}

/** Recognizes a call that comes again. Long arguments already have a digest. */
function digestOf(name: string, args: JsonObject | JsonText): string {
  const what = args instanceof JsonText ? args.givenDigest.sha256 : args;
  return hash("sha256", JSON.stringify([name, what]), "base64url");
}

/** Returns how to ask the caller; undefined for a caller that cannot be asked anything. */
function askOf(caller: Caller): Ask | undefined {
  const capabilities = caller.options.client?.capabilities;
  if (!capabilities) return undefined;
  const { elicitation, sampling, roots } = capabilities;
  if (!isObject(elicitation) && !isObject(sampling) && !isObject(roots)) return undefined;
  return async (question) => {
    const capability = CAPABILITIES[question.method];
    if (capability !== undefined && isObject(caller.options.client?.capabilities[capability]))
      return caller.ask(question);
    throw Object.assign(new Error(`The caller has no capability for ${question.method}`), { code: -32601 });
  };
}

function logTo(caller: Caller): UpstreamCall["onLog"] {
  return (params) => caller.options.onLog?.(logLine(params));
}

function sentOptions(
  caller: Caller,
  { era }: UpstreamConnection,
  meta: JsonObject | undefined,
  ask: Ask | undefined,
): SentOptions {
  const { onProgress, onLog, client, trace } = caller.options;
  const isModern = era === "modern";
  return {
    signal: caller.signal,
    // `SuspendedCalls` limits the time of a call, since it can leave out the time for an answer.
    timeoutMs: Infinity,
    ...(onProgress && { onProgress: (event) => void caller.options.onProgress?.({ ...event }) }),
    ...(ask && { ask }),
    ...((meta || onLog || isModern || trace?.context) && {
      meta: {
        ...meta,
        ...trace?.context,
        ...(onLog && { [LOG_LEVEL]: "debug" }),
        // Tells a modern upstream what this caller can be asked. The connection told a legacy one what callers may be
        // asked.
        ...(isModern && { [CLIENT_CAPABILITIES]: askable(client?.capabilities ?? {}) }),
      },
    }),
  };
}

/** The capability that a client needs for each kind of question. */
const CAPABILITIES: Readonly<Record<string, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

/** Only those of a client's capabilities that are about questions. */
function askable(capabilities: JsonObject): JsonObject {
  const { elicitation, sampling, roots } = capabilities;
  const modes = ["form", "url"].filter((mode) => isObject(elicitation) && isObject(elicitation[mode]));
  return {
    ...(isObject(elicitation) && { elicitation: Object.fromEntries(modes.map((mode) => [mode, {}])) }),
    ...(isObject(sampling) && { sampling: {} }),
    ...(isObject(roots) && { roots: {} }),
  };
}

/** 2026-07-28 `basic`: each request states the client's capabilities. */
const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

/** 2026-07-28 `server/utilities/logging`: the lowest level that a request wants to receive. */
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

function logLine({ level, data, logger }: JsonObject): GuestLog {
  return {
    level: isLogLevel(level) ? level : "info",
    message: data ?? null,
    ...(typeof logger === "string" && { logger }),
  };
}

/** Turns a failure into the error that the caller gets. An upstream's own errors keep their code, message and data. */
export function passedOn(error: unknown, { upstreamErrorBytes }: PassedOnLimits): unknown {
  // Only an administrator may see where it is wrong: the URI may hold what callers must not see.
  if (error instanceof BerthError && error.code === "launcher_invalid") {
    return new BerthError("upstream_not_started", error.message, { cause: error });
  }
  if (!(error instanceof UpstreamError) || error.code !== "upstream_refused") return error;
  const { rpc, message, data } = error.data ?? {};
  if (typeof rpc !== "number" || typeof message !== "string") return error;
  if (!Number.isSafeInteger(rpc) || isOfTheWay(rpc)) return withoutData(error, rpc, message, upstreamErrorBytes);
  const isShort = data !== undefined && Buffer.byteLength(JSON.stringify(data)) <= upstreamErrorBytes;
  const said = { rpc, message: cutText(message, upstreamErrorBytes), data: isShort ? data : undefined };
  const code =
    rpc === INVALID_PARAMS ? "invalid_params" : rpc === MISSING_CAPABILITY ? "missing_capability" : error.code;
  return new PassedOnError(code, said, error);
}

export type PassedOnLimits = Pick<Limits, "upstreamErrorBytes">;

const INVALID_PARAMS = -32602;
/** 2026-07-28: this caller's client lacks a capability; the upstream was told which ones it has. */
const MISSING_CAPABILITY = -32021;

/**
 * True for a code about the connection between Berth and the upstream, or one that would read as an answer of Berth's
 * own: that it does not know the client's method or session, or cannot read its message. Such an error becomes an
 * internal one (-32603) with the code in its data.
 */
function isOfTheWay(rpc: number): boolean {
  return OF_THE_WAY.has(rpc);
}

/**
 * Parse error, invalid request, unknown method, internal error, not initialized or no such resource, wrong header,
 * version, cancelled.
 */
const OF_THE_WAY: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32603, -32002, -32020, -32022, -32800]);

function withoutData(error: UpstreamError, rpc: number, message: string, bytesMax: number): BerthError {
  return new BerthError("upstream_refused", cutText(error.detail, bytesMax), {
    data: { rpc, message: cutText(message, bytesMax) },
    cause: error,
  });
}
