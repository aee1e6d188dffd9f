/** Loaded by the thread of a store (`store-faults.ts`): its disk fails while a file says so. */
import fs, { readFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { isMainThread } from "node:worker_threads";

const { BERTH_TEST_FAULT: file } = process.env;
const { fdatasync, statSync } = fs;

function isFailing(fault: string): boolean {
  try {
    return readFileSync(file!, "utf8") === fault;
  } catch {
    return false;
  }
}

function ioError(call: string): Error {
  return Object.assign(new Error(`EIO: i/o error, ${call}`), { code: "EIO" });
}

if (file !== undefined && !isMainThread) {
  Object.assign(fs, {
    fdatasync: (descriptor: number, done: (error: Error | null) => void) =>
      isFailing("flush") ? done(ioError("fdatasync")) : fdatasync(descriptor, done),
    statSync(path: string, options?: object) {
      if (isFailing("stat")) throw ioError(`stat '${path}'`);
      return statSync(path, options);
    },
  });
  syncBuiltinESMExports();
}
