import { Console } from "node:console";
import { syncBuiltinESMExports } from "node:module";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import tty from "node:tty";
import { changeFixed } from "../../src/limits/fixed.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { Ran, type RunOptions } from "./commands.ts";
import { loweredLimits } from "./lowered-limits.ts";

export interface InProcessOptions extends Pick<RunOptions, "input" | "cwd"> {
  /** Variables in addition to those of this process; undefined ones are removed. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Its streams are those of a terminal, which shows all output: it is then in `stdout`. */
  readonly isTerminal?: boolean;
}

/**
 * Runs `berth …` in this process, for tests of what a command does and prints: a process of its own takes ten times the
 * CPU time. Only one command runs at a time.
 */
export function berthInProcess(args: readonly string[], options: InProcessOptions = {}): Promise<Ran> {
  const ran = previous.then(() => run(args, options));
  previous = ran.catch(() => {});
  return ran;
}

let previous: Promise<unknown> = Promise.resolve();
let runs = 0;
const cli = new URL("../../src/cli.js", import.meta.url).href;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Thrown by `process.exit`. */
class Exit extends Error {}

async function run(
  args: readonly string[],
  { input = "", env = {}, cwd = process.cwd(), isTerminal = false }: InProcessOptions,
): Promise<Ran> {
  const stdin = Readable.from(input === "" ? [] : [Buffer.from(input)], { objectMode: false });
  const stdout = new PassThrough({ highWaterMark: 64 * 1024 * 1024 });
  const stderr = isTerminal ? stdout : new PassThrough({ highWaterMark: 64 * 1024 * 1024 });
  for (const stream of [stdin, stdout, stderr]) Object.assign(stream, { isTTY: isTerminal });
  const texts = Promise.all([buffer(stdout), isTerminal ? "" : buffer(stderr)]);
  const variables = Object.entries({ ...process.env, ...env }).filter(([, value]) => value !== undefined);
  const argv = ["node", "berth", ...args];
  const [folder, { exitCode }] = [process.cwd(), process];
  const restore = [
    replace(process, { stdin, stdout, stderr, argv, env: Object.fromEntries(variables), exit }),
    replace(globalThis, { console: new Console({ stdout, stderr }) }),
    replace(tty, { isatty: () => isTerminal }),
    replace(defaultLimits, loweredLimits(env)),
    changeFixed(loweredLimits(env)),
    forgetSignals(),
    syncBuiltinESMExports,
    () => process.chdir(folder),
    () => (process.exitCode = exitCode),
  ];
  syncBuiltinESMExports();
  process.exitCode = undefined;
  let code: number | string;
  try {
    process.chdir(cwd);
    // Each run has a program of its own: one that has parsed arguments keeps them.
    await import(`${cli}?run=${++runs}`).catch((error: unknown) => {
      if (!(error instanceof Exit)) throw error;
    });
    code = (process as { exitCode?: number }).exitCode ?? 0;
  } finally {
    for (const each of restore) each();
  }
  for (const stream of [stdout, stderr]) stream.end();
  const [shown, errors] = await texts;
  return new Ran(code, String(shown), String(errors));
}

function exit(code?: number | string | null): never {
  process.exitCode = code ?? process.exitCode ?? 0;
  throw new Exit();
}

/** Replaces members of an object, and returns a function that restores them. */
function replace(object: object, members: Readonly<Record<string, unknown>>): () => void {
  const before = Object.keys(members).map((name) => [name, Object.getOwnPropertyDescriptor(object, name)] as const);
  for (const [name, value] of Object.entries(members))
    Object.defineProperty(object, name, { value, configurable: true, writable: true, enumerable: true });
  return () => {
    for (const [name, descriptor] of before)
      if (descriptor) Object.defineProperty(object, name, descriptor);
      else Reflect.deleteProperty(object, name);
  };
}

/** Returns a function that removes the listeners for signals that were added since. */
function forgetSignals(): () => void {
  const before = new Set(SIGNALS.flatMap((signal) => process.listeners(signal)));
  return () => {
    for (const signal of SIGNALS)
      for (const listener of process.listeners(signal)) if (!before.has(listener)) process.off(signal, listener);
  };
}
