import { BerthError } from "../../errors.ts";

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
  readonly #limitOf: (tenant: string) => number;
  readonly #runningOf: (tenant: string) => Iterable<Restable>;
  readonly #taken = new Map<string, number>();

  constructor(limitOf: (tenant: string) => number, runningOf: (tenant: string) => Iterable<Restable>) {
    this.#limitOf = limitOf;
    this.#runningOf = runningOf;
  }

  /** Gives what the end of the process has to call, once. Rejects with `too_many_processes` while all are in use. */
  async take(tenant: string): Promise<() => void> {
    while (this.#of(tenant) >= this.#limitOf(tenant)) {
      const gone = this.#restOne(tenant);
      if (!gone) throw refusal(tenant, this.#limitOf(tenant));
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

function refusal(tenant: string, limit: number): BerthError {
  const why = `the tenant "${tenant}" has ${limit} programs of others running, which is its limit upstreamProcesses, and all are in use`;
  return new BerthError("too_many_processes", `${why}; try again in 1 s`, { data: { retryAfterSeconds: 1 } });
}
