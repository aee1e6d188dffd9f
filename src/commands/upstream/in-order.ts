/**
 * Works on several items at once, and yields each with its result in the order of the items, as soon as it is its turn.
 * Reads no item further ahead than it works on. `work` never rejects.
 */
export async function* inOrder<T, R>(
  items: AsyncIterable<T>,
  concurrency: number,
  work: (item: T) => Promise<R>,
): AsyncGenerator<[T, R]> {
  const iterator = items[Symbol.asyncIterator]();
  const read = (): Promise<{ readonly taken: IteratorResult<T> }> => iterator.next().then((taken) => ({ taken }));
  const underWay: Promise<{ readonly given: [T, R] }>[] = [];
  let next: ReturnType<typeof read> | undefined = read();
  try {
    while (next || underWay.length > 0) {
      const [first] = underWay;
      const events = [...(next && underWay.length < concurrency ? [next] : []), ...(first ? [first] : [])];
      const event = await Promise.race<{ readonly taken: IteratorResult<T> } | { readonly given: [T, R] }>(events);
      if ("given" in event) {
        void underWay.shift();
        yield event.given;
      } else if (event.taken.done) next = undefined;
      else {
        const { value } = event.taken;
        underWay.push(work(value).then((result) => ({ given: [value, result] })));
        next = read();
      }
    }
  } finally {
    // A consumer that leaves early does not wait for an item that may never come.
    next?.catch(() => {});
  }
}
