/** Work of the serving process that takes longer than this yields to other calls. */
const YIELD_AFTER_MS = 1;

/** Yields to the event loop between two short steps of work, so that calls that have arrived by now run. */
export function yieldToCalls(): Promise<void> {
  return new Promise(afterPoll);
}

/**
 * Returns a function that a long loop awaits at each step: usually undefined, and when due, the end of the event loop's
 * turn, so that many small steps never become one long pause.
 */
export function createYielder(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < YIELD_AFTER_MS) return undefined;
    return new Promise((resolve) => {
      afterPoll(() => {
        since = performance.now();
        resolve();
      });
    });
  };
}

const queue: (() => void)[] = [];
let resumedAt = 0;

/**
 * Like `yieldToCalls`, for steps that may take as long as a task may block: tasks that yield at the same time resume
 * one after the other, so that together they do not become one long pause.
 */
export function yieldInOrder(): Promise<void> {
  return new Promise((resolve) => {
    if (queue.push(resolve) === 1) afterPoll(resumeQueue);
  });
}

function resumeQueue(): void {
  resumedAt = performance.now();
  resumeFirst();
}

function resumeFirst(): void {
  queue[0]!();
  // By then the task has done everything up to its next await.
  queueMicrotask(() =>
    process.nextTick(() => {
      queue.shift();
      if (queue.length === 0) return;
      if (performance.now() - resumedAt < YIELD_AFTER_MS) resumeFirst();
      else afterPoll(resumeQueue);
    }),
  );
}

/** The results of `work`, in order, a few at a time, so that waits for the disk overlap. Yields to other calls. */
export async function mapYielding<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const yieldIfDue = createYielder();
  const started: Promise<Result>[] = [];
  for (const item of items) {
    await yieldIfDue();
    const result = work(item);
    // The caller receives the rejection from `Promise.all`.
    result.catch(() => {});
    started.push(result);
    await started[started.length - CONCURRENCY];
  }
  return Promise.all(started);
}

/** Starting this many loads of servers together takes some milliseconds. */
const CONCURRENCY = 4;

/** The event loop polls for I/O before immediates, but not between an arrival and the first immediate. */
function afterPoll(resolve: () => void): void {
  setImmediate(() => setImmediate(resolve));
}
