import { isObject } from "../lib/json.ts";
import type { AuditFilter } from "./filter.ts";

/** A recorded call, read back. */
export interface RecordedCall {
  readonly server: string;
  readonly release: string;
  readonly tool: string;
  readonly principal: string | undefined;
  readonly outcome: string;
  /** Milliseconds since the epoch. */
  readonly endedAt: number;
  readonly ms: number;
  readonly retries: number;
  readonly requestId: string | undefined;
  readonly arguments: Digest;
  /** Undefined if there was none: questions, or a protocol error. */
  readonly result: Digest | undefined;
}

/** Size and digest of canonical JSON, as UTF-8. */
export interface Digest {
  readonly bytes: number;
  /** In hexadecimal. */
  readonly sha256: string;
}

/** The format that `CallBlock` writes. */
interface Block {
  readonly tools: readonly (readonly [server: string, release: string, tool: string])[];
  readonly principals: readonly string[];
  readonly dropped: number;
  readonly calls: readonly BlockCall[];
}

type BlockCall = readonly [
  tool: number,
  principal: number,
  outcome: string,
  endedAt: number,
  ms: number,
  retries: number,
  requestId: string | null,
  argumentBytes: number,
  argumentDigest: string,
  resultBytes: number | null,
  resultDigest: string | null,
];

export interface ReadCalls {
  readonly dropped: number;
  readonly count: number;
  /**
   * The recorded calls, by index, in order; undefined for one that does not match, and "damaged" for one that cannot be
   * read.
   */
  call(index: number, filter: AuditFilter): RecordedCall | "damaged" | undefined;
}

/** Reads a block; undefined if it is damaged. Most calls are only tested against the filter. */
export function readCalls(body: string): ReadCalls | undefined {
  const block = parsed(body);
  if (!isBlock(block)) return undefined;
  const { tools, principals, dropped, calls } = block;
  return {
    dropped,
    count: calls.length,
    call(index, filter) {
      const call = calls[index];
      if (!isCall(call, tools)) return "damaged";
      const [of, who, outcome, endedAt, ms, retries, requestId, argumentBytes, argumentDigest, bytes, digest] = call;
      const [server, release, tool] = tools[of]!;
      const principal = principals[who];
      if (filter.outcome !== undefined && outcome !== filter.outcome) return undefined;
      if (filter.server !== undefined && server !== filter.server) return undefined;
      if (filter.tool !== undefined && tool !== filter.tool) return undefined;
      if (filter.principal !== undefined && principal !== filter.principal) return undefined;
      if (endedAt < (filter.since ?? 0) || endedAt > (filter.until ?? Infinity)) return undefined;
      return {
        server,
        release,
        tool,
        principal,
        outcome,
        endedAt,
        ms,
        retries,
        requestId: requestId ?? undefined,
        arguments: { bytes: argumentBytes, sha256: hexOf(argumentDigest) },
        result: bytes === null || digest === null ? undefined : { bytes, sha256: hexOf(digest) },
      };
    },
  };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body) as unknown;
  } catch {
    return undefined;
  }
}

function isBlock(
  value: unknown,
): value is Pick<Block, "tools" | "principals" | "dropped"> & { readonly calls: readonly unknown[] } {
  if (!isObject(value)) return false;
  const { tools, principals, dropped, calls } = value;
  return (
    Array.isArray(tools) &&
    tools.every((tool) => Array.isArray(tool) && tool.length === 3 && tool.every((each) => typeof each === "string")) &&
    Array.isArray(principals) &&
    principals.every((principal) => typeof principal === "string") &&
    Number.isSafeInteger(dropped) &&
    Array.isArray(calls)
  );
}

function isCall(value: unknown, tools: Block["tools"]): value is BlockCall {
  if (!Array.isArray(value)) return false;
  const [of, who, outcome, endedAt, ms, retries, requestId, argumentBytes, argumentDigest, bytes, digest] =
    value as unknown[];
  return (
    tools[of as number] !== undefined &&
    [who, endedAt, ms, retries, argumentBytes].every((each) => typeof each === "number") &&
    [outcome, argumentDigest].every((each) => typeof each === "string") &&
    (requestId === null || typeof requestId === "string") &&
    (bytes === null || typeof bytes === "number") &&
    (digest === null || typeof digest === "string")
  );
}

function hexOf(digest: string): string {
  return Buffer.from(digest, "base64url").toString("hex");
}
