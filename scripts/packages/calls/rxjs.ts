import { filter, lastValueFrom, map, range, toArray } from "rxjs";

/** Lists the values that come out of a pipe. */
export async function values(): Promise<number[]> {
  return lastValueFrom(
    range(1, 10).pipe(
      filter((x) => x % 2 === 1),
      map((x) => x + x),
      toArray(),
    ),
  );
}
