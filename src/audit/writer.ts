import { yieldToCalls } from "../lib/event-loop.ts";
import type { Log } from "../lib/log.ts";
import { fixed } from "../limits/fixed.ts";
import type { AuditEntry, AuditLinks, AuditRetentionLimits } from "./audit-entry.ts";
import { CallBlock, type AuditedCall } from "./call-block.ts";

const bounds = fixed({
  /** Calls of one tenant that wait to be recorded; further ones are only counted. */
  auditQueuedCalls: 10_000,
  /** How long a finished call waits to be recorded. */
  auditDelayMs: 1_000,
});

/** Blocks of this size are written immediately, so that no write takes long. */
const BLOCK_CALLS = 1_000;
/** The maximum number of blocks, of all tenants, written in one transaction before calls continue. */
const BATCH_ENTRIES = 8;
const RETENTION_CHECK_MS = 60_000;
/** Twice a minute, so that a late timer leaves no minute without an anchor. */
const ANCHOR_CHECK_MS = 30_000;
const RETAIN_NOW = 0;
/** Steps of retention after one write; calls continue in between. */
const RETENTION_STEPS = 8;

/**
 * Records calls with a short delay, in batches. The queue is bounded per tenant, so that a flood of one tenant costs no
 * other tenant its records. Dropped calls are counted, and the log contains their number.
 */
export class AuditWriter {
  readonly #links: AuditLinks;
  readonly #limits: AuditRetentionLimits;
  readonly #log: Log;
  readonly #mayRetain: () => Promise<boolean>;
  readonly #blocks = new Map<string, CallBlock>();
  /** Entries that are being written in batches, and the batch that was passed to the store. */
  #pending: (AuditEntry | CallBlock)[] = [];
  #batch: readonly AuditEntry[] = [];
  #entries: AuditEntry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** Consecutive failures. A single one is not reported, as another process may have been writing. */
  #failures = 0;
  #isClosed = false;
  readonly #sweep: NodeJS.Timeout;
  #retainAt = RETAIN_NOW;
  #anchorAt = 0;
  /** Calls that exceeded the queue. */
  dropped = 0;

  /** `mayRetain` resolves with true if this is the process of the cluster that enforces retention. */
  constructor(
    links: AuditLinks,
    limits: AuditRetentionLimits,
    log: Log,
    mayRetain: () => Promise<boolean> = async () => true,
  ) {
    this.#links = links;
    this.#limits = limits;
    this.#log = log;
    this.#mayRetain = mayRetain;
    this.#sweep = setInterval(() => void this.write(), ANCHOR_CHECK_MS).unref();
  }

  get queued(): number {
    const pending = [...this.#batch, ...this.#pending, ...this.#blocks.values()];
    return pending.reduce((calls, each) => calls + countRecords(each), 0);
  }

  call(call: AuditedCall): void {
    const { tenant } = call.tool;
    let block = this.#blocks.get(tenant);
    if (!block) this.#blocks.set(tenant, (block = new CallBlock(tenant)));
    if (block.calls >= bounds.auditQueuedCalls) {
      block.dropped += 1;
      this.dropped += 1;
      return;
    }
    block.add(call);
    if (block.calls >= BLOCK_CALLS && this.#failures === 0) this.#immediate ??= setImmediate(() => void this.write());
    this.#timer ??= setTimeout(() => void this.write(), bounds.auditDelayMs);
  }

  /** Adds an entry to a queue without a bound: the caller must limit the number of entries. */
  note(entry: AuditEntry): void {
    this.#entries.push(entry);
    this.#timer ??= setTimeout(() => void this.write(), bounds.auditDelayMs);
  }

  /** Never rejects: entries that cannot be written now remain queued. */
  write(patient = false): Promise<void> {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#timer = this.#immediate = undefined;
    this.#writing = this.#writing.then(() => this.#write(patient));
    return this.#writing;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweep);
    await this.write(true);
    // The first write may only have written a batch that failed before.
    await this.write(true);
  }

  async #write(patient: boolean): Promise<void> {
    if (this.#batch.length === 0 && this.#pending.length === 0) this.#takeQueued();
    try {
      while (this.#nextBatch()) {
        await this.#links.append(this.#batch, { patient });
        this.#batch = [];
        if (this.#pending.length > 0) await yieldToCalls();
      }
      await this.#anchor(patient);
      await this.#retain();
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      if (this.#failures === 2) this.#log.error({ err: error }, "the audit log could not be written; retrying");
    }
    const isMore = this.#batch.length > 0 || this.#blocks.size > 0 || this.#entries.length > 0;
    if ((isMore || this.#retainAt === RETAIN_NOW) && !this.#isClosed) {
      this.#timer ??= setTimeout(() => void this.write(), bounds.auditDelayMs);
    }
  }

  #takeQueued(): void {
    this.#pending = [...this.#entries, ...this.#blocks.values()];
    this.#entries = [];
    this.#blocks.clear();
  }

  #nextBatch(): boolean {
    if (this.#batch.length > 0) return true;
    const batch: AuditEntry[] = [];
    let [taken, records] = [0, 0];
    for (const each of this.#pending) {
      records += countRecords(each);
      if (batch.length === BATCH_ENTRIES || (batch.length > 0 && records > BLOCK_CALLS)) break;
      const entry = each instanceof CallBlock ? each.entry() : each;
      if (entry) batch.push(entry);
      taken += 1;
    }
    this.#pending.splice(0, taken);
    this.#batch = batch;
    return batch.length > 0;
  }

  /** The last anchor before the end covers everything. */
  async #anchor(patient: boolean): Promise<void> {
    if (performance.now() < this.#anchorAt && !this.#isClosed) return;
    await this.#links.anchor({ now: this.#isClosed, patient });
    this.#anchorAt = performance.now() + ANCHOR_CHECK_MS;
  }

  async #retain(): Promise<void> {
    if (performance.now() < this.#retainAt || this.#isClosed) return;
    let isMore = await this.#mayRetain();
    for (let step = 0; isMore && step < RETENTION_STEPS; step++) {
      isMore = await this.#links.retain(this.#limits);
      await yieldToCalls();
    }
    this.#retainAt = isMore ? RETAIN_NOW : performance.now() + RETENTION_CHECK_MS;
  }
}

function countRecords(queued: AuditEntry | CallBlock): number {
  return queued instanceof CallBlock ? queued.calls : queued.records;
}
