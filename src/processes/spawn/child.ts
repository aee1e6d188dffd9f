import { rmSync, writeSync } from "node:fs";
import type { Socket } from "node:net";
import { keepWithinQuota } from "../quota/quota.ts";
import { signsOf as guardSigns, wordOf as guardLine } from "./guard.ts";
import type { SpawnHelperReply, SpawnHelperRequest } from "./spawn-helper.ts";
import { killGroup, spawnDirectly, type SpawnRequest } from "./spawn.ts";

/**
 * The spawn helper's process: it starts processes on request, hands over their pipes, and reports the end of each. As
 * the parent of all processes with a lower priority than the serving process, it also keeps them within the CPU quota.
 * When its owner ends, its stdin closes: it then gives its processes time to end, ends the rest, and exits.
 */

/** How long running processes may continue without their owner: most end when their pipes close. */
const GRACE_MS = 1_000;
/** Leads to the guard, which ends running processes once this process and its owner have both ended. */
const GUARD_DESCRIPTOR = 4;

/** The running processes, by their PIDs. */
const running = new Map<number, SpawnRequest>();
let isEnding = false;
const keeper = keepWithinQuota(process.argv[2]);

process.on("message", (message: SpawnHelperRequest) => void execute(message));
// Node does not report a channel that closes while a pipe is in transit on it.
process.stdin.resume().on("close", () => {
  isEnding = true;
  keeper.close();
  setTimeout(() => {
    for (const pid of running.keys()) remove(pid);
    process.exit(0);
  }, GRACE_MS);
  exitIfIdle();
});
// A terminal signals all of its processes. The serving process may need this one until it has ended its processes.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
reply({ id: 0 });

async function execute({ id, request }: SpawnHelperRequest): Promise<void> {
  if (isEnding) return;
  try {
    const starting = spawnDirectly(request);
    const { pid, pipes, exited } = await starting;
    running.set(pid, request);
    for (const sign of guardSigns(request)) notifyGuard(sign, pid);
    keeper.started(pid);
    // Bytes that arrive from now on belong to the receiver of the pipe; nothing else happens in this turn.
    for (const pipe of pipes) if (pipe) detach(pipe as Socket);
    reply({ id, pid });
    for (const [descriptor, pipe] of pipes.entries()) if (pipe) reply({ id, descriptor }, pipe as Socket);
    reply({ id, isComplete: true });
    reply({ id, exit: await exited });
    if (isEnding) remove(pid);
    running.delete(pid);
    notifyGuard("-", pid);
    keeper.ended(pid);
    exitIfIdle();
  } catch (error) {
    const { message, code, path } = error as NodeJS.ErrnoException;
    reply({ id, error: { message, ...(code !== undefined && { code }), ...(path !== undefined && { path }) } });
  }
}

function notifyGuard(sign: Parameters<typeof guardLine>[0], pid: number): void {
  try {
    writeSync(GUARD_DESCRIPTOR, guardLine(sign, pid));
  } catch {
    // There is no guard, or it has ended.
  }
}

function exitIfIdle(): void {
  if (isEnding && running.size === 0) process.exit(0);
}

/** Kills a process and removes what it may have left behind. */
function remove(pid: number): void {
  const { cwd, hasOwnFolder } = running.get(pid)!;
  killGroup(pid);
  if (hasOwnFolder) rmSync(cwd!, { recursive: true, force: true, maxRetries: 2 });
}

/**
 * Prepares a pipe for its receiver. Node starts reading every pipe that it creates, and has no public way to stop that;
 * and when a program ends, Node destroys its input, which could not be handed over then.
 */
function detach(pipe: Socket): void {
  (pipe as { _handle?: { readStop(): void } })._handle?.readStop();
  pipe.destroy = () => pipe;
}

function reply(message: SpawnHelperReply, pipe?: Socket): void {
  if (process.connected) process.send!(message, pipe, {}, () => {});
}
