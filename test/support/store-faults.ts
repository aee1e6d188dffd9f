import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder, type Ending } from "./temporary-folder.ts";

const preload = new URL("./store-faults-preload.js", import.meta.url);

/** Faults of the disk that the thread of a store sees, if the store is opened after this. */
export function storeFaults(t: Ending): { begin(fault: "flush" | "stat"): void; end(): void } {
  const file = join(temporaryFolder(t), "fault");
  const { NODE_OPTIONS: options = "" } = process.env;
  process.env["NODE_OPTIONS"] = `${options} --import=${preload.href}`;
  process.env["BERTH_TEST_FAULT"] = file;
  const end = (): void => rmSync(file, { force: true });
  t.after(() => {
    process.env["NODE_OPTIONS"] = options;
    delete process.env["BERTH_TEST_FAULT"];
  });
  return { begin: (fault) => writeFileSync(file, fault), end };
}
