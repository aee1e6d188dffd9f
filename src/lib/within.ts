/** A store that has not answered by then is stalled: its disk, or its database. */
export const LATE_MS = 100;

/** The result of `work`, or undefined if it takes longer than `ms`; it goes on all the same. */
export async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  // What arrived while the event loop was busy is in time.
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => setImmediate(resolve, undefined), ms)));
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** False when `work` takes longer than `ms`; it goes on all the same. Rejects as `work` does. */
export async function endsWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  return (
    (await within(
      ms,
      work.then(() => true),
    )) ?? false
  );
}
