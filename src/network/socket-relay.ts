import { rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import type { Log } from "../lib/log.ts";
import { ProcessGroup, exitSignal } from "../processes/process-group.ts";
import type { User } from "../processes/sandbox.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";
import { grantFolder, type MakeFolder } from "../processes/work-folders.ts";
import {
  SOCKET_NAME,
  type EgressRequest,
  type FromRelay,
  type SocketGrant,
  type SocketLimits,
  type SocketUse,
  type ToRelay,
} from "./relay-wire.ts";

/**
 * The serving process's end of the relay: a process that carries the connections of guests, so that their bytes never
 * pass through the serving process. It manages the relay process, and which guest process has which egress socket. The
 * relay is started when code that may reach anything is first loaded, and again whenever it ends.
 */
export class SocketRelay {
  readonly #options: SocketRelayOptions;
  readonly #outlets = new Map<number, BoundOutlet>();
  readonly #removing = new Set<Promise<void>>();
  /** The usage reported by earlier relays, and by the current one, by tenant. */
  readonly #uses = new Map<string, { readonly before: SocketUse; readonly now: SocketUse }>();
  #group: ProcessGroup | undefined;
  #input: Duplex | undefined;
  #ended: Promise<void> = Promise.resolve();
  #restartTimer: NodeJS.Timeout | undefined;
  #failures = 0;
  #lastDoor = 0;
  #isClosed = false;

  constructor(options: SocketRelayOptions) {
    this.#options = options;
  }

  /** Creates the folder for one guest process, which may run as another user. Throws if that fails. */
  open(user?: User): GuestEgress {
    const folder = this.#options.makeFolder("sockets-");
    try {
      if (user) grantFolder(folder, user);
    } catch (error) {
      rmSync(folder, { recursive: true });
      throw error;
    }
    const door = ++this.#lastDoor;
    return {
      folder,
      bind: (grant, onRetired) => this.#bind(door, folder, grant, onRetired),
      close: () => {
        this.#unbind(door);
        const removed = rm(folder, { recursive: true, force: true, maxRetries: 2 }).catch(() => {});
        this.#removing.add(removed);
        void removed.finally(() => this.#removing.delete(removed));
      },
    };
  }

  /** Ends the connections of a tenant's guests, or of one server's; their processes get no new ones. */
  readonly retire = (tenant: string, server?: string): void => {
    for (const [door, { grant, onRetired }] of this.#outlets) {
      if (grant.tenant !== tenant || (server !== undefined && grant.server !== server)) continue;
      this.#unbind(door);
      onRetired();
    }
  };

  /** The usage of sockets by each tenant's guests since this process started. */
  uses(): Readonly<Record<string, SocketUse>> {
    return Object.fromEntries(Array.from(this.#uses, ([tenant, { before, now }]) => [tenant, addUses(before, now)]));
  }

  forget(tenant: string): void {
    this.#uses.delete(tenant);
    this.#send({ op: "forget", tenant });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#restartTimer);
    for (const { opened } of this.#outlets.values()) opened();
    this.#outlets.clear();
    this.#group?.kill();
    await Promise.all([this.#ended, ...this.#removing]);
  }

  #bind(door: number, folder: string, grant: SocketGrant, onRetired: () => void): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, OPENED_MS);
      const opened = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const outlet = { path: join(folder, SOCKET_NAME), grant, onRetired, opened };
      this.#outlets.set(door, outlet);
      if (this.#group) this.#openSocket(door, outlet);
      else if (!this.#restartTimer) this.#start();
    });
  }

  #unbind(door: number): void {
    const outlet = this.#outlets.get(door);
    if (!outlet) return;
    this.#outlets.delete(door);
    // Ends the wait for it.
    outlet.opened();
    this.#send({ op: "close", door });
  }

  #start(): void {
    this.#restartTimer = undefined;
    const { start, ownPort, log } = this.#options;
    const { socketBytesPerSecondPerTenant } = this.#options.limits;
    const startedAt = performance.now();
    let stderr = "";
    let ended!: () => void;
    this.#ended = new Promise((resolve) => (ended = resolve));
    const command = { file: process.execPath, args: [...NODE_OPTIONS, PROGRAM], env: {}, cwd: "/", niceness: NICENESS };
    const group = new ProcessGroup(start, command, ["pipe", "pipe", "pipe"], {
      onStarted: ([input, output, errors]) => {
        this.#input = input!;
        errors!.setEncoding("utf8").on("data", (text: string) => (stderr = (stderr + text).slice(-STDERR_UNITS)));
        createInterface({ input: output! }).on("line", (line) => this.#onMessage(JSON.parse(line) as FromRelay));
        this.#send({
          op: "begin",
          limits: { socketBytesPerSecondPerTenant },
          ownPort,
          tells: this.#options.events?.isFollowed ?? false,
        });
        for (const [door, outlet] of this.#outlets) this.#openSocket(door, outlet);
      },
      onEnded: (exit) => {
        this.#group = undefined;
        this.#input = undefined;
        for (const [tenant, { before, now }] of this.#uses)
          this.#uses.set(tenant, { before: { ...addUses(before, now), open: 0 }, now: NO_USE });
        ended();
        if (this.#isClosed) return;
        this.#failures = performance.now() - startedAt > LIVES_MS ? 0 : this.#failures + 1;
        const againInMs = Math.min(RESTART_MS * 2 ** this.#failures, RESTART_MAX_MS);
        const how = exit.startError?.message ?? exitSignal(exit) ?? exit.code;
        log?.warn({ how, stderr, againInMs }, "the relay of guests' sockets has ended; their connections are cut");
        this.#restartTimer = setTimeout(() => this.#start(), againInMs).unref();
      },
    });
    this.#group = group;
  }

  #openSocket(door: number, { path, grant }: BoundOutlet): void {
    // A relay that was killed leaves its sockets behind.
    rmSync(path, { force: true });
    this.#send({ op: "open", door, path, grant });
  }

  #send(message: ToRelay): void {
    this.#input?.write(`${JSON.stringify(message)}\n`);
  }

  #onMessage(message: FromRelay): void {
    if (message.op === "used") {
      for (const [tenant, now] of Object.entries(message.tenants)) {
        const { before = NO_USE } = this.#uses.get(tenant) ?? {};
        this.#uses.set(tenant, { before, now });
      }
      return;
    }
    if (message.op === "asked") {
      const { door, op: _op, ...asked } = message;
      const { grant } = this.#outlets.get(door) ?? {};
      if (grant) this.#options.events?.publish({ kind: "connected", server: grant.server, item: undefined, ...asked });
      return;
    }
    if (message.op === "forgotten") return void this.#uses.delete(message.tenant);
    const { door, problem } = message;
    const outlet = this.#outlets.get(door);
    if (!outlet) return;
    if (problem !== undefined) {
      const { tenant, server } = outlet.grant;
      this.#options.log?.error({ tenant, server, problem }, "a guest gets no network");
    }
    outlet.opened();
  }
}

export interface SocketRelayOptions {
  readonly start: Spawn;
  readonly makeFolder: MakeFolder;
  readonly limits: SocketLimits;
  /** The port on which Berth listens, if any. */
  readonly ownPort?: number | undefined;
  readonly log?: Pick<Log, "warn" | "error">;
  /** Receives the connections of guests, if they are followed when the relay starts. */
  readonly events?: { readonly isFollowed: boolean; publish(event: Connected): void };
}

interface Connected extends EgressRequest {
  readonly kind: "connected";
  readonly server: string;
  readonly item: undefined;
}

/** The egress of one guest process: a folder for its sandbox, in which a socket appears once it is bound. */
export interface GuestEgress {
  readonly folder: string;
  /** Resolves when the socket exists. `onRetired` is called when it leads nowhere any more. */
  bind(grant: SocketGrant, onRetired: () => void): Promise<void>;
  close(): void;
}

interface BoundOutlet {
  readonly path: string;
  readonly grant: SocketGrant;
  readonly onRetired: () => void;
  readonly opened: () => void;
}

const NO_USE: SocketUse = { open: 0, opened: 0, refused: 0, sentBytes: 0, receivedBytes: 0, openMs: 0 };

function addUses(one: SocketUse, other: SocketUse): SocketUse {
  return {
    open: one.open + other.open,
    opened: one.opened + other.opened,
    refused: one.refused + other.refused,
    sentBytes: one.sentBytes + other.sentBytes,
    receivedBytes: one.receivedBytes + other.receivedBytes,
    openMs: one.openMs + other.openMs,
  };
}

const PROGRAM = fileURLToPath(new URL("./relay-child.js", import.meta.url));
const NODE_OPTIONS = ["--v8-pool-size=1", "--max-old-space-size=128"];
const NICENESS = 3;
/** A guest is loaded even if its socket does not exist by then; its connections wait, and fail after a while. */
const OPENED_MS = 5_000;
const RESTART_MS = 50;
const RESTART_MAX_MS = 10_000;
/** A relay that lived this long did not fail at its start. */
const LIVES_MS = 10_000;
const STDERR_UNITS = 4_000;
