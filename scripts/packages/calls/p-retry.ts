import pRetry, { AbortError } from "p-retry";

/** Tries until it works, or until it never will. */
export async function tries(): Promise<{ worked: number; message: string }> {
  let count = 0;
  const work = async (): Promise<number> => {
    count += 1;
    if (count < 3) throw new Error("not yet");
    return count;
  };
  const worked = await pRetry(work, { retries: 5, minTimeout: 1 });
  const refused = pRetry(() => Promise.reject(new AbortError("never")), { retries: 5 });
  return { worked, message: await refused.catch((error: Error) => error.message) };
}
