import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { packageRoot } from "../../src/config.ts";
import { loweredLimits } from "./lowered-limits.ts";

export const cli = join(packageRoot, "dist", "bin", "berth.cjs");

/** `berth` before it is bundled, with the fixed limits that its environment lowers, and the warm compiler. */
export const testCli = join(packageRoot, "dist", "test", "support", "cli.js");

const COMPILING = new Set(["boot", "check", "dev", "discover", "serve", "stdio"]);

/** The one of both that a command needs. */
export function cliFor(command: string | undefined, env: Readonly<Record<string, string | undefined>> = {}): string {
  return COMPILING.has(command ?? "") || Object.keys(loweredLimits(env)).length > 0 ? testCli : cli;
}

export interface Ran {
  /** The exit code, or the signal's name. */
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
  /** The records on stdout, one per line. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into records freely
  readonly records: any[];
  /** The errors on stderr, one JSON object per line. */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly errors: any[];
}

export interface RunOptions {
  readonly input?: string;
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  /** The user and group to run it as. */
  readonly uid?: number;
  /** Called once the command runs. */
  readonly during?: (child: ChildProcess) => void;
}

/** Runs `berth …` to its end. */
export function berth(args: readonly string[], { input, env, cwd, uid, during }: RunOptions = {}): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [cliFor(args[0], env), ...args], {
      cwd,
      ...(uid !== undefined && { uid, gid: uid }),
      env: { ...process.env, ...env },
      timeout: RUN_MS_MAX,
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => (stdout += chunk));
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => (stderr += chunk));
    child.stdin.on("error", () => {}).end(input ?? "");
    child.once("error", reject);
    child.once("close", (code, signal) => {
      const parsed = (text: string, form: RegExp): unknown[] =>
        text
          .split("\n")
          .filter((line) => form.test(line))
          .map((line): unknown => JSON.parse(line));
      resolve({
        code: code ?? signal ?? "unknown",
        stdout,
        stderr,
        get records() {
          return parsed(stdout, /^\{/);
        },
        get errors() {
          return parsed(stderr, /^\{"error"/).map((line) => (line as { error: unknown }).error);
        },
      });
    });
    during?.(child);
  });
}

const RUN_MS_MAX = 240_000;

/** Checks several cases side by side: most of a command's time is spent waiting for processes to start. */
export async function atOnce<T>(count: number, cases: readonly T[], check: (one: T) => Promise<void>): Promise<void> {
  const left = [...cases];
  const worker = async (): Promise<void> => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await check(one);
  };
  await Promise.all(Array.from({ length: count }, worker));
}
