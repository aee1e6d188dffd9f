import { retainedMs } from "../../entry/grants-fields.ts";
import type { GuestFailure } from "../../executor/executor.ts";
import type { DirectoryEntry } from "../../host/directory/directory.ts";
import type {
  CalledTool,
  CallObserver,
  CallOutcome,
  CallRecord,
  CallRetention,
  RetainedParts,
} from "../../host/journal/record.ts";
import { jsonOf } from "../../host/offers/long-result.ts";
import type { Cid } from "../../lib/cid.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import { nextTurn, turnTaker } from "../../lib/event-loop.ts";
import { JsonText, type Json, type JsonObject, type JsonSchema } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { LongText } from "../../lib/long-text.ts";
import { HIDDEN, Redactor } from "../../lib/redactor.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Grant } from "../../secrets/grants.ts";
import type { RetainedCallFacts, RetainedCallPart, RetainedCallStore, NewRetainedCall } from "../../store/store.ts";
import { hideSecretFields, markingSecrets } from "./secret-fields.ts";

export type { RetainedCallPart } from "../../store/store.ts";

export type RetainedCallLimits = Pick<
  Limits,
  "retainedCallDays" | "retainedCallBytesPerTenant" | "queuedRetainedCallBytesPerTenant"
>;

const bounds = fixed({
  /** The arguments, and the result, of one retained call, as JSON; longer ones are left out. */
  retainedCallBytes: 32 * 1024,
  /** Calls that one server retains; the oldest ones are deleted first. */
  retainedCalls: 1_000,
  /** How long an ended call waits to be stored. */
  retainedCallDelayMs: 1_000,
});

interface RetainedCallsOptions {
  readonly store: RetainedCallStore;
  /** The clock of the store. */
  readonly now: () => number;
  /** The most that a tenant may store of all kinds. */
  readonly storedBytesOf?: (tenant: string) => number;
  /** True if this process is the one of several that removes expired calls. Default: it is. */
  readonly mayRemove?: () => Promise<boolean>;
  readonly limits: RetainedCallLimits;
  readonly log: Log;
}

/** The contents of a call as they are stored: without secrets. */
export interface RetainedContents {
  readonly release: Cid;
  readonly retries: number;
  readonly requestId?: string;
  /** Absent if they are too long, or if the server's secrets could not be read. */
  readonly arguments?: Json;
  readonly argumentsBytes: number;
  /** Also absent if there was none: questions, or an error in its place. */
  readonly result?: Json;
  readonly resultBytes?: number;
  /** The stack is the function's own, with places in its sources. */
  readonly error?: { readonly message: string; readonly stack?: string };
  /** True if none of them is stored, as the server's secrets could not be read. */
  readonly isUnread?: boolean;
}

export interface ListedCall extends Omit<RetainedCallFacts, "outcome"> {
  readonly outcome: CallOutcome;
}

export type FoundCall = ListedCall & RetainedContents;

const SWEEP_MS = 60_000;
/** Calls, and bytes of them, that are written at once before other calls go on. */
const CALLS_AT_ONCE = 64;
const BYTES_AT_ONCE = 256 * 1024;
/** Counted for each waiting call besides its texts. */
const CALL_BYTES = 256;
const ERROR_UNITS_MAX = 8_000;
/** How often a write is tried before its calls are dropped. */
const ATTEMPTS = 10;
/** How often the log tells that a tenant's calls find no room. */
const TOLD_EVERY_MS = 60_000;

/**
 * Retains calls with their contents for servers whose entries ask for it. No call waits for it: contents are written
 * shortly after, many calls at a time, without the secrets that their server may see. The queue is bounded for each tenant;
 * calls beyond that are dropped, and the log says how many.
 */
export class RetainedCalls implements CallRetention {
  readonly #options: RetainedCallsOptions;
  /** How long each server retains calls, by tenant and server; only those that retain any. */
  readonly #tenants = new Map<string, ReadonlyMap<string, number>>();
  readonly #queues = new Map<string, Queue>();
  /** When the log last told that a tenant's calls find no room. */
  readonly #told = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;
  readonly #sweeping: NodeJS.Timeout;

  constructor(options: RetainedCallsOptions) {
    this.#options = options;
    this.#sweeping = setInterval(() => void this.sweep(), SWEEP_MS).unref();
  }

  /** In whole milliseconds. */
  #now(): number {
    return Math.round(this.#options.now());
  }

