import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { BerthError } from "../../lib/errors.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import { serialize, TransferReader } from "../../lib/transfer.ts";
import type { Limits } from "../../limits/limits.ts";
import { setNiceness } from "../../processes/niceness.ts";
import {
  NON_HEAP_MB,
  OwnProgram,
  type Confinement,
  type OwnCommand,
  type SandboxVariant,
} from "../../processes/own-program.ts";
import { EXTERNAL_SIGNALS, ProcessGroup, isOutOfMemory, exitSignal, type Exit } from "../../processes/process-group.ts";
import { cpuMs, processTree } from "../../processes/process-tree.ts";
import type { NoSandbox } from "../../processes/sandbox.ts";
import type { Spawn } from "../../processes/spawn/spawn.ts";
import { READY, type CheckReport, type CheckProcessTask } from "./tasks.ts";

/** How the check process is started. */
export interface CheckStart {
  readonly start: Spawn;
  readonly mode: Confinement;
  /** Called with the reason when the process is not in the sandbox. */
  readonly onTrusted: (reason: string) => void;
}

export type CheckProcessLimits = Pick<Limits, "bodyBytes" | "outputBytes" | "upstreamMessageBytes">;

const program = new OwnProgram({
  name: "the check process",
  program: fileURLToPath(new URL("./child.js", import.meta.url)),
  packages: [],
  files: [],
});

/** The serving process goes first when there is not enough processor time for both. */
const NICENESS = 5;
/** Values are transferred in several times as many bytes as their texts have units. */
const TRANSFER_FACTOR = 8;
const MEGABYTE = 1024 * 1024;
const SIMPLER = "; make it smaller, or simplify its schema";
const AGAIN = "; try again";
const SERVICE_ENDING = "because the service is ending";
/** Replacing a process takes no longer. */
const RETRY_AFTER_S = 1;
const STDERR_UNITS_MAX = 4_000;
/** A busy machine may take this much longer than the CPU time of a task. */
const ELAPSED_PER_CPU = 10;
const POLL_MS = 300;

export function checkCommand(limits: CheckProcessLimits, mode: Confinement): Promise<OwnCommand | NoSandbox> {
  const { checkMemoryMb } = readingBounds;
  const memoryMb = checkMemoryMb + NON_HEAP_MB + Math.ceil(transferBytesMax(limits) / MEGABYTE);
  return program.command(
    { memoryMb, options: ["--v8-pool-size=1", `--max-old-space-size=${checkMemoryMb}`], env: {} },
    mode,
  );
}

function transferBytesMax({ bodyBytes, outputBytes, upstreamMessageBytes }: CheckProcessLimits): number {
  return TRANSFER_FACTOR * Math.max(bodyBytes, outputBytes, upstreamMessageBytes);
}

/** An error that says nothing about the value. `why` is the end of a sentence. */
function checkFailed(why: string, cause?: Error): BerthError {
  return new BerthError("check_failed", `it could not be checked ${why}`, {
    data: { retryAfterSeconds: RETRY_AFTER_S },
    cause,
  });
}

export function serviceEnding(): BerthError {
  return checkFailed(SERVICE_ENDING);
}

/** Rejects with `check_failed` when the process cannot be started. */
export async function startCheckProcess(
  { start, mode, onTrusted }: CheckStart,
  limits: CheckProcessLimits,
): Promise<CheckProcess> {
  for (;;) {
    const found = await checkCommand(limits, mode);
    if (!("command" in found)) throw checkFailed(`because its process could not be started: ${found.reason}${AGAIN}`);
    const { command, way, reason } = found;
    if (reason !== undefined) onTrusted(reason);
    const process = new CheckProcess(start, command, limits);
    const exit = await process.ready;
    if (!exit) {
      if (way) await program.works(way);
      return process;
    }
    if (way && (await isRefused(way, exit, process.said))) continue;
    const why = exit.startError?.message ?? howOf(exit);
    throw checkFailed(`because its process could not be started (${why})${AGAIN}`, exit.startError);
  }
}

async function isRefused(way: SandboxVariant, { code, startError }: Exit, said: string): Promise<boolean> {
  if (!startError) return program.refused(way, { exitCode: code, said });
  // The program does not exist, or the user that it should run as may not run it.
  const { code: why } = startError as NodeJS.ErrnoException;
  return why !== undefined && NO_PROGRAM.has(why) && program.refused(way, { exitCode: 127, said: why });
}

const NO_PROGRAM: ReadonlySet<string> = new Set(["ENOENT", "EACCES", "EPERM"]);

function howOf(exit: Exit): string {
  return exitSignal(exit) ?? `exit code ${exit.code}`;
}

/** One check process. It is trusted to be Berth's own code, and not trusted to survive what it reads. */
export class CheckProcess {
  /** Resolves with undefined when it has begun to work, or with how it ended if it never did. */
  readonly ready: Promise<Exit | undefined>;
  /** Resolves when it is gone. */
  readonly ended: Promise<void>;
  readonly #group: ProcessGroup;
  readonly #reader: TransferReader;
  #tasks: Duplex | undefined;
  #stderr = "";
  #begun!: (exit: Exit | undefined) => void;
  #under: UnderWay | undefined;
  #why: Error | undefined;
  #tasksDone = 0;
  /** The processor time used before the last task, and when that task began. */
  #before = { processorMs: 0, at: 0 };

