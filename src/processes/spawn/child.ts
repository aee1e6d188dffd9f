import { rmSync, writeSync } from "node:fs";
import type { Socket } from "node:net";
import { keepWithinQuota } from "../quota/quota.ts";
import { signsOf, wordOf } from "./guard.ts";
import type { SpawnHelperReply, SpawnHelperRequest } from "./spawn-helper.ts";
import { killGroup, spawnDirectly, type SpawnRequest } from "./spawn.ts";

/**
 * The spawn helper's process: it starts processes on request, hands over their pipes, and reports the end of each. As the
 * parent of everything that gives way to the serving process, it also keeps them within the quota of processor time.
 * Its stdin ends with its owner: then it lets its processes end, ends the rest, and ends.
 */

/** How long running processes may go on when their user is gone: most end when their pipes do. */
const LAST_MS = 1_000;
/** Leads to the guard, which ends running processes when this process and its owner are both gone. */
const GUARD_DESCRIPTOR = 4;

/** The running processes, by their ids. */
const running = new Map<number, SpawnRequest>();
let isLast = false;
const keeper = keepWithinQuota(process.argv[2]);

process.on("message", (question: SpawnHelperRequest) => void carryOut(question));
// Node does not report a channel that ends while a pipe is on its way over it.
process.stdin.resume().on("close", () => {
  isLast = true;
  keeper.close();
  setTimeout(() => {
    for (const pid of running.keys()) remove(pid);
    process.exit(0);
  }, LAST_MS);
  endWhenAlone();
});
// A terminal signals all of its processes. The serving process may need this one until it has ended its processes.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
answer({ id: 0 });

async function carryOut({ id, request }: SpawnHelperRequest): Promise<void> {
  if (isLast) return;
  try {
    const starting = spawnDirectly(request);
    const { pid, pipes, exited } = await starting;
    running.set(pid, request);
    for (const sign of signsOf(request)) tellGuard(sign, pid);
    keeper.started(pid);
    // Bytes that arrive from now on are for the receiver of the pipe, and nothing else happens in this turn.
    for (const pipe of pipes) if (pipe) keep(pipe as Socket);
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

/** Removes a process and what it may have left behind. */
function remove(pid: number): void {
  const { cwd, hasOwnFolder } = running.get(pid)!;
  killGroup(pid);
  if (hasOwnFolder) rmSync(cwd!, { recursive: true, force: true, maxRetries: 2 });
}

/**
 * For its receiver. Node begins to read every pipe that it makes, and has no public way to stop that; and when a program
 * ends, Node destroys its input, which could not be handed over then.
 */
function keep(pipe: Socket): void {
  (pipe as { _handle?: { readStop(): void } })._handle?.readStop();
  pipe.destroy = () => pipe;
}

function answer(message: SpawnHelperReply, pipe?: Socket): void {
  if (process.connected) process.send!(message, pipe, {}, () => {});
}