  /** Retains the calls of one tool; undefined if its entry does not ask for it. */
  retainer(tool: CalledTool, { contract, entry, grant }: RetainedParts): CallObserver | undefined {
    const ms = retainedMs(entry, this.#options.limits);
    if (ms === 0) return undefined;
    const { inputSchema, outputSchema } = contract;
    const keeper: Keeper = {
      ms,
      grant,
      inputSchema: markingSecrets(inputSchema),
      outputSchema: markingSecrets(outputSchema),
    };
    return (record) => {
      try {
        this.#note(tool, keeper, record);
      } catch (error) {
        this.#options.log.error({ err: error }, "a call could not be kept");
      }
    };
  }

  #note({ tenant, server, tool, release }: CalledTool, keeper: Keeper, record: CallRecord): void {
    const { retainedCallBytes, retainedCallDelayMs } = bounds;
    const { ms, outcome, retries, principal, trace, failure, rejection } = record;
    const args = record.args instanceof JsonText ? record.args.text : JSON.stringify(record.args);
    const argumentsBytes = Buffer.byteLength(args);
    const result = record.result && record.size <= retainedCallBytes ? jsonOf(record.result) : undefined;
    const resultBytes = result instanceof LongText ? result.bytes : Buffer.byteLength(result ?? "");
    const at = Math.round(this.#now() - (performance.now() - record.beganAt));
    const waiting: Waiting = {
      keeper,
      call: {
        server,
        at,
        expiresAt: at + keeper.ms,
        tool: storable(tool),
        outcome,
        micros: Math.round(ms * 1_000),
        principal: principal ? storable(principal.id) : null,
      },
      facts: {
        release,
        retries,
        argumentsBytes,
        ...(trace && { requestId: trace.requestId }),
        ...(record.result && { resultBytes: Math.max(resultBytes, record.size) }),
      },
      args: argumentsBytes <= retainedCallBytes ? args : undefined,
      result: resultBytes <= retainedCallBytes ? result?.toString() : undefined,
      error: failure ?? (rejection === undefined ? undefined : { message: rejection }),
    };
    const queue = this.#queueOf(tenant);
    const bytes = bytesOf(waiting);
    if (queue.bytes + bytes > this.#options.limits.queuedRetainedCallBytesPerTenant) {
      queue.dropped += 1;
      return;
    }
    queue.calls.push(waiting);
    queue.bytes += bytes;
    this.#timer ??= setTimeout(() => void this.write(), retainedCallDelayMs);
  }

  #queueOf(tenant: string): Queue {
    let queue = this.#queues.get(tenant);
    if (!queue) this.#queues.set(tenant, (queue = { calls: [], bytes: 0, dropped: 0, failures: 0 }));
    return queue;
  }

  /** Never rejects: calls that cannot be written now wait. */
  write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#writeAll());
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    for (const [tenant, queue] of this.#queues) {
      await this.#writeQueue(tenant, queue);
      if (queue.calls.length === 0) this.#queues.delete(tenant);
    }
    if (this.#queues.size > 0 && !this.#isClosed)
      this.#timer ??= setTimeout(() => void this.write(), bounds.retainedCallDelayMs);
  }

