import { nextTurn } from "../lib/event-loop.ts";
import type { Log } from "../lib/log.ts";
import { fixed } from "../limits/fixed.ts";
import type { AuditEntry, AuditLinks, Keep } from "./audit-entry.ts";
import { CallBlock, type AuditedCall } from "./call-block.ts";

const bounds = fixed({
  /** Calls of one tenant that wait to be recorded; further ones are only counted. */
  auditQueuedCalls: 10_000,
  /** How long an ended call waits to be recorded. */
  auditDelayMs: 1_000,
});

/** A block of this size is written at once, so that none takes long to write. */
const BLOCK_CALLS = 1_000;
/** The blocks, of all tenants, that are written at once before calls go on. */
const PIECE_ENTRIES = 8;
const RETENTION_CHECK_MS = 60_000;
/** Twice a minute, so that no minute goes without an anchor because a timer was late. */
const ANCHOR_CHECK_MS = 30_000;
const RETAIN_NOW = 0;
/** Steps of retention after one write; calls go on in between. */
const RETENTION_STEPS = 8;

/**
 * Records calls with a short delay, many at a time. The queue is bounded for each tenant, so that no tenant's flood
 * costs another one its records; calls that find no room are counted, and the log says how many.
 */
export class AuditWriter {
  readonly #links: AuditLinks;
  readonly #limits: Keep;
  readonly #log: Log;
  readonly #mayRetain: () => Promise<boolean>;
  readonly #blocks = new Map<string, CallBlock>();
  /** The entries being written, piece by piece, and the piece that was handed to the store. */
  #taken: (AuditEntry | CallBlock)[] = [];
  #piece: readonly AuditEntry[] = [];
  #others: AuditEntry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #hurrying: NodeJS.Immediate | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** How often in a row the store could not be written: once is no failure, as another process may be writing. */
  #failures = 0;
  #isClosed = false;
  readonly #sweep: NodeJS.Timeout;
  #retainAt = RETAIN_NOW;
  #anchorAt = 0;
  /** The number of calls that found no room. */
  dropped = 0;

  /** `mayRetain` tells if this process is the one of several that keeps to the limits of what is kept. */
  constructor(links: AuditLinks, limits: Keep, log: Log, mayRetain: () => Promise<boolean> = async () => true) {
    this.#links = links;
    this.#limits = limits;
    this.#log = log;
    this.#mayRetain = mayRetain;
    this.#sweep = setInterval(() => void this.write(), ANCHOR_CHECK_MS).unref();
  }

  /** The number of waiting calls. */
  get queued(): number {
    const waiting = [...this.#piece, ...this.#taken, ...this.#blocks.values()];
    return waiting.reduce((calls, each) => calls + recordsOf(each), 0);
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
    if (block.calls >= BLOCK_CALLS && this.#failures === 0) this.#hurrying ??= setImmediate(() => void this.write());
    this.#timer ??= setTimeout(() => void this.write(), bounds.auditDelayMs);
  }

  /** Unbounded: the caller limits the number of entries. */
  note(entry: AuditEntry): void {
    this.#others.push(entry);
    this.#timer ??= setTimeout(() => void this.write(), bounds.auditDelayMs);
  }

  /** Never rejects: entries that cannot be written now wait. */
  write(patient = false): Promise<void> {
    clearTimeout(this.#timer);
    clearImmediate(this.#hurrying);
    this.#timer = this.#hurrying = undefined;
    this.#writing = this.#writing.then(() => this.#write(patient));
    return this.#writing;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#sweep);
    await this.write(true);
    // The first write may only have written what an earlier failure held up.
    await this.write(true);
  }

  async #write(patient: boolean): Promise<void> {
    if (this.#piece.length === 0 && this.#taken.length === 0) this.#take();
    try {
      while (this.#cutPiece()) {
        await this.#links.append(this.#piece, { patient });
        this.#piece = [];
        if (this.#taken.length > 0) await nextTurn();
      }
      await this.#anchor(patient);
      await this.#retain();
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      if (this.#failures === 2)
        this.#log.error({ err: error }, "the audit log could not be written; Berth tries again");
    }
    const isMore = this.#piece.length > 0 || this.#blocks.size > 0 || this.#others.length > 0;
    if ((isMore || this.#retainAt === RETAIN_NOW) && !this.#isClosed) {
      this.#timer ??= setTimeout(() => void this.write(), bounds.auditDelayMs);
    }
  }

  #take(): void {
    this.#taken = [...this.#others, ...this.#blocks.values()];
    this.#others = [];
    this.#blocks.clear();
  }

  /** False when there is nothing more to write. */
  #cutPiece(): boolean {
    if (this.#piece.length > 0) return true;
    const piece: AuditEntry[] = [];
    let [taken, records] = [0, 0];
    for (const each of this.#taken) {
      records += recordsOf(each);
      if (piece.length === PIECE_ENTRIES || (piece.length > 0 && records > BLOCK_CALLS)) break;
      const entry = each instanceof CallBlock ? each.entry() : each;
      if (entry) piece.push(entry);
      taken += 1;
    }
    this.#taken.splice(0, taken);
    this.#piece = piece;
    return piece.length > 0;
  }

  /** The last write leaves nothing that no anchor holds. */
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
      await nextTurn();
    }
    this.#retainAt = isMore ? RETAIN_NOW : performance.now() + RETENTION_CHECK_MS;
  }
}

function recordsOf(waiting: AuditEntry | CallBlock): number {
  return waiting instanceof CallBlock ? waiting.calls : waiting.records;
}
