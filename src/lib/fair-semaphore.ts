import { TenantCounts } from "./tenant-counts.ts";

/**
 * A cap on running jobs over all tenants, one on each tenant's part of it, and turns: when there is room, the waiting
 * tenants are served one job each in rotation, so that one tenant's long queue does not delay another's only job.
 */
export class FairSemaphore {
  readonly #runningMax: number;
  readonly #runningMaxOf: (tenant: string) => number;
  readonly #queuedPerTenant: number;
  readonly #waiting = new Map<string, Set<(mayRun: boolean) => void>>();
  readonly #running = new TenantCounts();

  /** `runningMaxOf` tells how many jobs of one tenant may run. */
  constructor(runningMax: number, queuedPerTenant: number, runningMaxOf: (tenant: string) => number) {
    this.#runningMax = runningMax;
    this.#queuedPerTenant = queuedPerTenant;
    this.#runningMaxOf = runningMaxOf;
  }

  /**
   * Resolves with true when it is the job's turn, which `leave` must end; with false when the function passed to
   * `onQueued` took it out of the queue. Undefined when no more jobs may wait.
   */
  enter(tenant: string, onQueued: (leaveQueue: () => void) => void): Promise<boolean> | undefined {
    if (this.#mayRun(tenant)) {
      this.#running.add(tenant, 1);
      return Promise.resolve(true);
    }
    const queue = this.#waiting.get(tenant) ?? new Set();
    if (queue.size >= this.#queuedPerTenant) return undefined;
    this.#waiting.set(tenant, queue);
    return new Promise((resolve) => {
      queue.add(resolve);
      onQueued(() => {
        if (!queue.delete(resolve)) return;
        if (queue.size === 0) this.#waiting.delete(tenant);
        resolve(false);
      });
    });
  }

  /** A job of the tenant is over: the next waiting jobs get their turn. */
  leave(tenant: string): void {
    this.#running.add(tenant, -1);
    for (const [next, queue] of this.#waiting) {
      if (!this.#mayRun(next)) continue;
      const [resolve] = queue;
      queue.delete(resolve!);
      this.#waiting.delete(next);
      if (queue.size > 0) this.#waiting.set(next, queue);
      this.#running.add(next, 1);
      resolve!(true);
      return;
    }
  }

  #mayRun(tenant: string): boolean {
    return this.#running.all < this.#runningMax && this.#running.of(tenant) < this.#runningMaxOf(tenant);
  }
}
