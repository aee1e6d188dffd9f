import assert from "node:assert/strict";
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

export class Ran {
  /** The exit code, or the signal's name. */
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;

  constructor(code: number | string, stdout: string, stderr: string) {
    this.code = code;
    this.stdout = stdout;
    this.stderr = stderr;
  }

  /** The records on stdout, one per line. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into records freely
  get records(): any[] {
    return parsed(this.stdout, /^\{/);
  }

  /** The errors on stderr, one JSON object per line. */
  // oxlint-disable-next-line typescript/no-explicit-any
  get errors(): any[] {
    return parsed(this.stderr, /^\{"error"/).map((line) => (line as { error: unknown }).error);
  }
}

function parsed(text: string, form: RegExp): unknown[] {
  return text
    .split("\n")
    .filter((line) => form.test(line))
    .map((line): unknown => JSON.parse(line));
}

/** Resolves with the output of a command, and fails unless it ends with this exit code. */
export async function exits<T extends Pick<Ran, "code" | "stderr">>(code: number, running: Promise<T>): Promise<T> {
  const ran = await running;
  assert.equal(ran.code, code, ran.stderr);
  return ran;
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
    child.once("close", (code, signal) => resolve(new Ran(code ?? signal ?? "unknown", stdout, stderr)));
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