  async #writeQueue(tenant: string, queue: Queue): Promise<void> {
    const { store, log, limits, storedBytesOf } = this.#options;
    if (queue.dropped > 0) log.warn({ tenant, calls: queue.dropped }, "calls found no room to wait, and are not kept");
    queue.dropped = 0;
    const room = {
      callsPerServer: bounds.retainedCalls,
      bytesPerTenant: limits.retainedCallBytesPerTenant,
      storedBytesMax: storedBytesOf?.(tenant),
    };
    const secrets = new Map<Grant, Promise<boolean>>();
    const takeTurns = turnTaker();
    while (queue.calls.length > 0) {
      const calls: NewRetainedCall[] = [];
      let [taken, bytes] = [0, 0];
      for (const waiting of queue.calls) {
        await takeTurns();
        const call = await kept(waiting, secrets, takeTurns).catch((error: unknown) => {
          log.error({ err: error, tenant, server: waiting.call.server }, "a call could not be kept");
        });
        bytes += call?.body.length ?? 0;
        if (calls.length > 0 && bytes > BYTES_AT_ONCE) break;
        taken += 1;
        // Its entry may have changed since.
        if (call && this.#retainsAny(tenant, waiting.call.server)) calls.push(call);
        if (calls.length === CALLS_AT_ONCE) break;
      }
      if (calls.length > 0 && !(await this.#add(tenant, queue, () => store.add(tenant, calls, room)))) return;
      for (const waiting of queue.calls.splice(0, taken)) queue.bytes -= bytesOf(waiting);
      await nextTurn();
    }
  }

  /** False if it should be tried again later. */
  async #add(tenant: string, queue: Queue, add: () => Promise<void>): Promise<boolean> {
    const { log } = this.#options;
    try {
      await add();
      queue.failures = 0;
      return true;
    } catch (error) {
      if (error instanceof BerthError && error.code === "storage_full") {
        const isTold = performance.now() - (this.#told.get(tenant) ?? -Infinity) < TOLD_EVERY_MS;
        if (!isTold) log.warn({ tenant, reason: error.message }, "calls are not kept, for want of room");
        this.#told.set(tenant, performance.now());
        return true;
      }
      queue.failures += 1;
      if (queue.failures === 2) log.error({ err: error, tenant }, "calls could not be kept; Berth tries again");
      if (queue.failures < ATTEMPTS && !this.#isClosed) return false;
      log.error({ err: error, tenant }, "calls could not be kept, and are dropped");
      queue.failures = 0;
      return true;
    }
  }

  /** Also true for a tenant that is not served here any more, whose last calls are not written yet. */
  #retainsAny(tenant: string, server: string): boolean {
    return this.#tenants.get(tenant)?.has(server) ?? true;
  }

  /** Follows the entries of a tenant: removes calls that a server retains no more, or not as long. */
  follow(tenant: string, servers: ReadonlyMap<string, DirectoryEntry>): void {
    const before = this.#tenants.get(tenant);
    const now = new Map<string, number>();
    for (const [server, { entry, refused }] of servers) {
      // Keep the previous setting while the entry is invalid.
      const ms =
        refused && entry.retainCallsMs === undefined
          ? (before?.get(server) ?? 0)
          : retainedMs(entry, this.#options.limits);
      if (ms > 0) now.set(server, ms);
    }
    this.#tenants.set(tenant, now);
    for (const [server, ms] of before ?? [])
      if ((now.get(server) ?? 0) < ms) void this.#removeLater(tenant, server, now.get(server));
  }

  /** Forgets a tenant that is no longer served. */
  forget(tenant: string): void {
    this.#tenants.delete(tenant);
    this.#told.delete(tenant);
  }

  /** The next sweep removes those that could not be removed now. */
  async #removeLater(tenant: string, server: string, ms: number | undefined): Promise<void> {
    try {
      await this.#writing;
      await this.#removeOlder(tenant, server, ms);
    } catch (error) {
      this.#options.log.warn({ err: error, tenant, server }, "retained calls could not be removed yet");
    }
  }

  async #removeOlder(tenant: string, server: string, ms: number | undefined): Promise<void> {
    const { store } = this.#options;
    const before = ms === undefined ? undefined : this.#now() - ms;
    // Usually there is nothing to remove, and a write would make others wait.
    if ((await store.list(tenant, server, { max: 1, before })).calls.length > 0)
      await store.remove(tenant, server, before);
  }

  /** Removes calls that are retained no more. Never rejects. */
  async sweep(): Promise<void> {
    const { store, mayRemove, log } = this.#options;
    try {
      if (this.#isClosed || (mayRemove && !(await mayRemove()))) return;
      await store.removeExpired();
      for (const { tenant, server } of await store.servers()) {
        const known = this.#tenants.get(tenant);
        // Calls of a tenant that is not served here expire.
        if (known && !this.#isClosed) await this.#removeOlder(tenant, server, known.get(server));
      }
    } catch (error) {
      if (!this.#isClosed) log.warn({ err: error }, "retained calls could not be removed; Berth tries again");
    }
  }

  /** How long a server's calls are retained, in milliseconds; undefined if they are not. */
  retainedMs(tenant: string, server: string): number | undefined {
    return this.#tenants.get(tenant)?.get(server);
  }

  /** Newest first; none of a server that retains none. */
  async list(tenant: string, server: string, part: RetainedCallPart): Promise<ListedCalls> {
    const ms = this.retainedMs(tenant, server);
    if (ms === undefined) return { calls: [], isMore: false };
    // A reader sees the calls that have just ended here.
    if (this.#queues.has(tenant)) await this.write();
    const since = Math.max(part.since ?? 0, this.#now() - ms);
    return (await this.#options.store.list(tenant, server, { ...part, since })) as ListedCalls;
  }

  async get(tenant: string, server: string, id: number): Promise<FoundCall | undefined> {
    const ms = this.retainedMs(tenant, server);
    const found = ms === undefined ? undefined : await this.#options.store.get(tenant, server, id);
    if (!found || found.at < this.#now() - ms!) return undefined;
    const { body, ...facts } = found;
    return { ...(facts as ListedCall), ...(JSON.parse(body) as RetainedContents) };
  }

  async close(): Promise<void> {
    clearInterval(this.#sweeping);
    await this.write();
    this.#isClosed = true;
    await this.write();
  }
}

/** Replaces NUL and lone surrogates, which not every store takes. */
function storable(text: string): string {
  return Buffer.from(text).toString().replaceAll("\0", "\ufffd");
}

export interface ListedCalls {
  readonly calls: readonly ListedCall[];
  readonly isMore: boolean;
}

interface Keeper {
  readonly ms: number;
  readonly grant: Grant | undefined;
  /** Only schemas that mark secrets. */
  readonly inputSchema: JsonSchema | undefined;
  readonly outputSchema: JsonSchema | undefined;
}

interface Queue {
  readonly calls: Waiting[];
  bytes: number;
  dropped: number;
  /** How often in a row the store could not be written. */
  failures: number;
}

interface Waiting {
  readonly keeper: Keeper;
  readonly call: Omit<NewRetainedCall, "body">;
  readonly facts: RetainedContents;
  /** As JSON; undefined if they are too long. */
  readonly args: string | undefined;
  readonly result: string | undefined;
  readonly error: Pick<GuestFailure, "message" | "stack"> | undefined;
}

/** The bytes that a call takes in the queue. */
function bytesOf({ args, result }: Waiting): number {
  return CALL_BYTES + (args?.length ?? 0) + (result?.length ?? 0);
}

/** `secrets`: those that were read for these calls. */
async function kept(
  waiting: Waiting,
  secrets: Map<Grant, Promise<boolean>>,
  takeTurns: () => Promise<void> | undefined,
): Promise<NewRetainedCall> {
  const { keeper, call, facts } = waiting;
  // A caller may name a secret that the server has not read yet.
  const isRead = keeper.grant === undefined || (await known(secrets, keeper.grant));
  const contents = isRead ? await contentsOf(waiting, takeTurns) : { ...facts, isUnread: true };
  return { ...call, body: JSON.stringify(contents) };
}

function known(secrets: Map<Grant, Promise<boolean>>, grant: Grant): Promise<boolean> {
  let reading = secrets.get(grant);
  if (!reading) {
    reading = grant.all().then(
      () => true,
      () => false,
    );
    secrets.set(grant, reading);
  }
  return reading;
}

async function contentsOf(waiting: Waiting, takeTurns: () => Promise<void> | undefined): Promise<RetainedContents> {
  const { keeper, facts, args, result, error } = waiting;
  const own = new Redactor(keeper.grant?.redactor);
  const withoutFields = (schema: JsonSchema | undefined, value: Json): Json => {
    const { value: hidden, found } = hideSecretFields(schema, value);
    // What a caller typed as a password may come back in the result or the error.
    for (const each of found) own.add(each);
    return hidden;
  };
  const shown = async (value: Json): Promise<Json> => {
    await takeTurns();
    // A caller may name any number of values as secret.
    return own.isIncomplete ? HIDDEN : own.hideIn(value);
  };
  const text = async (said: string): Promise<string> => (await shown(cutText(said, ERROR_UNITS_MAX))) as string;
  const given = args === undefined ? undefined : withoutFields(keeper.inputSchema, JSON.parse(args) as Json);
  await takeTurns();
  const returned = result === undefined ? undefined : (JSON.parse(result) as JsonObject);
  if (returned?.["structuredContent"] !== undefined)
    returned["structuredContent"] = withoutFields(keeper.outputSchema, returned["structuredContent"]);
  return {
    ...facts,
    ...(given !== undefined && { arguments: await shown(given) }),
    ...(returned !== undefined && { result: await shown(returned) }),
    ...(error && {
      error: {
        message: await text(error.message),
        ...(error.stack !== undefined && { stack: await text(error.stack) }),
      },
    }),
  };
}
