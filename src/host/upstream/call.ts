import { hash } from "node:crypto";
import { BerthError } from "../../lib/errors.ts";
import { isObject, JsonText, type JsonObject } from "../../lib/json.ts";
import { cutText } from "../../lib/cut-text.ts";
import type { Limits } from "../../limits/limits.ts";
import { isLogLevel } from "../../lib/log-level.ts";
import type { UpstreamConnection } from "../../upstream/connection.ts";
import type { Ask, CallOptions as SentOptions } from "../../upstream/request.ts";
import { PassedOnError, UpstreamError } from "../../upstream/upstream-error.ts";
import type { Upstream, UpstreamCall } from "../../upstream/upstream.ts";
import type { CallOptions, GuestLog, InputRequired } from "../catalog.ts";
import type { Caller } from "./open-call.ts";
import type { SuspendedCalls } from "./suspended.ts";

/** What a request is called by, and what happens to it at the connection. */
export interface UpstreamRequest<T> {
  readonly name?: string;
  /** Of a call of a tool: what it is called with. */
  readonly args?: JsonObject | JsonText;
  readonly meta?: JsonObject;
  readonly send: (connection: UpstreamConnection, options: SentOptions) => Promise<T>;
}

/** Sends a request to a server of others, with everything of the caller's that a server can use on the way. */
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

/** By what a call is known again. Of long arguments the digest is known already. */
function digestOf(name: string, args: JsonObject | JsonText): string {
  const what = args instanceof JsonText ? args.givenDigest.sha256 : args;
  return hash("sha256", JSON.stringify([name, what]), "base64url");
}

/** How the caller can be asked; undefined for one that can be asked nothing. */
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
    // The time of a call is counted where the time for an answer can be left out.
    timeoutMs: Infinity,
    ...(onProgress && { onProgress: (event) => void caller.options.onProgress?.({ ...event }) }),
    ...(ask && { ask }),
    ...((meta || onLog || isModern || trace?.context) && {
      meta: {
        ...meta,
        ...trace?.context,
        ...(onLog && { [LOG_LEVEL]: "debug" }),
        // A modern server is told what this caller can be asked; to a legacy one the connection has said what may be.
        ...(isModern && { [CLIENT_CAPABILITIES]: askable(client?.capabilities ?? {}) }),
      },
    }),
  };
}

/** What a client must be able to do to be asked. */
const CAPABILITIES: Readonly<Record<string, string>> = {
  "elicitation/create": "elicitation",
  "sampling/createMessage": "sampling",
  "roots/list": "roots",
};

/** What of a client's capabilities is about questions, without what else it says. */
function askable(capabilities: JsonObject): JsonObject {
  const { elicitation, sampling, roots } = capabilities;
  const modes = ["form", "url"].filter((mode) => isObject(elicitation) && isObject(elicitation[mode]));
  return {
    ...(isObject(elicitation) && { elicitation: Object.fromEntries(modes.map((mode) => [mode, {}])) }),
    ...(isObject(sampling) && { sampling: {} }),
    ...(isObject(roots) && { roots: {} }),
  };
}

/** 2026-07-28 `basic`: what a client can do, said with each request. */
const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

/** 2026-07-28 `server/utilities/logging`: the least level that a request is told of. */
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

function logLine({ level, data, logger }: JsonObject): GuestLog {
  return {
    level: isLogLevel(level) ? level : "info",
    message: data ?? null,
    ...(typeof logger === "string" && { logger }),
  };
}

/** What a server said of a request of ours, as it is passed on. Its own errors keep their code, words and data. */
export function passedOn(error: unknown, { upstreamErrorBytes }: PassedOnLimits): unknown {
  // Where it is wrong is the administrator's to see: the URI may hold what callers must not.
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
/** 2026-07-28: what this caller's client lacks, which the server was told. */
const MISSING_CAPABILITY = -32021;

/**
 * Whether a code is about the way between Berth and the server, or would be read as an answer of Berth's own: that it
 * does not know the client's method or session, or cannot read its message. Such an error is an internal one (-32603)
 * that has the code in its data.
 */
function isOfTheWay(rpc: number): boolean {
  return OF_THE_WAY.has(rpc);
}

/** Parse error, invalid request, unknown method, not initialized or no such resource, wrong header, version, cancelled. */
const OF_THE_WAY: ReadonlySet<number> = new Set([-32700, -32600, -32601, -32603, -32002, -32020, -32022, -32800]);

function withoutData(error: UpstreamError, rpc: number, message: string, bytesMax: number): BerthError {
  return new BerthError("upstream_refused", cutText(error.detail, bytesMax), {
    data: { rpc, message: cutText(message, bytesMax) },
    cause: error,
  });
}
