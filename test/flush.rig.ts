import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import type { TestContext } from "node:test";

/** Until the test is over, does `work` wherever something that was written is to be flushed to the disk. */
export function onFlush(t: TestContext, work: (file: string, flush: () => Promise<void>) => Promise<void>): void {
  const { open } = fsPromises;
  t.mock.method(fsPromises, "open", async (...given: Parameters<typeof open>) => {
    const file = await open(...given);
    const flush = file.datasync.bind(file);
    file.datasync = () => work(String(given[0]), flush);
    return file;
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
}
