import type { Log } from "../log.ts";
import { CallBlock, type AuditedCall } from "./call-block.ts";
import type { AuditEntry, AuditLinks, Keep } from "./entry.ts";

export interface WriterLimits extends Keep {
  /** Calls of one tenant that wait to be recorded. */
  readonly auditQueuedCalls: number;
  /** How long a call waits to be recorded. */
  readonly auditDelayMs: number;
}

/** A block is written before it has more calls than this, so that none takes long to write. */
const BLOCK_CALLS = 1_000;
const RETENTION_CHECK_MS = 60_000;
const RETAIN_NOW = 0;

/**
 * What is recorded soon and not at once: calls, many at a time. What waits is bounded for each tenant, so that no
 * tenant's flood costs another one its records; what there is no room for is counted, and the log says how many.
 */
export class AuditWriter {
  readonly #links: AuditLinks;
  readonly #limits: WriterLimits;
  readonly #log: Log;
  readonly #blocks = new Map<string, CallBlock>();
  /** What was handed to the store, and could not be written yet. */
  #unwritten: readonly AuditEntry[] = [];
  #others: AuditEntry[] = [];
  #timer: NodeJS.Timeout | undefined;
  #hurrying: NodeJS.Immediate | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isClosed = false;
  readonly #sweep: NodeJS.Timeout;
  #retainAt = RETAIN_NOW;
  /** That there was no room for. */
  dropped = 0;

  constructor(links: AuditLinks, limits: WriterLimits, log: Log) {
    this.#links = links;
    this.#limits = limits;
    this.#log = log;
    this.#sweep = setInterval(() => void this.write(), RETENTION_CHECK_MS).unref();
  }

  /** Calls that wait. */
  get queued(): number {
    let sum = this.#unwritten.reduce((calls, { records }) => calls + records, 0);
    for (const { calls } of this.#blocks.values()) sum += calls;
    return sum;
  }

  call(call: AuditedCall): void {
    const { tenant } = call.tool;
    let block = this.#blocks.get(tenant);
    if (!block) this.#blocks.set(tenant, (block = new CallBlock(tenant)));
    if (block.calls >= this.#limits.auditQueuedCalls) {
      block.dropped += 1;
      this.dropped += 1;
      return;
    }
    block.add(call);
    if (block.calls >= BLOCK_CALLS && !this.#isFailing) this.#hurrying ??= setImmediate(() => void this.write());
    this.#timer ??= setTimeout(() => void this.write(), this.#limits.auditDelayMs);
  }

  /** Whoever notes bounds how much there is of it. */
  note(entry: AuditEntry): void {
    this.#others.push(entry);
    this.#timer ??= setTimeout(() => void this.write(), this.#limits.auditDelayMs);
  }

  /** Never rejects: what cannot be written now waits. */
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
    // What was held up by an earlier failure came first.
    await this.write(true);
  }

  async #write(patient: boolean): Promise<void> {
    if (this.#unwritten.length === 0) this.#unwritten = this.#taken();
    try {
      if (this.#unwritten.length > 0) await this.#links.append(this.#unwritten, { patient });
      this.#unwritten = [];
      this.#isFailing = false;
      await this.#retain();
    } catch (error) {
      if (!this.#isFailing) this.#log.error({ err: error }, "the audit log could not be written; it is tried again");
      this.#isFailing = true;
    }
    const isMore = this.#unwritten.length > 0 || this.#blocks.size > 0 || this.#others.length > 0;
    if ((isMore || this.#retainAt === RETAIN_NOW) && !this.#isClosed) {
      this.#timer ??= setTimeout(() => void this.write(), this.#limits.auditDelayMs);
    }
  }

  #taken(): AuditEntry[] {
    const calls = [...this.#blocks.values()].flatMap((block) => block.entry() ?? []);
    const taken = [...this.#others, ...calls];
    this.#others = [];
    this.#blocks.clear();
    return taken;
  }

  async #retain(): Promise<void> {
    if (performance.now() < this.#retainAt || this.#isClosed) return;
    const isMore = await this.#links.retain(this.#limits);
    this.#retainAt = isMore ? RETAIN_NOW : performance.now() + RETENTION_CHECK_MS;
  }
}
