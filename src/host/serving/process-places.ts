import { BerthError } from "../../lib/errors.ts";
import { TokenBuckets } from "../../lib/token-buckets.ts";

/** The limits on a tenant's upstream processes. */
export interface ProcessLimits {
  readonly upstreamProcesses: number;
  /** 0 means no limit. */
  readonly processStartsPerMinute: number;
}

/** An upstream that may run as a process, which can be ended while it is not in use. */
export interface Restable {
  /** When it was last used. */
  readonly usedAt: number;
  /** Ends the process and resolves when it is gone; undefined when it does not run or is in use. */
  rest(): Promise<unknown> | undefined;
}

/**
 * Counts upstream processes by tenant. A tenant at its limit gets room by ending its own least recently used process
 * that is not in use, and never at the cost of another tenant.
 */
export class ProcessPlaces {
  readonly #limitsOf: (tenant: string) => ProcessLimits;
  readonly #buckets: TokenBuckets;
  readonly #runningOf: (tenant: string) => Iterable<Restable>;
  readonly #taken = new Map<string, number>();

  constructor(limitsOf: (tenant: string) => ProcessLimits, runningOf: (tenant: string) => Iterable<Restable>) {
    this.#limitsOf = limitsOf;
    this.#buckets = new TokenBuckets((tenant) => {
      const { processStartsPerMinute, upstreamProcesses } = limitsOf(tenant);
      return { perMinute: processStartsPerMinute, burst: Math.max(upstreamProcesses, BURST_MIN) };
    });
    this.#runningOf = runningOf;
  }

  /**
   * Resolves with a function to call once when the process has ended. Rejects with `too_many_processes` while all are
   * in use, and when too many were started just now.
   */
  async take(tenant: string): Promise<() => void> {
    const { upstreamProcesses, processStartsPerMinute } = this.#limitsOf(tenant);
    const waitMs = this.#buckets.take(tenant, performance.now());
    if (waitMs > 0) {
      const why = `may start ${processStartsPerMinute} programs of others a minute, which is its limit processStartsPerMinute`;
      throw refusal(tenant, why, Math.ceil(waitMs / 1000));
    }
    while (this.#of(tenant) >= upstreamProcesses) {
      const gone = this.#restOne(tenant);
      if (!gone) {
        const why = `has ${upstreamProcesses} programs of others running, which is its limit upstreamProcesses, and all are in use`;
        throw refusal(tenant, why, 1);
      }
      await gone;
    }
    this.#taken.set(tenant, this.#of(tenant) + 1);
    return () => {
      const left = this.#of(tenant) - 1;
      if (left > 0) this.#taken.set(tenant, left);
      else this.#taken.delete(tenant);
    };
  }

  #of(tenant: string): number {
    return this.#taken.get(tenant) ?? 0;
  }

  #restOne(tenant: string): Promise<unknown> | undefined {
    const oldestFirst = [...this.#runningOf(tenant)].toSorted((left, right) => left.usedAt - right.usedAt);
    for (const each of oldestFirst) {
      const gone = each.rest();
      if (gone) return gone;
    }
    return undefined;
  }
}

function refusal(tenant: string, why: string, retryAfterSeconds: number): BerthError {
  const detail = `the tenant "${tenant}" ${why}; try again in ${retryAfterSeconds} s`;
  return new BerthError("too_many_processes", detail, { data: { retryAfterSeconds } });
}

/** A tenant with few places may still switch between upstreams. */
const BURST_MIN = 10;
