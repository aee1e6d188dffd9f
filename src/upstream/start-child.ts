import { rm } from "node:fs/promises";
import { endMarked, MARK, newMark } from "../processes/spawn/marked.ts";
import { spawnDirectly, type Spawn } from "../processes/spawn/spawn.ts";
import { makeTemporary, type MakeFolder } from "../processes/work-folders.ts";
import { Child, type ChildLimits, type ChildRooms } from "./child.ts";
import type { LaunchCommand } from "./command.ts";
import type { LongReader } from "./long-answers.ts";
import { within } from "./within.ts";

export interface ChildStart {
  readonly limits: ChildLimits;
  /** By default this process starts it itself, before this returns. */
  readonly start?: Spawn | undefined;
  /** By default one below the system's temporary folder. */
  readonly makeFolder?: MakeFolder | undefined;
  /** Reads its long messages; by default they are read in place. */
  readonly long?: LongReader | undefined;
  readonly rooms?: ChildRooms | undefined;
  /** Aborted when it is no longer wanted. */
  readonly signal?: AbortSignal;
}

/**
 * Starts a program as a process group of its own, by default in a new empty folder. Rejects with the reason why it
 * cannot be started, or with the reason of `signal`; then nothing of it is left.
 */
export async function startChild(command: LaunchCommand, options: ChildStart): Promise<Child> {
  const { limits, start = spawnDirectly, makeFolder = makeTemporary, long, rooms, signal } = options;
  const { file, args, env, cwd, secrets } = command;
  const folder = cwd === undefined ? makeFolder("upstream-") : undefined;
  const removeFolder = async (): Promise<void> => {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  };
  const mark = newMark();
  const starting = start({
    file,
    args,
    env: { ...env, [MARK]: mark },
    cwd: cwd ?? folder!,
    ...(folder !== undefined && { hasOwnFolder: true }),
    stdio: ["pipe", "pipe", "pipe"],
    // Allows ending a launcher together with the processes it starts.
    group: true,
    niceness: NICENESS,
  }).then(
    (started) => new Child(started, { limits, secrets, folder, long, rooms, endRest: () => endMarked(start, mark) }),
    async (error: unknown) => {
      await removeFolder();
      throw new Error(`it could not be started: ${(error as Error).message}`, { cause: error });
    },
  );
  if (!signal) return starting;
  const child = await Promise.race([starting, aborted(signal)]);
  if (child && !signal.aborted) return child;
  // Bounded, because the spawn helper may be stuck.
  const ended = starting.then((late) => late.end()).catch(() => {});
  await within(3 * limits.upstreamEndMs, ended);
  await removeFolder();
  throw signal.reason;
}

/** The serving process takes precedence, and starting costs much processor time. */
const NICENESS = 10;

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
