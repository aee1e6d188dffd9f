import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FairSemaphore } from "../lib/fair-semaphore.ts";
import { scriptText } from "../lib/script-text.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import { readInterpreter, type Interpreter } from "../processes/interpreter.ts";
import { ProcessGroup, type Command, type Exit } from "../processes/process-group.ts";
import { countRecordLocks } from "../processes/process-tree.ts";
import type { CpuFairness, MemoryLimit } from "../processes/quota/quota.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import { StderrTail } from "../processes/stderr-tail.ts";
import { makeTemporary, type MakeFolder } from "../processes/work-folders.ts";
import type { GuestFailure, ScriptOutcome, ScriptRun } from "./executor.ts";
import {
  cancelled,
  closed,
  exitFailure,
  failure,
  memoryExceeded,
  isMountFailure,
  folderNotMounted,
  startFailed,
  outputTooLarge,
  timedOut,
  timedOutWaiting,
  tooBusy,
} from "./failures.ts";
import type { GuestNetwork } from "./guest-starter.ts";
import { SCRIPT_TASKS, type GuestLauncher } from "./launcher.ts";

interface ScriptsOwner {
  /** How many scripts one tenant may run. */
  readonly maxProcesses: (tenant: string) => number;
  readonly fairness: CpuFairness;
  readonly makeFolder: MakeFolder | undefined;
  /** The network of scripts; none if absent. */
  readonly network: GuestNetwork | undefined;
}

/**
 * Shell definitions: one process per run, with its deadline, its cancellation, and a limit of concurrent runs. The
 * source of a script is never concatenated with its arguments.
 */
export class Scripts {
  readonly #spawn: Spawn;
  readonly #launcher: GuestLauncher;
  readonly #limits: Limits;
  readonly #semaphore: FairSemaphore;
  readonly #fairness: CpuFairness;
  readonly #makeFolder: MakeFolder;
  readonly #network: GuestNetwork | undefined;
  /** All runs, working and queued, with the tenant of each. */
  readonly #runs = new Map<Promise<ScriptOutcome>, string>();
  /** The functions that end a run, with its script. */
  readonly #stops = new Map<(verdict: GuestFailure) => void, ScriptRun>();
  started = 0;
  killed = 0;

