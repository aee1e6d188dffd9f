import type { Spawn } from "../processes/spawn/spawn.ts";
import { LastWords } from "../processes/last-words.ts";
import { ProcessGroup, type Command, type Exit } from "../processes/process-group.ts";

/** One process that reads a script from descriptor 3, runs it and ends. It knows no tenant and no deadline. */
export interface ScriptProcess {
  /** Undefined until it has been started. */
  readonly pid: number | undefined;
  readonly kill: () => void;
  /** Resolves when nothing of it is alive. */
  readonly ended: Promise<ScriptEnd>;
}

export interface ScriptEnd {
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
  let stderr: LastWords | undefined;

  let group!: ProcessGroup;
  const ended = new Promise<ScriptEnd>((resolve) => {
    group = new ProcessGroup(start, command, ["ignore", "pipe", "pipe", "pipe", hiddenArgs ? "pipe" : "ignore"], {
      onStarted([, stdout, errors, scriptPipe, argsPipe]) {
        scriptPipe!.end(script);
        argsPipe?.end(hiddenArgs?.map((arg) => `${arg}\0`).join(""));
        stdout!.on("data", collect);
        stderr = new LastWords(errors!, STDERR_KEPT_BYTES);
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
