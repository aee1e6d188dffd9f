import { Console } from "node:console";
import { PassThrough, Readable, type Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { changeFixed } from "../../src/limits/fixed.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { Ran, type RunOptions } from "./commands.ts";
import { loweredLimits } from "./lowered-limits.ts";

export interface InProcessOptions extends Pick<RunOptions, "input" | "cwd"> {
  /** Variables in addition to those of this process; undefined ones are removed. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Whether its streams are those of a terminal, which shows all output; it is then in `stdout`. */
  readonly isTerminal?: boolean;
}

/**
 * Runs `berth …` in this process, for tests of what a command does and prints: a process of its own takes ten times the
 * CPU. Only one command runs at a time.
 */
export function berthInProcess(args: readonly string[], options: InProcessOptions = {}): Promise<Ran> {
  const ran = previous.then(() => runHere(args, options));
  previous = ran.catch(() => {});
  return ran;
}

let previous: Promise<unknown> = Promise.resolve();
let runs = 0;
const cli = new URL("../../src/cli.js", import.meta.url).href;
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** What `process.exit` throws. */
class Exit extends Error {}

async function runHere(
  args: readonly string[],
  { input = "", env, cwd, isTerminal = false }: InProcessOptions,
): Promise<Ran> {
  const stdout = new PassThrough({ highWaterMark: 64 * 1024 * 1024 });
  const stderr = isTerminal ? stdout : new PassThrough({ highWaterMark: 64 * 1024 * 1024 });
  const texts = Promise.all([stdout, ...(isTerminal ? [] : [stderr])].map((stream) => buffer(stream)));
  const stdin = Readable.from(input === "" ? [] : [Buffer.from(input)], { objectMode: false });
  for (const stream of [stdin, stdout, stderr]) Object.assign(stream, { isTTY: isTerminal });
  const restore = replaceGlobals(
    stdin,
    stdout,
    stderr,
    ["node", "berth", ...args],
    definedOnly({ ...process.env, ...env }),
  );
  const folder = process.cwd();
  const [lowered, limits] = [loweredLimits(env ?? {}), { ...defaultLimits }];
  const restoreFixed = changeFixed(lowered);
  Object.assign(defaultLimits, lowered);
  const listeners = new Set(SIGNALS.flatMap((signal) => process.listeners(signal)));
  let code: number;
  try {
    if (cwd !== undefined) process.chdir(cwd);
    // Each run has a program of its own: that of the first has parsed its arguments.
    await import(`${cli}?run=${++runs}`).catch((error: unknown) => {
      if (!(error instanceof Exit)) throw error;
    });
    code = Number(process.exitCode ?? 0);
  } finally {
    for (const signal of SIGNALS)
      for (const each of process.listeners(signal)) if (!listeners.has(each)) process.off(signal, each);
    process.chdir(folder);
    Object.assign(defaultLimits, limits);
    restoreFixed();
    restore();
  }
  stdout.end();
  stderr.end();
  const [shown, errors] = await texts;
  return new Ran(code, String(shown), String(errors ?? ""));
}

function definedOnly(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
}

/** Returns a function that restores them. */
function replaceGlobals(
  stdin: Readable,
  stdout: Writable,
  stderr: Writable,
  argv: string[],
  env: NodeJS.ProcessEnv,
): () => void {
  const { exit, exitCode } = process;
  const replaced = { stdin, stdout, stderr, argv, env };
  const before = Object.keys(replaced).map((name) => [name, Object.getOwnPropertyDescriptor(process, name)!] as const);
  for (const [name, value] of Object.entries(replaced))
    Object.defineProperty(process, name, { value, configurable: true, writable: true, enumerable: true });
  const { console } = globalThis;
  globalThis.console = new Console({ stdout, stderr });
  process.exit = (code) => {
    process.exitCode = code ?? process.exitCode ?? 0;
    throw new Exit();
  };
  process.exitCode = undefined;
  return () => {
    for (const [name, descriptor] of before) Object.defineProperty(process, name, descriptor);
    globalThis.console = console;
    Object.assign(process, { exit, exitCode });
  };
}
