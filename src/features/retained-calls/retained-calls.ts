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
import { yieldToCalls, createYielder } from "../../lib/event-loop.ts";
import { JsonText, type Json, type JsonObject, type JsonSchema } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { LongText } from "../../lib/long-text.ts";
import { HIDDEN, Redactor } from "../../lib/redactor.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Grant } from "../../secrets/grants.ts";
import type { RetainedCallFacts, RetainedCallPart, RetainedCallStore, NewRetainedCall } from "../../store/store.ts";
import { hideSecretFields, markingSecrets as schemaWithSecrets } from "./secret-fields.ts";

export type { RetainedCallPart } from "../../store/store.ts";

export type RetainedCallLimits = Pick<
  Limits,
  "retainedCallDays" | "retainedCallBytesPerTenant" | "queuedRetainedCallBytesPerTenant"
>;

const bounds = fixed({
  /** The arguments, and the result, of one retained call, as JSON; longer ones are omitted. */
  retainedCallBytes: 32 * 1024,
  /** Retained calls per server; the oldest are deleted first. */
  retainedCalls: 1_000,
  /** How long an ended call waits to be stored. */
  retainedCallDelayMs: 1_000,
});

interface RetainedCallsOptions {
  readonly store: RetainedCallStore;
  /** The clock of the store. */
  readonly now: () => number;
  /** The storage limit of a tenant, over all kinds. */
  readonly storedBytesOf?: (tenant: string) => number;
  /** True if this is the process that removes expired calls. Default: it is. */
  readonly mayRemove?: () => Promise<boolean>;
  readonly limits: RetainedCallLimits;
  readonly log: Log;
}

/** The contents of a call as stored: without secrets. */
export interface RetainedContents {
  readonly release: Cid;
  readonly retries: number;
  readonly requestId?: string;
  /** Absent if they are too long, or if the server's secrets could not be read. */
  readonly arguments?: Json;
  readonly argumentsBytes: number;
  /** Also absent if there was none: questions, or an error instead. */
  readonly result?: Json;
  readonly resultBytes?: number;
  /** The stack is the function's own, with positions in its sources. */
  readonly error?: { readonly message: string; readonly stack?: string };
  /** True if none of them is stored because the server's secrets could not be read. */
  readonly isUnread?: boolean;
}

export interface ListedCall extends Omit<RetainedCallFacts, "outcome"> {
  readonly outcome: CallOutcome;
}

export type FoundCall = ListedCall & RetainedContents;

const SWEEP_MS = 60_000;
/** Calls, and their bytes, written in one step before yielding to other calls. */
const BATCH_CALLS = 64;
const BATCH_BYTES = 256 * 1024;
/** Counted for each queued call in addition to its contents. */
const CALL_BYTES = 256;
const ERROR_UNITS_MAX = 8_000;
/** Attempts of a write before its calls are dropped. */
const ATTEMPTS = 10;
/** How often the log reports that a tenant's calls exceed its quota. */
const REPORT_EVERY_MS = 60_000;

/**
 * Retains calls with their contents for servers whose entries ask for it. No call waits for it: contents are written
 * shortly afterwards, many calls at a time, without the secrets that their server may see. The queue is bounded per
 * tenant; further calls are dropped, and their number is logged.
 */
export class RetainedCalls implements CallRetention {
  readonly #options: RetainedCallsOptions;
  /** How long each server retains calls, by tenant and server; only servers that retain any. */
  readonly #tenants = new Map<string, ReadonlyMap<string, number>>();
  readonly #queues = new Map<string, Queue>();
  /** When the log last reported that a tenant's calls exceed its quota. */
  readonly #reportedAt = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;
  readonly #sweepTimer: NodeJS.Timeout;

  constructor(options: RetainedCallsOptions) {
    this.#options = options;
    this.#sweepTimer = setInterval(() => void this.sweep(), SWEEP_MS).unref();
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
    const retention: Retention = {
      ms,
      grant,
      inputSchema: schemaWithSecrets(inputSchema),
      outputSchema: schemaWithSecrets(outputSchema),
    };
    return (record) => {
      try {
        this.#enqueue(tool, retention, record);
      } catch (error) {
        this.#options.log.error({ err: error }, "a call could not be retained");
      }
    };
  }

