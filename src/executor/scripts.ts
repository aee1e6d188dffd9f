import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FairSemaphore } from "../lib/fair-semaphore.ts";
import { scriptText } from "../lib/script-text.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import { readInterpreter, type Interpreter } from "../processes/interpreter.ts";
import { ProcessGroup, type Command, type Exit } from "../processes/process-group.ts";
import { recordLocksOf } from "../processes/process-tree.ts";
import type { CpuFairness, MemoryLimit } from "../processes/quota/quota.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import { StderrTail } from "../processes/stderr-tail.ts";
import { makeTemporary, type MakeFolder } from "../processes/work-folders.ts";
import type { GuestFailure, ScriptOutcome, ScriptRun } from "./executor.ts";
import {
  cancelled,
  closed,
  ended,
  failure,
  heldTooMuch,
  isUnmounted,
  notMounted,
  notStarted,
  outputTooLarge,
  timedOut,
  timedOutWaiting,
  tooBusy,
} from "./failures.ts";
import type { GuestNetwork } from "./guest-starter.ts";
import { SCRIPT_TASKS, type GuestLauncher } from "./launcher.ts";

interface ScriptsOwner {
  /** How many scripts one tenant may run. */
  readonly processesOf: (tenant: string) => number;
  readonly fairness: CpuFairness;
  readonly makeFolder: MakeFolder | undefined;
  /** Where the connections of scripts lead; without it, nowhere. */
  readonly network: GuestNetwork | undefined;
}

/**
 * Shell definitions: one process a run, with its deadline, its cancellation and a cap on how many run at a time. The
 * text of a script is never concatenated with its arguments.
 */
export class Scripts {
  readonly #begin: Spawn;
  readonly #launcher: GuestLauncher;
  readonly #limits: Limits;
  readonly #turns: FairSemaphore;
  readonly #fairness: CpuFairness;
  readonly #makeFolder: MakeFolder;
  readonly #network: GuestNetwork | undefined;
  /** The runs, working and waiting, and the tenant of each. */
  readonly #runs = new Map<Promise<ScriptOutcome>, string>();
  /** The functions that end a run, and what each runs. */
  readonly #stops = new Map<(verdict: GuestFailure) => void, ScriptRun>();
  started = 0;
  killed = 0;

  constructor(
    start: Spawn,
    launcher: GuestLauncher,
    limits: Limits,
    { processesOf, fairness, makeFolder = makeTemporary, network }: ScriptsOwner,
  ) {
    this.#network = network;
    this.#makeFolder = makeFolder;
    this.#fairness = fairness;
    this.#begin = start;
    this.#launcher = launcher;
    this.#limits = limits;
    this.#turns = new FairSemaphore(limits.scriptProcesses, limits.queuedCallsPerTenant, processesOf);
  }

  get running(): number {
    return this.#stops.size;
  }

