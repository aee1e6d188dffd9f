import { realpathSync } from "node:fs";
import { rm } from "node:fs/promises";
import type { HostFolder } from "../folders/folders.ts";
import { fixed } from "../limits/fixed.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import type { Outlet, SocketRelay } from "../network/socket-relay.ts";
import { folderUseOf, sandboxUse, type FolderUse } from "../processes/folder-use.ts";
import type { Command } from "../processes/process-group.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import { makeTemporary, type MakeFolder } from "../processes/work-folders.ts";
import { failure } from "./failures.ts";
import { GuestProcess, type FrameLimits, type GuestListener } from "./guest-process.ts";
import { socketsOf, type GuestLauncher } from "./launcher.ts";

/** Files and folders in the scratch folder of a guest process. */
const bounds = fixed({ guestFiles: 10_000 });

export type GuestStarterLimits = FrameLimits & Pick<Limits, "guestDiskMb">;

export interface GuestStarterOptions {
  readonly makeFolder?: MakeFolder | undefined;
  /** Where the sockets of guests lead; without it, nowhere. */
  readonly network?: GuestNetwork | undefined;
}

export interface StartedFor {
  readonly folders?: readonly HostFolder[] | undefined;
  /** False for a program that is known to reach nothing. */
  readonly connects?: boolean;
}

export type GuestNetwork = Pick<SocketRelay, "open">;

/** Scratch folders outside of the sandbox are looked at this often. */
const LOOK_MS = 1_000;

/**
 * Starts blank guest processes, each with a scratch folder of its own that ends with it, and ends those that put too
 * much there. In the sandbox the folder is a file system of its own with a size; without one it is a folder of the
 * service's user, which is looked at from time to time.
 */
export class GuestStarter {
  readonly #start: Spawn;
  readonly #launcher: GuestLauncher;
  readonly #limits: GuestStarterLimits;
  readonly #makeFolder: MakeFolder;
  readonly #network: GuestNetwork | undefined;
  /** The folders that are being removed. */
  readonly #removing = new Set<Promise<void>>();

  constructor(
    start: Spawn,
    launcher: GuestLauncher,
    limits: GuestStarterLimits,
    { makeFolder = makeTemporary, network }: GuestStarterOptions = {},
  ) {
    this.#start = start;
    this.#launcher = launcher;
    this.#limits = limits;
    this.#makeFolder = makeFolder;
    this.#network = network;
  }

  /** A process that sees `folders` is for the program that is given them, and has a way out where that may need one. */
  start(
    listener: GuestListener,
    priority: Pick<Command, "niceness" | "nicenessForNow">,
    { folders = [], connects = true }: StartedFor = {},
  ): GuestProcess {
    let outlet: Outlet | undefined;
    try {
      outlet = connects ? this.#network?.open(this.#launcher.guestUser) : undefined;
    } catch {
      // Its program is told that it has no network for now; most programs need none.
    }
    const process = this.#startWith(outlet, folders, listener, priority);
    if (outlet) void process.gone.then(() => outlet.close());
    return process;
  }

  #startWith(
    outlet: Outlet | undefined,
    folders: readonly HostFolder[],
    listener: GuestListener,
    priority: Pick<Command, "niceness" | "nicenessForNow">,
  ): GuestProcess {
    const sockets = outlet?.folder;
    const way = outlet && { outlet, folder: socketsOf(this.#launcher.isolation, outlet.folder) };
    if (this.#launcher.isolation === "sandboxed") {
      const command = { ...this.#launcher.guest({ sockets, folders }), ...priority };
      return new GuestProcess(this.#start, command, this.#limits, listener, way);
    }
    let scratch: string;
    try {
      // Node's permission model compares paths as they are written, and a program sees where it really stands.
      scratch = realpathSync(this.#makeFolder("guest-"));
    } catch (error) {
      const never: Spawn = () => Promise.reject(error);
      return new GuestProcess(never, this.#launcher.guest({ scratch: "/" }), this.#limits, listener);
    }
    const command = { ...this.#launcher.guest({ scratch, sockets, folders }), ...priority };
    const process = new GuestProcess(this.#start, command, this.#limits, listener, way);
    const looking = this.#watch(process, scratch);
    const removed = this.#removeAfter(process, scratch, looking);
    this.#removing.add(removed);
    void removed.finally(() => this.#removing.delete(removed));
    return process;
  }

  async #removeAfter({ gone }: GuestProcess, scratch: string, looking: NodeJS.Timeout): Promise<void> {
    await gone;
    clearInterval(looking);
    // A folder that cannot be removed does no harm; the next start of the service tries again.
    await rm(scratch, { recursive: true, force: true, maxRetries: 2 }).catch(() => {});
  }

  /** Looks at the scratch folder in the sandbox of a process; `pids` are that process and all that it consists of. */
  look(process: Pick<GuestProcess, "kill">, pids: readonly number[]): void {
    const use = sandboxUse(pids);
    if (use) this.#judge(process, use);
  }

  /** Resolves when no folder of an ended process is left. */
  async settled(): Promise<void> {
    await Promise.all(this.#removing);
  }

  #watch(process: GuestProcess, scratch: string): NodeJS.Timeout {
    const most = { megabytes: this.#limits.guestDiskMb, files: bounds.guestFiles };
    let isLooking = false;
    const look = async (): Promise<void> => {
      if (isLooking) return;
      isLooking = true;
      this.#judge(process, await folderUseOf(scratch, most));
      isLooking = false;
    };
    return setInterval(() => void look(), LOOK_MS).unref();
  }

  /** A full file system refuses to take more by itself. */
  #judge(process: Pick<GuestProcess, "kill">, { megabytes, files }: FolderUse): void {
    const { guestFiles } = bounds;
    const { guestDiskMb } = this.#limits;
    if (files > guestFiles) process.kill(tooFull(`${guestFiles} files and folders`));
    else if (megabytes > guestDiskMb) process.kill(tooFull(`${guestDiskMb} MB`, ` (${limitVariable("guestDiskMb")})`));
  }
}

function tooFull(most: string, hint = ""): ReturnType<typeof failure> {
  return failure("memory", `it put more than ${most} into its scratch folder${hint}; delete what is used`);
}