  #enqueue({ tenant, server, tool, release }: CalledTool, retention: Retention, record: CallRecord): void {
    const { retainedCallBytes, retainedCallDelayMs } = bounds;
    const { ms, outcome, retries, principal, trace, failure, rejection } = record;
    const args = record.args instanceof JsonText ? record.args.text : JSON.stringify(record.args);
    const argumentsBytes = Buffer.byteLength(args);
    const result = record.result && record.size <= retainedCallBytes ? jsonOf(record.result) : undefined;
    const resultBytes = result instanceof LongText ? result.bytes : Buffer.byteLength(result ?? "");
    const at = Math.round(this.#now() - (performance.now() - record.beganAt));
    const queued: QueuedCall = {
      retention,
      call: {
        server,
        at,
        expiresAt: at + retention.ms,
        tool: toStorable(tool),
        outcome,
        micros: Math.round(ms * 1_000),
        principal: principal ? toStorable(principal.id) : null,
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
    const queue = this.#queueFor(tenant);
    const bytes = queuedBytes(queued);
    if (queue.bytes + bytes > this.#options.limits.queuedRetainedCallBytesPerTenant) {
      queue.dropped += 1;
      return;
    }
    queue.calls.push(queued);
    queue.bytes += bytes;
    this.#timer ??= setTimeout(() => void this.write(), retainedCallDelayMs);
  }

  #queueFor(tenant: string): Queue {
    let queue = this.#queues.get(tenant);
    if (!queue) this.#queues.set(tenant, (queue = { calls: [], bytes: 0, dropped: 0, failures: 0 }));
    return queue;
  }

  /** Never rejects: calls that cannot be written now stay queued. */
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
    if (queue.dropped > 0)
      log.warn(
        { tenant, calls: queue.dropped },
        "the queue of calls to retain is full; further calls are not retained",
      );
    queue.dropped = 0;
    const quota = {
      callsPerServer: bounds.retainedCalls,
      bytesPerTenant: limits.retainedCallBytesPerTenant,
      storedBytesMax: storedBytesOf?.(tenant),
    };
    const secrets = new Map<Grant, Promise<boolean>>();
    const yieldIfDue = createYielder();
    while (queue.calls.length > 0) {
      const calls: NewRetainedCall[] = [];
      let [taken, bytes] = [0, 0];
      for (const queued of queue.calls) {
        await yieldIfDue();
        const call = await toStored(queued, secrets, yieldIfDue).catch((error: unknown) => {
          log.error({ err: error, tenant, server: queued.call.server }, "a call could not be retained");
        });
        bytes += call?.body.length ?? 0;
        if (calls.length > 0 && bytes > BATCH_BYTES) break;
        taken += 1;
        // Its entry may have changed since.
        if (call && this.#retainsAny(tenant, queued.call.server)) calls.push(call);
        if (calls.length === BATCH_CALLS) break;
      }
      if (calls.length > 0 && !(await this.#add(tenant, queue, () => store.add(tenant, calls, quota)))) return;
      for (const queued of queue.calls.splice(0, taken)) queue.bytes -= queuedBytes(queued);
      await yieldToCalls();
    }
  }

  /** False if it should be retried later. */
  async #add(tenant: string, queue: Queue, add: () => Promise<void>): Promise<boolean> {
    const { log } = this.#options;
    try {
      await add();
      queue.failures = 0;
      return true;
    } catch (error) {
      if (error instanceof BerthError && error.code === "storage_full") {
        const isReported = performance.now() - (this.#reportedAt.get(tenant) ?? -Infinity) < REPORT_EVERY_MS;
        if (!isReported) log.warn({ tenant, reason: error.message }, "calls are not retained: the quota is exceeded");
        this.#reportedAt.set(tenant, performance.now());
        return true;
      }
      queue.failures += 1;
      if (queue.failures === 2) log.error({ err: error, tenant }, "calls could not be retained; Berth will try again");
      if (queue.failures < ATTEMPTS && !this.#isClosed) return false;
      log.error({ err: error, tenant }, "calls could not be retained, and were dropped");
      queue.failures = 0;
      return true;
    }
  }

  /** Also true for a tenant that is no longer served here, whose last calls are not written yet. */
  #retainsAny(tenant: string, server: string): boolean {
    return this.#tenants.get(tenant)?.has(server) ?? true;
  }

  /** Follows the entries of a tenant: removes calls that a server no longer retains, or not as long. */
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

  /** Removes a tenant that is no longer served. */
  forget(tenant: string): void {
    this.#tenants.delete(tenant);
    this.#reportedAt.delete(tenant);
  }

  /** Whatever cannot be removed now is removed by the next sweep. */
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
    // Usually there is nothing to remove, and a write would delay others.
    if ((await store.list(tenant, server, { max: 1, before })).calls.length > 0)
      await store.remove(tenant, server, before);
  }

  /** Removes calls that are no longer retained. Never rejects. */
  async sweep(): Promise<void> {
    const { store, mayRemove, log } = this.#options;
    try {
      if (this.#isClosed || (mayRemove && !(await mayRemove()))) return;
      await store.removeExpired();
      for (const { tenant, server } of await store.servers()) {
        const retentions = this.#tenants.get(tenant);
        // Calls of tenants that are not served here expire.
        if (retentions && !this.#isClosed) await this.#removeOlder(tenant, server, retentions.get(server));
      }
    } catch (error) {
      if (!this.#isClosed) log.warn({ err: error }, "retained calls could not be removed; Berth will try again");
    }
  }

  /** How long a server's calls are retained, in milliseconds; undefined if they are not. */
  retainedMs(tenant: string, server: string): number | undefined {
    return this.#tenants.get(tenant)?.get(server);
  }

  /** Newest first; empty for a server that retains none. */
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
    clearInterval(this.#sweepTimer);
    await this.write();
    this.#isClosed = true;
    await this.write();
  }
}

/** Replaces NUL and lone surrogates, which not every store accepts. */
function toStorable(text: string): string {
  return Buffer.from(text).toString().replaceAll("\0", "\ufffd");
}

export interface ListedCalls {
  readonly calls: readonly ListedCall[];
  readonly isMore: boolean;
}

interface Retention {
  readonly ms: number;
  readonly grant: Grant | undefined;
  /** Only schemas that mark secrets. */
  readonly inputSchema: JsonSchema | undefined;
  readonly outputSchema: JsonSchema | undefined;
}

interface Queue {
  readonly calls: QueuedCall[];
  bytes: number;
  dropped: number;
  /** Consecutive failures to write to the store. */
  failures: number;
}

interface QueuedCall {
  readonly retention: Retention;
  readonly call: Omit<NewRetainedCall, "body">;
  readonly facts: RetainedContents;
  /** As JSON; undefined if they are too long. */
  readonly args: string | undefined;
  readonly result: string | undefined;
  readonly error: Pick<GuestFailure, "message" | "stack"> | undefined;
}

/** The bytes that a call takes in the queue. */
function queuedBytes({ args, result }: QueuedCall): number {
  return CALL_BYTES + (args?.length ?? 0) + (result?.length ?? 0);
}

/** `secrets`: which grants could be read for these calls. */
async function toStored(
  queued: QueuedCall,
  secrets: Map<Grant, Promise<boolean>>,
  yieldIfDue: () => Promise<void> | undefined,
): Promise<NewRetainedCall> {
  const { retention, call, facts } = queued;
  // A caller may mention a secret that the server has not read yet.
  const isRead = retention.grant === undefined || (await canRead(secrets, retention.grant));
  const contents = isRead ? await redactContents(queued, yieldIfDue) : { ...facts, isUnread: true };
  return { ...call, body: JSON.stringify(contents) };
}

function canRead(secrets: Map<Grant, Promise<boolean>>, grant: Grant): Promise<boolean> {
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

async function redactContents(
  queued: QueuedCall,
  yieldIfDue: () => Promise<void> | undefined,
): Promise<RetainedContents> {
  const { retention, facts, args, result, error } = queued;
  const redactor = new Redactor(retention.grant?.redactor);
  const withoutFields = (schema: JsonSchema | undefined, value: Json): Json => {
    const { value: hidden, found } = hideSecretFields(schema, value);
    // What a caller sent as a password may come back in the result or the error.
    for (const each of found) redactor.add(each);
    return hidden;
  };
  const redact = async (value: Json): Promise<Json> => {
    await yieldIfDue();
    // A caller may mark any number of values as secret.
    return redactor.isIncomplete ? HIDDEN : redactor.hideIn(value);
  };
  const text = async (message: string): Promise<string> => (await redact(cutText(message, ERROR_UNITS_MAX))) as string;
  const parsedArgs = args === undefined ? undefined : withoutFields(retention.inputSchema, JSON.parse(args) as Json);
  await yieldIfDue();
  const returned = result === undefined ? undefined : (JSON.parse(result) as JsonObject);
  if (returned?.["structuredContent"] !== undefined)
    returned["structuredContent"] = withoutFields(retention.outputSchema, returned["structuredContent"]);
  return {
    ...facts,
    ...(parsedArgs !== undefined && { arguments: await redact(parsedArgs) }),
    ...(returned !== undefined && { result: await redact(returned) }),
    ...(error && {
      error: {
        message: await text(error.message),
        ...(error.stack !== undefined && { stack: await text(error.stack) }),
      },
    }),
  };
}
