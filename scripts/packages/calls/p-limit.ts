import pLimit from "p-limit";

/** The most that ran at once. */
export async function most(): Promise<{ most: number; results: number[] }> {
  const limit = pLimit(2);
  let [now, most] = [0, 0];
  const work = async (value: number): Promise<number> => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setTimeout(resolve, 1));
    now -= 1;
    return value * 2;
  };
  return { results: await Promise.all([1, 2, 3, 4].map((value) => limit(() => work(value)))), most };
}