  constructor(start: Spawn, command: OwnCommand["command"], limits: CheckProcessLimits) {
    this.#reader = new TransferReader(transferBytesMax(limits));
    let over!: () => void;
    this.ended = new Promise((resolve) => (over = resolve));
    this.ready = new Promise((resolve) => (this.#begun = resolve));
    const stdio = ["ignore", "ignore", "pipe", "pipe", "pipe"] as const;
    this.#group = new ProcessGroup(start, { ...command, niceness: NICENESS }, stdio, {
      onStarted: ([, , stderr, tasks, reports]) => {
        this.#tasks = tasks!;
        stderr!.on("data", (text: Buffer) => {
          if (this.#stderr.length < STDERR_UNITS_MAX) this.#stderr += text.toString("utf8");
        });
        reports!.on("data", (chunk: Buffer) => this.#hear(chunk));
      },
      onEnded: (exit) => {
        this.#why ??= this.#whyOf(exit);
        this.#begun(exit);
        over();
        this.#under?.reject(this.#why);
      },
    });
  }

  /** True when it takes no more tasks, gone or not. */
  get isEnding(): boolean {
    return this.#why !== undefined;
  }

  /** The first line that it wrote to stderr. */
  get said(): string {
    return this.#stderr.trim().split("\n")[0]!;
  }

  /**
   * Carries out one task at a time. On failure the process is gone: rejects with `check_failed`, or with the reason as
   * the end of a sentence if the value is the cause. Resolves with undefined for a task to begin again: one that takes
   * more than `quickMs` of processor time and, with `mayBeginAgain`, one that lacked memory which earlier tasks may
   * have filled. The process is gone then, too.
   */
  async check(task: CheckProcessTask, quickMs = Infinity, mayBeginAgain = false): Promise<CheckReport | undefined> {
    if (this.#why !== undefined) throw this.#why;
    const { checkMs } = readingBounds;
    this.#before = { processorMs: this.#processorMs, at: performance.now() };
    const poll = setInterval(
      () => {
        const { usedMs } = this;
        const elapsedMs = performance.now() - this.#before.at;
        const isSlow = usedMs > checkMs || elapsedMs > ELAPSED_PER_CPU * checkMs;
        if (!isSlow && usedMs <= quickMs) return;
        if (!isSlow) this.#under?.resolve(undefined);
        this.#end(new Error(isSlow ? `within ${checkMs} ms${SIMPLER}` : NOT_QUICK));
      },
      Math.min(quickMs, checkMs, POLL_MS),
    );
    try {
      const report = await new Promise<CheckReport | undefined>((resolve, reject) => {
        this.#under = { resolve, reject };
        for (const piece of serialize(task)) this.#tasks!.write(piece);
      });
      this.#tasksDone += 1;
      return report;
    } catch (error) {
      if (error instanceof OutOfMemory && mayBeginAgain && this.#tasksDone > 0) return undefined;
      throw error;
    } finally {
      clearInterval(poll);
      this.#under = undefined;
    }
  }

  /** Processor time that the last task has taken: on a busy machine even a quick one takes long. */
  get usedMs(): number {
    const { processorMs, at } = this.#before;
    const now = this.#processorMs;
    // If the system does not report processor time, or the process is gone, the elapsed time has to do.
    return processorMs > 0 && now > 0 ? now - processorMs : performance.now() - at;
  }

  get #processorMs(): number {
    return cpuMs(processTree(this.#group.pid!));
  }

  close(): Promise<void> {
    this.#end(serviceEnding());
    return this.ended;
  }

  #end(why: Error): void {
    this.#why ??= why;
    this.#group.kill();
    this.#under?.reject(this.#why);
  }

  #hear(chunk: Buffer): void {
    try {
      for (const report of this.#reader.push(chunk)) {
        if (report === READY) this.#begin();
        else this.#under?.resolve(report as CheckReport);
      }
    } catch (error) {
      this.#end(checkFailed(`because its process wrote ${(error as Error).message}`, error as Error));
    }
  }

  #begin(): void {
    // The sandbox may have started the process before the sandbox itself was told to give way.
    for (const pid of processTree(this.#group.pid!)) setNiceness(pid, NICENESS);
    this.#begun(undefined);
  }

  #whyOf(exit: Exit): Error {
    if (isOutOfMemory(this.#stderr)) {
      return new OutOfMemory(`with ${readingBounds.checkMemoryMb} MB of memory${SIMPLER}`);
    }
    const how = howOf(exit);
    return checkFailed(
      `because its process ${EXTERNAL_SIGNALS.has(how) ? "was killed from outside" : "ended"} (${how})${AGAIN}`,
    );
  }
}

class OutOfMemory extends Error {}

/** Never reported: the task begins again where it may take longer. */
const NOT_QUICK = "quickly";

interface UnderWay {
  readonly resolve: (report: CheckReport | undefined) => void;
  readonly reject: (error: Error) => void;
}
