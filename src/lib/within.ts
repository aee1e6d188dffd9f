/** A store that has not answered by then counts as stalled: its disk, or its database. */
export const LATE_MS = 100;

/** The result of `work`, or undefined if it takes longer than `ms`; `work` continues nevertheless. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  // Results that arrived while the event loop was busy are in time.
  const timeout = new Promise<undefined>((resolve) => (timer = setTimeout(() => setImmediate(resolve, undefined), ms)));
  try {
    return await Promise.race([work, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

/** False if `work` takes longer than `ms`; `work` continues nevertheless. Rejects as `work` does. */
export async function settlesWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  return (
    (await within(
      ms,
      work.then(() => true),
    )) ?? false
  );
}