  constructor(
    start: Spawn,
    launcher: GuestLauncher,
    limits: Limits,
    { maxProcesses: processesOf, fairness, makeFolder = makeTemporary, network }: ScriptsOwner,
  ) {
    this.#network = network;
    this.#makeFolder = makeFolder;
    this.#fairness = fairness;
    this.#spawn = start;
    this.#launcher = launcher;
    this.#limits = limits;
    this.#semaphore = new FairSemaphore(limits.scriptProcesses, limits.queuedCallsPerTenant, processesOf);
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
    const invalid = describeInvalidInput(script);
    if (invalid) return { ok: false, error: failure("load", invalid) };
    if (script.signal?.aborted) return { ok: false, error: cancelled };
    const { noScriptNetwork } = this.#launcher;
    if (noScriptNetwork !== undefined && this.#network && script.network?.grant())
      return { ok: false, error: failure("load", noScriptNetwork) };

    let verdict: GuestFailure | undefined;
    let process: ScriptProcess | undefined;
    let leaveQueue: (() => void) | undefined;
    const stop = (why: GuestFailure): void => {
      verdict ??= why;
      leaveQueue?.();
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
      const slot = this.#semaphore.enter(script.tenant, (leave) => (leaveQueue = leave));
      if (!slot) return { ok: false, error: tooBusy(this.#limits.queuedCallsPerTenant) };
      if (!(await slot)) return { ok: false, error: verdict! };
      leaveQueue = undefined;
      try {
        const end = await this.#start(script, interpreter, (started) => {
          process = started;
          const onLook = (pids: readonly number[]): void => {
            if (countRecordLocks(pids) > RECORD_LOCKS_MAX) stop(tooManyLocks);
          };
          this.#fairness.add(script.tenant, started, { memory: this.#memoryLimit(stop), onPoll: onLook });
          if (verdict) started.kill();
        });
        if (verdict || end.overflowed) this.killed++;
        if (!verdict && script.folders && isMountFailure(end.stderr)) return { ok: false, error: folderNotMounted };
        return toOutcome(end, verdict, this.#limits.outputBytes);
      } finally {
        if (process) this.#fairness.delete(process);
        this.#semaphore.leave(script.tenant);
      }
    } catch (error) {
      return { ok: false, error: startFailed(error) };
    } finally {
      clearTimeout(timer);
      script.signal?.removeEventListener("abort", onAbort);
      this.#stops.delete(stop);
    }
  }

  /** Ends every run with `evicted`; resolves when none of their processes is alive. */
  async close(): Promise<void> {
    for (const stop of this.#stops.keys()) stop(closed);
    await Promise.all(this.#runs.keys());
  }

  endWhere(isAffected: (script: ScriptRun) => boolean, why: GuestFailure): void {
    for (const [stop, script] of this.#stops) if (isAffected(script)) stop(why);
  }

  /** Ends every run of one tenant in the same way. */
  async endTenant(tenant: string, why: GuestFailure): Promise<void> {
    this.endWhere((script) => script.tenant === tenant, why);
    await Promise.all([...this.#runs].flatMap(([run, owner]) => (owner === tenant ? [run] : [])));
  }

  /** The memory that all processes of a run share; the limit of the system is per process. */
  #memoryLimit(stop: (why: GuestFailure) => void): MemoryLimit {
    const { scriptMemoryMb: megabytes } = this.#limits;
    const what = `all its processes together may hold (${limitVariable("scriptMemoryMb")})`;
    return {
      megabytes,
      processes: SCRIPT_TASKS,
      onExceeded: (heldMb) => stop(memoryExceeded(heldMb, megabytes, what)),
    };
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
    const launch = (extra: { readonly folder?: string; readonly sockets?: string } = {}): Promise<ScriptEnd> => {
      this.started++;
      const options = { ...(folders && { folders }), ...extra };
      const command = this.#launcher.script({ interpreter, argv, env, deadlineMs, ...options });
      const niceness = this.#fairness.startNiceness(tenant);
      const process = runToEnd(this.#spawn, { ...command, niceness }, script, outputBytes);
      onStarted(process);
      return process.ended;
    };
    if (this.#launcher.isolation === "sandboxed") {
      const grant = this.#network && network?.grant();
      const outlet = grant && this.#network?.open(this.#launcher.scriptUser);
      if (!outlet) return await launch();
      try {
        await outlet.bind(grant, () => {});
        return await launch({ sockets: outlet.folder });
      } finally {
        outlet.close();
      }
    }

    const folder = this.#makeFolder("script-");
    try {
      await writeFile(join(folder, "script"), script);
      await mkdir(join(folder, "work"));
      return await launch({ folder });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

function toOutcome(end: ScriptEnd, verdict: GuestFailure | undefined, outputBytes: number): ScriptOutcome {
  if (verdict) return { ok: false, error: verdict };
  if (end.overflowed) return { ok: false, error: outputTooLarge(outputBytes) };
  if (end.exit.startError) return { ok: false, error: exitFailure(end.exit, "") };
  const exitCode = end.exit.code ?? 128 + (signalNumbers[end.exit.signal ?? ""] ?? 0);
  return { ok: true, exitCode, stdout: end.stdout, stderr: end.stderr };
}

const signalNumbers: Readonly<Record<string, number>> = { SIGINT: 2, SIGABRT: 6, SIGKILL: 9, SIGSEGV: 11, SIGTERM: 15 };

/** Describes an argument or variable that cannot be passed to a process. */
function describeInvalidInput({ argv, env }: ScriptRun): string | undefined {
  const name = Object.keys(env).find((name) => !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name));
  if (name !== undefined) return `"${name.slice(0, 100)}" cannot be the name of an environment variable`;
  if ([...argv, ...Object.values(env)].some((text) => text.includes("\0"))) {
    return "an argument contains a NUL character, which cannot be passed to a process";
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

/** A database takes a few for each connection; the kernel does not limit them. */
const RECORD_LOCKS_MAX = 500;
const tooManyLocks = failure("memory", `it held more than ${RECORD_LOCKS_MAX} record locks (fcntl)`);

/** The longest timer; a longer one fires immediately. */
const TIMER_MAX_MS = 2 ** 31 - 1;
/** Linux: 128 KiB per string including name and terminator, 2 MiB together at the usual stack limit. */
const ARGUMENT_BYTES_MAX = 120 * 1024;
const ARGUMENTS_BYTES_MAX = 1024 * 1024;

/** One process that reads a script from descriptor 3, runs it and ends. It knows no tenant and no deadline. */
interface ScriptProcess {
  /** Undefined until it has been started. */
  readonly pid: number | undefined;
  readonly kill: () => void;
  /** Resolves when none of its processes is alive. */
  readonly ended: Promise<ScriptEnd>;
}

interface ScriptEnd {
  readonly exit: Exit;
  readonly stdout: Buffer;
  /** More than `outputBytes` were printed, so the process was ended. */
  readonly overflowed: boolean;
  /** The tail of its stderr. */
  readonly stderr: string;
}

const STDERR_TAIL_BYTES = 16 * 1024;

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
        stderr = new StderrTail(errors!, STDERR_TAIL_BYTES);
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
