import { rmSync, writeSync } from "node:fs";
import type { Socket } from "node:net";
import type { StarterAnswer, StarterQuestion } from "./apart.ts";
import { signsOf, wordOf } from "./guard.ts";
import { killGroup } from "./kill-group.ts";
import { findProcessorQuota } from "./processor-quota.ts";
import { QuotaKeeper } from "./quota-keeper.ts";
import { startDirectly, type StartRequest } from "./starter.ts";

/**
 * The starter's process: it starts what it is asked to, hands over the pipes, and tells when each process has ended. As
 * the parent of all that gives way to who serves, it keeps them within the quota of processor time, too.
 * Its stdin ends when whoever asks does: then it lets what it has started end, ends it, and ends.
 */

/** How long those that run may go on to run when nobody is left who uses them: most end when their pipes do. */
const LAST_MS = 1_000;
/** Leads to the guard, which ends what runs when this process and who asks are both gone. */
const GUARD_DESCRIPTOR = 4;

/** What runs, by its process id. */
const running = new Map<number, StartRequest>();
let isLast = false;
const keeper = new QuotaKeeper(() => findProcessorQuota(process.argv[2]));

process.on("message", (question: StarterQuestion) => void carryOut(question));
// Of a channel that ends while a pipe is on its way over it, Node tells nothing.
process.stdin.resume().on("close", () => {
  isLast = true;
  keeper.close();
  setTimeout(() => {
    for (const pid of running.keys()) remove(pid);
    process.exit(0);
  }, LAST_MS);
  endWhenAlone();
});
// A terminal tells all of its processes at once. Who serves may need this one until it has ended what runs.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
answer({ id: 0 });

async function carryOut({ id, request }: StarterQuestion): Promise<void> {
  if (isLast) return;
  try {
    const starting = startDirectly(request);
    const { pid, pipes, exited } = await starting;
    running.set(pid, request);
    for (const sign of signsOf(request)) tellGuard(sign, pid);
    keeper.started(pid);
    // What is written from now on is for whoever gets the pipe, and nothing else is done in this turn.
    for (const pipe of pipes) stopReading(pipe as Socket | undefined);
    answer({ id, pid });
    for (const [descriptor, pipe] of pipes.entries()) if (pipe) answer({ id, descriptor }, pipe as Socket);
    answer({ id, isComplete: true });
    answer({ id, exit: await exited });
    if (isLast) remove(pid);
    running.delete(pid);
    tellGuard("-", pid);
    keeper.ended(pid);
    endWhenAlone();
  } catch (error) {
    const { message, code, path } = error as NodeJS.ErrnoException;
    answer({ id, error: { message, ...(code !== undefined && { code }), ...(path !== undefined && { path }) } });
  }
}

function tellGuard(sign: Parameters<typeof wordOf>[0], pid: number): void {
  try {
    writeSync(GUARD_DESCRIPTOR, wordOf(sign, pid));
  } catch {
    // There is none, or it has ended.
  }
}

function endWhenAlone(): void {
  if (isLast && running.size === 0) process.exit(0);
}

/** It and what it may have left behind. */
function remove(pid: number): void {
  const { cwd, hasOwnFolder } = running.get(pid)!;
  killGroup(pid);
  if (hasOwnFolder) rmSync(cwd!, { recursive: true, force: true, maxRetries: 2 });
}

/** Node begins to read every pipe that it makes, and has no public way to end that. */
function stopReading(pipe: Socket | undefined): void {
  (pipe as { _handle?: { readStop(): void } } | undefined)?._handle?.readStop();
}

function answer(message: StarterAnswer, pipe?: Socket): void {
  if (process.connected) process.send!(message, pipe, {}, () => {});
}
