import { BerthError } from "../../lib/errors.ts";
import { Paces } from "../../lib/paces.ts";

/** What a tenant may have of programs of others. */
export interface ProcessLimits {
  readonly upstreamProcesses: number;
  /** 0 is as many as are needed. */
  readonly processStartsPerMinute: number;
}

/** What may run as a process of its own, and be ended while nobody uses it. */
export interface Restable {
  /** When it was used last. */
  readonly usedAt: number;
  /** Ends it, and resolves when it is gone; undefined when it does not run, or somebody uses it. */
  rest(): Promise<unknown> | undefined;
}

/**
 * Counts the processes of servers of others by tenant. At its limit a tenant gets room by the end of the one of its own
 * that nobody has used for longest, and never at the cost of another tenant.
 */
export class ProcessPlaces {
  readonly #limitsOf: (tenant: string) => ProcessLimits;
  readonly #paces: Paces;
  readonly #runningOf: (tenant: string) => Iterable<Restable>;
  readonly #taken = new Map<string, number>();

  constructor(limitsOf: (tenant: string) => ProcessLimits, runningOf: (tenant: string) => Iterable<Restable>) {
    this.#limitsOf = limitsOf;
    this.#paces = new Paces((tenant) => {
      const { processStartsPerMinute, upstreamProcesses } = limitsOf(tenant);
      return { perMinute: processStartsPerMinute, burst: Math.max(upstreamProcesses, BURST_MIN) };
    });
    this.#runningOf = runningOf;
  }

  /**
   * Gives what the end of the process has to call, once. Rejects with `too_many_processes` while all are in use, and
   * where too many were started just now.
   */
  async take(tenant: string): Promise<() => void> {
    const { upstreamProcesses, processStartsPerMinute } = this.#limitsOf(tenant);
    const waitMs = this.#paces.take(tenant, performance.now());
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

/** Who may have few at a time may still change from one to the other. */
const BURST_MIN = 10;
