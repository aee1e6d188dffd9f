import { threadMs } from "./stopwatch.ts";

/** How often the event loop has turned until `work` is done. */
export async function turnsIn(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    if (isDone) return;
    turns += 1;
    setImmediate(turn);
  };
  setImmediate(turn);
  await work();
  isDone = true;
  return turns;
}

/** The processor time of the longest turn until `work` is done. */
export async function longestTurnMs(work: () => Promise<unknown>): Promise<number> {
  let longestMs = 0;
  let last = threadMs();
  let isDone = false;
  const turn = (): void => {
    const now = threadMs();
    longestMs = Math.max(longestMs, now - last);
    last = now;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  try {
    await work();
  } finally {
    isDone = true;
  }
  turn();
  return longestMs;
}
