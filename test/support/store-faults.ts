import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

const preload = new URL("./store-faults-preload.js", import.meta.url);

/** Faults of the disk that the thread of a store sees, if the store is opened after this. */
export function storeFaults(t: TestContext): { begin(fault: "flush" | "stat"): void; end(): void } {
  const folder = mkdtempSync(join(tmpdir(), "berth-faults-"));
  const file = join(folder, "fault");
  const { NODE_OPTIONS: options = "" } = process.env;
  process.env["NODE_OPTIONS"] = `${options} --import=${preload.href}`;
  process.env["BERTH_TEST_FAULT"] = file;
  const end = (): void => rmSync(file, { force: true });
  t.after(() => {
    process.env["NODE_OPTIONS"] = options;
    delete process.env["BERTH_TEST_FAULT"];
    rmSync(folder, { recursive: true });
  });
  return { begin: (fault) => writeFileSync(file, fault), end };
}
