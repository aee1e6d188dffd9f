import { execFile, spawn } from "node:child_process";
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { packageRoot } from "../../src/config.ts";

export const run = promisify(execFile);

/** Copies parts of the project into a folder, with a link to its packages. */
export function copyProject(folder: string, ...paths: string[]): void {
  const filter = (source: string): boolean => !relative(packageRoot, source).split("/").includes("node_modules");
  for (const path of paths) cpSync(join(packageRoot, path), join(folder, path), { recursive: true, filter });
  symlinkSync(join(packageRoot, "node_modules"), join(folder, "node_modules"));
}

/** Compiles `src/` of a copy. Rejects with the compiler's messages. */
export async function compileCopy(folder: string, ...options: string[]): Promise<void> {
  const file = join(folder, "tsconfig.json");
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), include: ["src"] }));
  const tsc = join(packageRoot, "node_modules/typescript-7/bin/tsc");
  await run(process.execPath, [tsc, "-p", folder, ...options]).catch((error: { stdout: string }) => {
    throw new Error(error.stdout, { cause: error });
  });
}

/** Serves the boot image with the compiled code of a copy. */
export async function serveCopy(folder: string): Promise<{ readonly url: string; close(): Promise<void> }> {
  const cli = join(folder, "dist/src/cli.js");
  const serving = spawn(process.execPath, [cli, "serve", "--port", "0", "--data", join(folder, "data")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const exited = new Promise<void>((resolve) => serving.once("exit", () => resolve()));
  let log = "";
  for await (const line of createInterface({ input: serving.stderr })) {
    log += `${line}\n`;
    const url = /Berth serves (http:\S+)\/mcp/.exec(line)?.[1];
    if (url !== undefined) return { url, close: () => (serving.kill(), exited) };
  }
  throw new Error(log);
}