  /** Never rejects. */
  run(script: ScriptRun): Promise<ScriptOutcome> {
    const run = this.#run(script);
    this.#runs.set(run, script.tenant);
    void run.then(() => this.#runs.delete(run));
    return run;
  }

  async #run(script: ScriptRun): Promise<ScriptOutcome> {
    const interpreter = readInterpreter(script.script);
    if (typeof interpreter === "string") return { ok: false, error: failure("load", `its first line ${interpreter}`) };
    const invalid = invalidText(script);
    if (invalid) return { ok: false, error: failure("load", invalid) };
    if (script.signal?.aborted) return { ok: false, error: cancelled };
    const { noScriptNetwork } = this.#launcher;
    if (noScriptNetwork !== undefined && this.#network && script.network?.grant())
      return { ok: false, error: failure("load", noScriptNetwork) };

    let verdict: GuestFailure | undefined;
    let process: ScriptProcess | undefined;
    let giveUpWaiting: (() => void) | undefined;
    const stop = (why: GuestFailure): void => {
      verdict ??= why;
      giveUpWaiting?.();
      process?.kill();
    };
    const onAbort = (): void => stop(cancelled);
    const timer = setTimeout(
      () => {
        stop(process ? this.#timedOut(script) : timedOutWaiting(script.deadlineMs));
      },
      Math.min(script.deadlineMs, TIMER_MAX_MS),
    );
    script.signal?.addEventListener("abort", onAbort);
    this.#stops.set(stop, script);

    try {
      const turn = this.#turns.enter(script.tenant, (leaveQueue) => (giveUpWaiting = leaveQueue));
      if (!turn) return { ok: false, error: tooBusy(this.#limits.queuedCallsPerTenant) };
      if (!(await turn)) return { ok: false, error: verdict! };
      giveUpWaiting = undefined;
      try {
        const end = await this.#start(script, interpreter, (started) => {
          process = started;
          const onLook = (pids: readonly number[]): void => {
            if (recordLocksOf(pids) > RECORD_LOCKS_MAX) stop(tooManyLocks);
          };
          this.#fairness.add(script.tenant, started, { memory: this.#memoryLimitOf(stop), onLook });
          if (verdict) started.kill();
        });
        if (verdict || end.overflowed) this.killed++;
        if (!verdict && script.folders && isUnmounted(end.stderr)) return { ok: false, error: notMounted };
        return outcomeOf(end, verdict, this.#limits.outputBytes);
      } finally {
        if (process) this.#fairness.delete(process);
        this.#turns.leave(script.tenant);
      }
    } catch (error) {
      return { ok: false, error: notStarted(error) };
    } finally {
      clearTimeout(timer);
      script.signal?.removeEventListener("abort", onAbort);
      this.#stops.delete(stop);
    }
  }

  /** Ends every run, each resolving with `evicted`; resolves when nothing is alive. */
  async close(): Promise<void> {
    for (const stop of this.#stops.keys()) stop(closed);
    await Promise.all(this.#runs.keys());
  }

  endWhere(isOver: (script: ScriptRun) => boolean, why: GuestFailure): void {
    for (const [stop, script] of this.#stops) if (isOver(script)) stop(why);
  }

  /** Ends every run of one tenant, likewise. */
  async endTenant(tenant: string, why: GuestFailure): Promise<void> {
    this.endWhere((script) => script.tenant === tenant, why);
    await Promise.all([...this.#runs].flatMap(([run, whose]) => (whose === tenant ? [run] : [])));
  }

  /** The memory that all processes of a run share; the system's own limit is per process. */
  #memoryLimitOf(stop: (why: GuestFailure) => void): MemoryLimit {
    const { scriptMemoryMb: megabytes } = this.#limits;
    const what = `all its processes together may hold (${limitVariable("scriptMemoryMb")})`;
    return { megabytes, processes: SCRIPT_TASKS, onExceeded: (heldMb) => stop(heldTooMuch(heldMb, megabytes, what)) };
  }

  #timedOut({ tenant, deadlineMs }: ScriptRun): GuestFailure {
    return timedOut(deadlineMs, tenant, this.#fairness.exceededMsPerSecond(tenant));
  }

  async #start(
    { tenant, script: source, argv, env, folders, network, deadlineMs }: ScriptRun,
    interpreter: Interpreter,
    onStarted: (process: ScriptProcess) => void,
  ): Promise<ScriptEnd> {
    const { outputBytes } = this.#limits;
    const script = scriptText(source);
    const begin = (own: { readonly folder?: string; readonly sockets?: string } = {}): Promise<ScriptEnd> => {
      this.started++;
      const where = { ...(folders && { folders }), ...own };
      const command = this.#launcher.script({ interpreter, argv, env, deadlineMs, ...where });
      const niceness = this.#fairness.nicenessOf(tenant);
      const process = runToEnd(this.#begin, { ...command, niceness }, script, outputBytes);
      onStarted(process);
      return process.ended;
    };
    if (this.#launcher.isolation === "sandboxed") {
      const grant = this.#network && network?.grant();
      const outlet = grant && this.#network?.open(this.#launcher.scriptUser);
      if (!outlet) return await begin();
      try {
        await outlet.bind(grant, () => {});
        return await begin({ sockets: outlet.folder });
      } finally {
        outlet.close();
      }
    }

    const folder = this.#makeFolder("script-");
    try {
      await writeFile(join(folder, "script"), script);
      await mkdir(join(folder, "work"));
      return await begin({ folder });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

function outcomeOf(end: ScriptEnd, verdict: GuestFailure | undefined, outputBytes: number): ScriptOutcome {
  if (verdict) return { ok: false, error: verdict };
  if (end.overflowed) return { ok: false, error: outputTooLarge(outputBytes) };
  if (end.exit.startError) return { ok: false, error: ended(end.exit, "") };
  const exitCode = end.exit.code ?? 128 + (signalNumbers[end.exit.signal ?? ""] ?? 0);
  return { ok: true, exitCode, stdout: end.stdout, stderr: end.stderr };
}

const signalNumbers: Readonly<Record<string, number>> = { SIGINT: 2, SIGABRT: 6, SIGKILL: 9, SIGSEGV: 11, SIGTERM: 15 };

/** Describes an argument or variable that no process can be given. */
function invalidText({ argv, env }: ScriptRun): string | undefined {
  const name = Object.keys(env).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  if (name !== undefined) return `"${name.slice(0, 100)}" cannot be the name of an environment variable`;
  if ([...argv, ...Object.values(env)].some((text) => text.includes("\0"))) {
    return "an argument holds a zero character, which no process can take";
  }
  const bytes = [...argv, ...Object.values(env)].map((text) => Buffer.byteLength(text));
  if (
    bytes.some((length) => length > ARGUMENT_BYTES_MAX) ||
    bytes.reduce((sum, length) => sum + length, 0) > ARGUMENTS_BYTES_MAX
  ) {
    return `its arguments are too long: a process takes ${ARGUMENT_BYTES_MAX} bytes each and ${ARGUMENTS_BYTES_MAX} together`;
  }
  return undefined;
}

/** A database takes a few for each connection; the kernel keeps as many as it is asked for. */
const RECORD_LOCKS_MAX = 500;
const tooManyLocks = failure("memory", `it held more than ${RECORD_LOCKS_MAX} record locks (fcntl)`);

/** The longest timer; a longer one fires at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;
/** Linux: 128 KiB per text including its name and end, 2 MiB together at the usual stack limit. */
const ARGUMENT_BYTES_MAX = 120 * 1024;
const ARGUMENTS_BYTES_MAX = 1024 * 1024;

/** One process that reads a script from descriptor 3, runs it and ends. It knows no tenant and no deadline. */
interface ScriptProcess {
  /** Undefined until it has been started. */
  readonly pid: number | undefined;
  readonly kill: () => void;
  /** Resolves when nothing of it is alive. */
  readonly ended: Promise<ScriptEnd>;
}

interface ScriptEnd {
  readonly exit: Exit;
  readonly stdout: Buffer;
  /** More than `outputBytes` came, so the process was ended. */
  readonly overflowed: boolean;
  /** The end of its stderr. */
  readonly stderr: string;
}

const STDERR_KEPT_BYTES = 16 * 1024;

export function runToEnd(start: Spawn, command: Command, script: string, outputBytes: number): ScriptProcess {
  const { hiddenArgs } = command;
  const printed: Buffer[] = [];
  let printedBytes = 0;
  let overflowed = false;
  let stderr: StderrTail | undefined;

  let group!: ProcessGroup;
  const ended = new Promise<ScriptEnd>((resolve) => {
    group = new ProcessGroup(start, command, ["ignore", "pipe", "pipe", "pipe", hiddenArgs ? "pipe" : "ignore"], {
      onStarted([, stdout, errors, scriptPipe, argsPipe]) {
        scriptPipe!.end(script);
        argsPipe?.end(hiddenArgs?.map((arg) => `${arg}\0`).join(""));
        stdout!.on("data", collect);
        stderr = new StderrTail(errors!, STDERR_KEPT_BYTES);
      },
      onEnded: (exit) => resolve({ exit, stdout: Buffer.concat(printed), overflowed, stderr: String(stderr ?? "") }),
    });
  });
  const collect = (chunk: Buffer): void => {
    if (overflowed) return;
    printedBytes += chunk.length;
    printed.push(chunk);
    if (printedBytes <= outputBytes) return;
    overflowed = true;
    printed.length = 0;
    group.kill();
  };
  return {
    get pid() {
      return group.pid;
    },
    kill: () => group.kill(),
    ended,
  };
}
