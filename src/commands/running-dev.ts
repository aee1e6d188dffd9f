import { lstatSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { OwnFolder } from "./own-folder.ts";

/** Records where `berth dev` serves a folder, for other commands. Returns the removal of the record. */
export function recordDev(own: OwnFolder, url: string): () => void {
  const file = recordFile(own);
  const remove = (): void => rmSync(file, { force: true });
  // A link would have another file overwritten.
  remove();
  writeFileSync(file, `${process.pid} ${new URL(url).port}\n`, { flag: "wx", mode: 0o600 });
  return remove;
}

/**
 * The address of the `berth dev` that serves a folder. Only the port is read from the record: a folder that another
 * person wrote may contain a forged one.
 */
export async function runningDev(own: OwnFolder): Promise<string | undefined> {
  try {
    const file = recordFile(own);
    if (!lstatSync(file).isFile()) return undefined;
    const [pid, port] = readFileSync(file, "utf8").split(" ").map(Number);
    // Throws if there is no such process.
    process.kill(pid!, 0);
    const url = `http://127.0.0.1:${port}`;
    const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(PROBE_MS), redirect: "error" });
    return (await response.text()) === '{"status":"ok"}' ? url : undefined;
  } catch {
    return undefined;
  }
}

const PROBE_MS = 5_000;

function recordFile({ devData }: OwnFolder): string {
  return join(dirname(devData), "dev-address");
}
