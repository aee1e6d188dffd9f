import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { clock } from "./clock.ts";
import { readingBounds } from "./reading-bounds.ts";

/**
 * Runs a module in a thread of its own, with limits on time and memory, and ends the thread. The result is the first
 * message of the module; without one, `why` is "within …" or "with …", to complete a sentence about what was not
 * possible.
 */
export async function runInThread(
  module: URL,
  workerData: unknown,
): Promise<{ readonly result: unknown } | { readonly why: string }> {
  const { checkMs, checkMemoryMb } = readingBounds;
  const worker = new Worker(module, { workerData, resourceLimits: { maxOldGenerationSizeMb: checkMemoryMb } });
  // Ignores errors of the thread after its result or its timeout.
  worker.on("error", () => {});
  const timeout = new AbortController();
  const timer = clock.after(checkMs, () => timeout.abort());
  const { signal } = timeout;
  try {
    const [result] = (await once(worker, "message", { signal })) as [unknown];
    return { result };
  } catch {
    if (signal.aborted) return { why: `within ${checkMs} ms` };
    return { why: `with ${checkMemoryMb} MB of memory` };
  } finally {
    timer.clear();
    await worker.terminate();
  }
}
