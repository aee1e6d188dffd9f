import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packageRoot } from "../../../src/config.ts";

export interface ServedBerth {
  /** The base of server addresses: `<url>/echo`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** `berth serve` on the package's own image, a free port and an empty data folder, as a person starts it. */
export async function serveBerth(): Promise<ServedBerth> {
  const data = await mkdtemp(join(tmpdir(), "berth-clients-"));
  const cli = join(packageRoot, "dist", "src", "cli.js");
  const child = spawn(process.execPath, [cli, "serve", "--port", "0", "--data", data], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(child, "exit");
  const url = await new Promise<string>((resolve, reject) => {
    let text = "";
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const found = /Berth serves (http:\S+\/mcp)\b/.exec(text)?.[1];
      if (found) resolve(found);
    });
    child.once("exit", (code) => reject(new Error(`berth serve ended with ${code}: ${text}`)));
  }).catch(async (error: unknown) => {
    await rm(data, { recursive: true, force: true });
    throw error;
  });
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      await ended;
      await rm(data, { recursive: true, force: true });
    },
  };
}
