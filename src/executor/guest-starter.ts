import { realpathSync } from "node:fs";
import { rm } from "node:fs/promises";
import type { HostFolder } from "../folders/folders.ts";
import { fixed } from "../limits/fixed.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import type { GuestEgress, SocketRelay } from "../network/socket-relay.ts";
import { measureFolder, sandboxUsage, type FolderUsage } from "../processes/folder-use.ts";
import type { Command } from "../processes/process-group.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import { makeTemporary, type MakeFolder } from "../processes/work-folders.ts";
import { failure } from "./failures.ts";
import { GuestProcess, type FrameLimits, type GuestListener } from "./guest-process.ts";
import { socketsPath, type GuestLauncher } from "./launcher.ts";

/** The most files and folders in the scratch folder of a guest process. */
const bounds = fixed({ guestFiles: 10_000 });

export type GuestStarterLimits = FrameLimits & Pick<Limits, "guestDiskMb">;

export interface GuestStarterOptions {
  readonly makeFolder?: MakeFolder | undefined;
  /** The network of guests; none if absent. */
  readonly network?: GuestNetwork | undefined;
}

export interface StartOptions {
  readonly folders?: readonly HostFolder[] | undefined;
  /** False for a program without network grants. */
  readonly connects?: boolean;
}

export type GuestNetwork = Pick<SocketRelay, "open">;

/** How often scratch folders outside the sandbox are measured. */
const POLL_MS = 1_000;

/**
 * Starts blank guest processes, each with a scratch folder of its own that is removed with it, and ends those that
 * exceed the limits of the folder. In the sandbox the folder is a file system of limited size; without a sandbox it is
 * a folder of the service's user, which is polled.
 */
export class GuestStarter {
  readonly #start: Spawn;
  readonly #launcher: GuestLauncher;
  readonly #limits: GuestStarterLimits;
  readonly #makeFolder: MakeFolder;
  readonly #network: GuestNetwork | undefined;
  /** Folders that are being removed. */
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

  /** A process with `folders` is for the program that they are granted to. It gets an outlet unless not needed. */
  start(
    listener: GuestListener,
    priority: Pick<Command, "niceness" | "nicenessForNow">,
    { folders = [], connects = true }: StartOptions = {},
  ): GuestProcess {
    let outlet: GuestEgress | undefined;
    try {
      outlet = connects ? this.#network?.open(this.#launcher.guestUser) : undefined;
    } catch {
      // The program is informed that its network is unavailable; most programs need none.
    }
    const process = this.#startWith(outlet, folders, listener, priority);
    if (outlet) void process.exited.then(() => outlet.close());
    return process;
  }

  #startWith(
    outlet: GuestEgress | undefined,
    folders: readonly HostFolder[],
    listener: GuestListener,
    priority: Pick<Command, "niceness" | "nicenessForNow">,
  ): GuestProcess {
    const sockets = outlet?.folder;
    const egress = outlet && { outlet, folder: socketsPath(this.#launcher.isolation, outlet.folder) };
    if (this.#launcher.isolation === "sandboxed") {
      const command = { ...this.#launcher.guest({ sockets, folders }), ...priority };
      return new GuestProcess(this.#start, command, this.#limits, listener, egress);
    }
    let scratch: string;
    try {
      // Node's permission model compares paths literally, and a program sees the real path of its folder.
      scratch = realpathSync(this.#makeFolder("guest-"));
    } catch (error) {
      const failToStart: Spawn = () => Promise.reject(error);
      return new GuestProcess(failToStart, this.#launcher.guest({ scratch: "/" }), this.#limits, listener);
    }
    const command = { ...this.#launcher.guest({ scratch, sockets, folders }), ...priority };
    const process = new GuestProcess(this.#start, command, this.#limits, listener, egress);
    const pollTimer = this.#pollScratch(process, scratch);
    const removal = this.#removeAfter(process, scratch, pollTimer);
    this.#removing.add(removal);
    void removal.finally(() => this.#removing.delete(removal));
    return process;
  }

  async #removeAfter({ exited: gone }: GuestProcess, scratch: string, pollTimer: NodeJS.Timeout): Promise<void> {
    await gone;
    clearInterval(pollTimer);
    // A folder that cannot be removed does no harm; the next start of the service tries again.
    await rm(scratch, { recursive: true, force: true, maxRetries: 2 }).catch(() => {});
  }

  /** Checks the scratch folder of a sandboxed process; `pids` are its process and all descendants. */
  checkScratch(process: Pick<GuestProcess, "kill">, pids: readonly number[]): void {
    const use = sandboxUsage(pids);
    if (use) this.#enforceLimits(process, use);
  }

  /** Resolves when the folders of all ended processes are removed. */
  async settled(): Promise<void> {
    await Promise.all(this.#removing);
  }

  #pollScratch(process: GuestProcess, scratch: string): NodeJS.Timeout {
    const maximum = { megabytes: this.#limits.guestDiskMb, files: bounds.guestFiles };
    let isPolling = false;
    const poll = async (): Promise<void> => {
      if (isPolling) return;
      isPolling = true;
      this.#enforceLimits(process, await measureFolder(scratch, maximum));
      isPolling = false;
    };
    return setInterval(() => void poll(), POLL_MS).unref();
  }

  /** In the sandbox, the file system itself also rejects writes beyond its size. */
  #enforceLimits(process: Pick<GuestProcess, "kill">, { megabytes, files }: FolderUsage): void {
    const { guestFiles } = bounds;
    const { guestDiskMb } = this.#limits;
    if (files > guestFiles) process.kill(tooFull(`${guestFiles} files and folders`));
    else if (megabytes > guestDiskMb) process.kill(tooFull(`${guestDiskMb} MB`, ` (${limitVariable("guestDiskMb")})`));
  }
}

function tooFull(maximum: string, hint = ""): ReturnType<typeof failure> {
  return failure("memory", `it wrote more than ${maximum} to its scratch folder${hint}; delete files after use`);
}
