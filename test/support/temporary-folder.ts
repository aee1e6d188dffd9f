import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

/** A test, or `{ after }` of the suite or file. */
export interface Ending {
  after(clean: () => unknown): void;
}

/** A folder that is removed after the test, or after the tests of the suite or file that calls this. */
export function temporaryFolder(t: Ending = { after }): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "berth-test-")));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Closes a resource after the test, and returns it. */
export function closeAfter<T extends { close(): unknown }>(t: Ending, opened: T): T {
  t.after(() => opened.close());
  return opened;
}
