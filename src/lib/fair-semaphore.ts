import { TenantCounts } from "./tenant-counts.ts";

/**
 * Limits running jobs over all tenants and per tenant. When a slot is free, waiting tenants are served one job each in
 * rotation, so that one tenant's long queue does not delay another's only job.
 */
export class FairSemaphore {
  readonly #runningMax: number;
  readonly #tenantRunningMax: (tenant: string) => number;
  readonly #queuedPerTenant: number;
  readonly #waiting = new Map<string, Set<(mayRun: boolean) => void>>();
  readonly #running = new TenantCounts();

  /** `tenantRunningMax` returns how many jobs of one tenant may run. */
  constructor(runningMax: number, queuedPerTenant: number, tenantRunningMax: (tenant: string) => number) {
    this.#runningMax = runningMax;
    this.#queuedPerTenant = queuedPerTenant;
    this.#tenantRunningMax = tenantRunningMax;
  }

  /**
   * Resolves with true when the job may run, after which `leave` must be called; with false if the function passed to
   * `onQueued` removed it from the queue. Undefined if the queue is full.
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

  /** Ends a job of the tenant, and starts the next waiting job. */
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
    return this.#running.all < this.#runningMax && this.#running.of(tenant) < this.#tenantRunningMax(tenant);
  }
}
