/**
 * Limits how many jobs one tenant may run at a time and how many may wait behind them, in order. It knows neither
 * processes nor what its jobs are.
 */
export interface BoundedQueueLimits {
  readonly running: number;
  readonly queued: number;
}

export class BoundedQueue<Job> {
  readonly #limits: BoundedQueueLimits;
  readonly #start: (job: Job) => void;
  readonly #queue = new Set<Job>();
  #running = 0;

  constructor(limits: BoundedQueueLimits, start: (job: Job) => void) {
    this.#limits = limits;
    this.#start = start;
  }

  get idle(): boolean {
    return this.#running === 0 && this.#queue.size === 0;
  }

  get waiting(): ReadonlySet<Job> {
    return this.#queue;
  }

  /** Starts the job now or later; false when no more may wait. */
  enter(job: Job): boolean {
    if (this.#running < this.#limits.running) {
      this.#running++;
      this.#start(job);
      return true;
    }
    if (this.#queue.size >= this.#limits.queued) return false;
    this.#queue.add(job);
    return true;
  }

  /** Takes a job out of the queue; false when it was not waiting. */
  remove(job: Job): boolean {
    return this.#queue.delete(job);
  }

  /** A started job is over: the next one gets its turn. */
  leave(): void {
    const [next] = this.#queue;
    if (next === undefined) {
      this.#running--;
      return;
    }
    this.#queue.delete(next);
    this.#start(next);
  }
}
