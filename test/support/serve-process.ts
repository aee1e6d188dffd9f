import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cliFor } from "./commands.ts";

/** `berth serve` as a process of its own, that a test can kill. */
export class ServeProcess {
  readonly child: ChildProcess;
  readonly url: string;
  /** Everything that it said before it served. */
  readonly startLog: string;

  private constructor(child: ChildProcess, url: string, startLog: string) {
    this.child = child;
    this.url = url;
    this.startLog = startLog;
  }

  /** `inherits`: more descriptors that it inherits; `cwd`: its working folder. */
  static start(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    inherits: Readonly<Record<number, number>> = {},
    cwd?: string,
  ): Promise<ServeProcess> {
    const last = Math.max(2, ...Object.keys(inherits).map(Number));
    const others = Array.from({ length: last - 2 }, (_, index) => inherits[index + 3] ?? ("ignore" as const));
    const child = spawn(process.execPath, [cliFor("serve", env), "serve", ...args], {
      stdio: ["ignore", "ignore", "pipe", ...others],
      env: { ...process.env, ...env },
      cwd,
    });
    return new Promise((resolve, reject) => {
      let text = "";
      child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
        const url = /Berth serves (http:\S+)\/mcp/.exec(text)?.[1];
        if (url !== undefined) resolve(new ServeProcess(child, url, text));
      });
      child.once("exit", (code) => reject(new Error(`berth serve ended with ${code}: ${text}`)));
    });
  }

  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = once(this.child, "exit");
    this.child.kill(signal);
    await ended;
  }
}
