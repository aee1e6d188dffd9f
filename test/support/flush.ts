import fs, { readlinkSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import type { TestContext } from "node:test";
import { callbackify, promisify } from "node:util";

/** Does `work` at each flush of written data, until the test is over or the returned function is called. */
export function onFlush(t: TestContext, work: (file: string, flush: () => Promise<void>) => Promise<void>): () => void {
  const flush = promisify(fs.fdatasync);
  const flushed = (descriptor: number): Promise<void> =>
    work(readlinkSync(`/proc/self/fd/${descriptor}`), () => flush(descriptor));
  t.mock.method(fs, "fdatasync", callbackify(flushed));
  syncBuiltinESMExports();
  const end = (): void => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  };
  t.after(end);
  return end;
}
