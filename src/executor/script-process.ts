import type { Duplex } from "node:stream";
import { killGroup, onceEnded, pipeOf, startGroup, type Command, type Exit } from "./process-group.ts";

/** One process that reads a script from descriptor 3, runs it and ends. It knows no tenant and no deadline. */
export interface ScriptProcess {
  readonly kill: () => void;
  /** Resolves when nothing of it is alive. */
  readonly ended: Promise<ScriptEnd>;
}

export interface ScriptEnd {
  readonly exit: Exit;
  readonly stdout: Buffer;
  /** More than `outputBytes` came, so the process was ended. */
  readonly overflowed: boolean;
  /** The end of what it wrote there. */
  readonly stderr: string;
}

const STDERR_KEPT_BYTES = 16 * 1024;

export function runToEnd(command: Command, script: string, outputBytes: number): ScriptProcess {
  const { hiddenArgs } = command;
  const child = startGroup(command, ["ignore", "pipe", "pipe", "pipe", hiddenArgs ? "pipe" : "ignore"]);
  const printed: Buffer[] = [];
  let printedBytes = 0;
  let overflowed = false;
  let stderr: Buffer = Buffer.alloc(0);

  (pipeOf(child) as Duplex | undefined)?.end(script);
  (pipeOf(child, 4) as Duplex | undefined)?.end(hiddenArgs?.map((arg) => `${arg}\0`).join(""));
  child.stdout?.on("data", (chunk: Buffer) => {
    if (overflowed) return;
    printedBytes += chunk.length;
    printed.push(chunk);
    if (printedBytes <= outputBytes) return;
    overflowed = true;
    printed.length = 0;
    killGroup(child);
  });
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr = Buffer.concat([stderr, chunk]);
    if (stderr.length > STDERR_KEPT_BYTES) stderr = stderr.subarray(stderr.length - STDERR_KEPT_BYTES);
  });

  return {
    kill: () => killGroup(child),
    ended: new Promise((resolve) => {
      onceEnded(child, (exit) => {
        resolve({ exit, stdout: Buffer.concat(printed), overflowed, stderr: stderr.toString() });
      });
    }),
  };
}
