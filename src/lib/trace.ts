import { randomUUID } from "node:crypto";

/** Identifies a request in logs, responses and traces, from its arrival to all calls made for it. */
export interface Trace {
  /** The request's id, as it appears in its response and in log lines. */
  readonly requestId: string;
  /** The caller's trace context. */
  readonly context?: TraceContext | undefined;
}

/**
 * W3C Trace Context and Baggage, under the names used in headers, `_meta` (2026-07-28 `basic`, SEP-414) and guests. It
 * is passed on unchanged: Berth creates no spans, so its calls belong to the caller's span.
 */
export interface TraceContext {
  readonly traceparent?: string;
  readonly tracestate?: string;
  readonly baggage?: string;
}

type Carrier = Readonly<Record<string, unknown>>;
const NOTHING: Carrier = {};

/** Identifies a request by the id that its sender provided, if well-formed, or by a new one. */
export function beginTrace(requestId?: unknown, carrier: Carrier = NOTHING): Trace {
  const isProvided = typeof requestId === "string" && REQUEST_ID.test(requestId);
  return { requestId: isProvided ? requestId : randomUUID(), context: readTraceContext(carrier) };
}

/** The trace context in a message takes precedence over its transport's: proxies change headers. */
export function withMeta(trace: Trace | undefined, meta: Carrier): Trace | undefined {
  const context = readTraceContext(meta);
  if (!context) return trace;
  return { requestId: trace?.requestId ?? randomUUID(), context };
}

/** The trace id, for log lines, by which tracing systems correlate events. */
export function traceId({ context }: Trace): string | undefined {
  return context?.traceparent?.split("-")[1];
}

/** A malformed context counts as absent, as the W3C requires; nothing else depends on it. */
function readTraceContext({ traceparent, tracestate, baggage }: Carrier): TraceContext | undefined {
  if (traceparent === undefined && baggage === undefined) return undefined;
  const isTraced = typeof traceparent === "string" && isTraceparent(traceparent);
  const hasState = isTraced && typeof tracestate === "string" && isTracestate(tracestate);
  const hasBaggage = typeof baggage === "string" && isBaggage(baggage);
  if (!isTraced && !hasBaggage) return undefined;
  return { ...(isTraced && { traceparent }), ...(hasState && { tracestate }), ...(hasBaggage && { baggage }) };
}

/** It appears in headers and log lines, so it has no characters with a special meaning there. */
const REQUEST_ID = /^[\w.:/=+@-]{1,128}$/;

/** Trace Context, 3.2: later versions may add fields after the known ones. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
const TRACEPARENT_CHARACTERS_MAX = 256;

function isTraceparent(text: string): boolean {
  if (text.length > TRACEPARENT_CHARACTERS_MAX) return false;
  const [, version, traceId, parentId, rest] = TRACEPARENT.exec(text) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && rest !== undefined)) return false;
  return /[^0]/.test(traceId!) && /[^0]/.test(parentId!) && isPrintable(text);
}

/** Trace Context, 3.3: longer values may be dropped. */
const TRACESTATE_CHARACTERS_MAX = 512;
const TRACESTATE_MEMBER = /^[ \t]*(?:[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256})?[ \t]*$/;

function isTracestate(text: string): boolean {
  return text.length <= TRACESTATE_CHARACTERS_MAX && text.split(",").every((each) => TRACESTATE_MEMBER.test(each));
}

/** Baggage, 3.3.2: at least this much must be propagated. */
const BAGGAGE_CHARACTERS_MAX = 8192;
const BAGGAGE_MEMBER = /^[ \t]*[!#$%&'*+.^_`|~\w-]+[ \t]*=[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e;= \t]*$/;

function isBaggage(text: string): boolean {
  return text.length <= BAGGAGE_CHARACTERS_MAX && text.split(",").every((each) => BAGGAGE_MEMBER.test(each));
}

function isPrintable(text: string): boolean {
  return /^[\x21-\x7e]*$/.test(text);
}
