/**
 * A cap on what runs at a time over all tenants, with turns: when there is room, the tenants that wait are served one
 * job each in rotation, so that one tenant's long queue does not stand in front of another's only job.
 */
export class TurnQueue {
  readonly #runningMax: number;
  readonly #queuedPerTenant: number;
  readonly #waiting = new Map<string, Set<(mayRun: boolean) => void>>();
  #running = 0;

  constructor(runningMax: number, queuedPerTenant: number) {
    this.#runningMax = runningMax;
    this.#queuedPerTenant = queuedPerTenant;
  }

  /**
   * Resolves with true when it is the job's turn, which `leave` must end; with false when it left the queue by the
   * function handed to `onQueued`. Undefined when no more may wait.
   */
  enter(tenant: string, onQueued: (leaveQueue: () => void) => void): Promise<boolean> | undefined {
    if (this.#running < this.#runningMax) {
      this.#running++;
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

  leave(): void {
    const [turn] = this.#waiting;
    if (!turn) {
      this.#running--;
      return;
    }
    const [tenant, queue] = turn;
    const [resolve] = queue;
    queue.delete(resolve!);
    this.#waiting.delete(tenant);
    if (queue.size > 0) this.#waiting.set(tenant, queue);
    resolve!(true);
  }
}
