/** Work of the serving process that takes longer than this at a stretch lets calls of others have a turn. */
const STRETCH_MS = 1;

/** Awaited between two short steps of work: calls of others that have arrived by now get their turn. */
export function nextTurn(): Promise<void> {
  return new Promise(afterArrivals);
}

/**
 * Returns a function that a long loop awaits at each step: usually undefined, and now and then the end of the event
 * loop's turn, so that many small steps never become one long pause.
 */
export function turnTaker(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < STRETCH_MS) return undefined;
    return new Promise((resolve) => {
      afterArrivals(() => {
        since = performance.now();
        resolve();
      });
    });
  };
}

const waiting: (() => void)[] = [];
let goOnSince = 0;

/**
 * As `nextTurn`, for a step of one of many tasks that is as long as a stretch may be: tasks that wait at the same time
 * go on one after the other, and so do not become one long pause together.
 */
export function turnAmongAll(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) afterArrivals(letGoOn);
  });
}

function letGoOn(): void {
  goOnSince = performance.now();
  letFirstGoOn();
}

function letFirstGoOn(): void {
  waiting[0]!();
  // By then the task has done everything that it does before it waits for anything else.
  queueMicrotask(() =>
    process.nextTick(() => {
      waiting.shift();
      if (waiting.length === 0) return;
      if (performance.now() - goOnSince < STRETCH_MS) letFirstGoOn();
      else afterArrivals(letGoOn);
    }),
  );
}

/**
 * The results of `work` for each item, in order, a few at a time: those that wait for the disk wait together. Calls of
 * others get turns meanwhile.
 */
export async function mapInTurns<Item, Made>(
  items: readonly Item[],
  work: (item: Item) => Promise<Made>,
): Promise<Made[]> {
  const takeTurns = turnTaker();
  const begun: Promise<Made>[] = [];
  for (const item of items) {
    await takeTurns();
    const made = work(item);
    // The caller gets the rejection from the whole.
    made.catch(() => {});
    begun.push(made);
    await begun[begun.length - AT_A_TIME];
  }
  return Promise.all(begun);
}

/** This many loads of servers that begin together take some milliseconds. */
const AT_A_TIME = 4;

/** The event loop polls for arrivals before it runs immediates, but not between an arrival and the first immediate. */
function afterArrivals(resolve: () => void): void {
  setImmediate(() => setImmediate(resolve));
}
