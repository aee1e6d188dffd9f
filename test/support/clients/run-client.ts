import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { clientsFolder, resolveClient } from "./real-client.ts";

interface Ended {
  readonly args: readonly string[];
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const RUN_MS_MAX = 240_000;

/** A file of a package that does not export it. */
export function clientFile(path: string): string {
  return join(clientsFolder, "node_modules", ...path.split("/"));
}

/** The output of a command that ended with one of these codes. Throws otherwise, with all its output. */
export function outputOf({ args, exitCode, stdout, stderr }: Ended, goodCodes: readonly (number | null)[]): string {
  if (goodCodes.includes(exitCode)) return stdout;
  throw new Error(`${args.join(" ")} ended with ${exitCode}: ${stderr}${stdout}`);
}

/** A home of its own keeps a client from a person's settings. */
export async function withHome<T>(use: (home: string) => Promise<T>): Promise<T> {
  const home = await mkdtemp(join(tmpdir(), "berth-client-"));
  try {
    return await use(home);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}

export function runOnNode24(args: readonly string[]): Promise<Ended> {
  return withHome((home) => runAtHome(args, home));
}

/** Command-line clients need Node 24, which the package `node` provides. */
export function runAtHome(args: readonly string[], home: string): Promise<Ended> {
  const node = join(dirname(resolveClient("node/package.json")), "bin", "node");
  const cache = process.env["BERTH_TEST_COMPILE_CACHE"];
  const env = { PATH: process.env["PATH"], HOME: home, NO_COLOR: "1", NODE_COMPILE_CACHE: cache };
  return new Promise((resolve) => {
    const child = execFile(node, args, { env, cwd: home, timeout: RUN_MS_MAX }, (_error, stdout, stderr) =>
      resolve({ args, exitCode: child.exitCode, stdout, stderr }),
    );
    child.stdin!.end();
  });
}
