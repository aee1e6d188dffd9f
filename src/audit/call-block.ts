import { digestOfJson } from "../lib/canonical-json.ts";
import { isObject, JsonText, tryParseObject } from "../lib/json.ts";
import { LongJson } from "../lib/long-text.ts";
import type { AuditEntry } from "./audit-entry.ts";
import type { AuditFilter } from "./filter.ts";

/** A finished call. Only the sizes and digests of its contents are recorded. */
export interface AuditedCall {
  /** The same object for all calls of a tool of a loaded release. */
  readonly tool: CalledTool;
  readonly outcome: string;
  /** Monotonic, as `performance.now`. */
  readonly beganAt: number;
  readonly ms: number;
  readonly retries: number;
  readonly principal: { readonly id: string } | undefined;
  readonly trace: { readonly requestId: string } | undefined;
  readonly args: object;
  readonly result: object | undefined;
}

interface CalledTool {
  readonly tenant: string;
  readonly server: string;
  readonly release: string;
  readonly tool: string;
}

const FIRST_BYTES = 16 * 1024;

/** Read once: the property is a getter. */
const STARTED_AT = performance.timeOrigin;

/**
 * Many calls of one tenant as one body: `{"tools": [[server, release, tool]…], "principals": […], "dropped": n,
 * "calls": […]}`. A call is `[tool, principal or -1, outcome, end time, ms, retries, request id, bytes, digest, bytes,
 * digest]`, with the sizes and digests of its arguments and its result. Calls are serialized immediately and retain no
 * objects: garbage collection would cost more per call than everything else here.
 */
export class CallBlock {
  readonly tenant: string;
  readonly #tools = new Map<CalledTool, number>();
  readonly #principals = new Map<string, number>();
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;
  #since = Infinity;
  calls = 0;
  /** Calls that exceeded the queue. */
  dropped = 0;

  constructor(tenant: string) {
    this.tenant = tenant;
  }

  add({ tool, outcome, beganAt, ms, retries, principal, trace, args, result }: AuditedCall): void {
    const endedAt = Math.round(STARTED_AT + beganAt + ms);
    if (endedAt < this.#since) this.#since = endedAt;
    const principalIndex = principal ? indexFor(this.#principals, principal.id) : -1;
    const request = trace ? JSON.stringify(trace.requestId) : "null";
    const facts = `${indexFor(this.#tools, tool)},${principalIndex},"${outcome}",${endedAt},${Math.round(ms * 1000) / 1000},${retries}`;
    this.#write(`[${facts},${request},${digestFields(args)},${result ? digestFields(result) : "null,null"}],`);
    this.calls += 1;
  }

  #write(text: string): void {
    // A UTF-16 code unit has at most three bytes.
    const needed = this.#length + text.length * 3;
    if (needed > this.#bytes.length)
      this.#bytes = Buffer.concat([this.#bytes], Math.max(needed, 2 * this.#bytes.length));
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** Undefined if there is nothing to record. */
  entry(): AuditEntry | undefined {
    const { calls, dropped } = this;
    const records = calls + dropped;
    if (records === 0) return undefined;
    const tools = [...this.#tools.keys()].map(({ server, release, tool }) => [server, release, tool]);
    const head = JSON.stringify({ tools, principals: [...this.#principals.keys()], dropped });
    // Without the trailing comma.
    const callBytes = this.#bytes.subarray(0, Math.max(0, this.#length - 1));
    const body = Buffer.concat([Buffer.from(`${head.slice(0, -1)},"calls":[`), callBytes, Buffer.from("]}")]);
    const since = calls > 0 ? { since: this.#since } : {};
    return { tenant: this.tenant, kind: "call", body, records, ...since };
  }
}

function digestFields(value: object): string {
  const { bytes, sha256 } = value instanceof JsonText || value instanceof LongJson ? value.digest : digestOfJson(value);
  return `${bytes},"${sha256}"`;
}

function indexFor<T>(indexes: Map<T, number>, value: T): number {
  let index = indexes.get(value);
  if (index === undefined) indexes.set(value, (index = indexes.size));
  return index;
}

interface Block {
  readonly tools: readonly (readonly [server: string, release: string, tool: string])[];
  readonly principals: readonly string[];
  readonly dropped: number;
  /** Each is a `BlockCall`, unless damaged. */
  readonly calls: readonly unknown[];
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

/**
 * Reads a block; undefined if it is damaged. `call` returns a call by its index: undefined if it does not match the
 * filter, and "damaged" if it is unreadable. Most calls are only tested against the filter.
 */
export function readCalls(body: string) {
  const block = tryParseObject(body);
  if (!isBlock(block)) return undefined;
  const { tools, principals, dropped, calls } = block;
  return {
    dropped,
    count: calls.length,
    call(index: number, filter: AuditFilter) {
      const call = calls[index];
      if (!isCall(call, tools)) return "damaged";
      const [
        toolIndex,
        principalIndex,
        outcome,
        endedAt,
        ms,
        retries,
        requestId,
        argumentBytes,
        argumentDigest,
        bytes,
        digest,
      ] = call;
      const [server, release, tool] = tools[toolIndex]!;
      const principal = principals[principalIndex];
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
        arguments: { bytes: argumentBytes, sha256: base64UrlToHex(argumentDigest) },
        // A call that ended with questions or a protocol error has no result.
        result: bytes === null || digest === null ? undefined : { bytes, sha256: base64UrlToHex(digest) },
      };
    },
  };
}

function isBlock(value: unknown): value is Block {
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
  const [
    toolIndex,
    principalIndex,
    outcome,
    endedAt,
    ms,
    retries,
    requestId,
    argumentBytes,
    argumentDigest,
    bytes,
    digest,
  ] = value as unknown[];
  return (
    tools[toolIndex as number] !== undefined &&
    [principalIndex, endedAt, ms, retries, argumentBytes].every((each) => typeof each === "number") &&
    [outcome, argumentDigest].every((each) => typeof each === "string") &&
    (requestId === null || typeof requestId === "string") &&
    (bytes === null || typeof bytes === "number") &&
    (digest === null || typeof digest === "string")
  );
}

function base64UrlToHex(digest: string): string {
  return Buffer.from(digest, "base64url").toString("hex");
}
