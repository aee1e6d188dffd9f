import { isIP, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { soundObject } from "../lib/json.ts";
import { within } from "../lib/within.ts";
import { fixed } from "../limits/fixed.ts";
import { checkedAddresses, pinnedTo, resolverOf, type Resolve } from "./agent.ts";
import { socketHostOf } from "./allow-list.ts";
import { authorityOf, listRules, NetworkRefused, type NetworkRules } from "./network-rules.ts";
import type { Asked, AskedFor, SocketGrant, Told } from "./relay-wire.ts";
import { Outside, SocketPair } from "./socket-pair.ts";
import type { TenantSockets } from "./tenant-sockets.ts";

const bounds = fixed({
  /** Open connections of one guest process, and of all processes of a tenant. */
  openSockets: 64,
  openSocketsPerTenant: 256,
  /** How long it may take to resolve the host of a connection, and to connect to it. */
  socketConnectMs: 10_000,
  /** Time after which a connection without traffic is closed. */
  socketIdleMs: 600_000,
});

/**
 * The way out of one guest process: a Unix socket that only this process can see. Who asks is known by the socket, and
 * what may be reached by the grant that it was opened with, never by what is said on it. A guest asks for a host and a
 * port on a connection of its own; the host is looked up here, each address is checked, and exactly such an address is
 * connected to. Then the guest gets a second socket, for one connection, which carries bytes and nothing else: so every
 * protocol works over it, TLS from end to end.
 */
export class Door {
  readonly #path: string;
  readonly #grant: SocketGrant;
  readonly #tenant: TenantSockets;
  readonly #rules: NetworkRules;
  readonly #resolve: Resolve;
  readonly #onAsked: ((asked: AskedFor) => void) | undefined;
  readonly #server: Server;
  /** Ends whatever is under way for the guest. */
  readonly #ends = new Set<() => void>();
  /** The listed hosts that resolved to an address, by address: programs look a name up and connect to what they get. */
  readonly #resolved = new Map<string, Set<string>>();
  #open = 0;
  #sockets = 0;

  constructor({ path, grant, ownPort, tenant, resolve, onAsked }: DoorOptions) {
    this.#onAsked = onAsked;
    this.#path = path;
    this.#grant = grant;
    this.#tenant = tenant;
    const { hosts, tenant: _, ...options } = grant;
    this.#rules = listRules(hosts, { ...options, ownPort });
    this.#resolve = resolve ?? resolverOf(this.#rules);
    this.#server = createServer((socket) => this.#onAsking(socket));
    // Each connection may ask, and some more may ask for names.
    this.#server.maxConnections = 2 * bounds.openSockets + ASKING_MAX;
  }

  /** Rejects where the socket cannot be made. */
  listen(): Promise<void> {
    return listenAt(this.#server, this.#path);
  }

  /** Ends every connection; nothing flows once this returns. */
  close(): void {
    this.#server.close();
    for (const end of this.#ends) end();
  }

  #onAsking(socket: Socket): void {
    const end = (): void => void socket.destroy();
    this.#ends.add(end);
    socket.on("error", () => {});
    socket.on("close", () => this.#ends.delete(end));
    socket.setTimeout(ASKING_MS, end);
    let text = "";
    const onData = (chunk: Buffer): void => {
      text += chunk.toString("utf8");
      const line = text.indexOf("\n");
      if (line < 0 && text.length <= ASKED_UNITS_MAX) return;
      socket.off("data", onData);
      // The rest is read and dropped, so that the end of the connection is seen.
      socket.resume();
      void this.#answer(socket, line < 0 ? "" : text.slice(0, line), end);
    };
    socket.on("data", onData);
  }

  async #answer(socket: Socket, line: string, end: () => void): Promise<void> {
    const asked = readAsked(line);
    if (!asked) return end();
    socket.setTimeout(0);
    let told: Told;
    const beganAt = performance.now();
    const tell = (host: string, refused?: string): void =>
      this.#onAsked?.({ host, ms: performance.now() - beganAt, ...(refused !== undefined && { refused }) });
    try {
      if ("connect" in asked) {
        told = await this.#connect(socket, asked.connect);
        tell(hostIn(asked));
        // It ends with what was asked for on it.
        this.#ends.delete(end);
        return void socket.write(`${JSON.stringify(told)}\n`);
      }
      told = "lookup" in asked ? await this.#lookup(asked.lookup) : { hosts: this.#grant.hosts };
    } catch (error) {
      this.#tenant.refused();
      const { message, code = "EACCES" } = error as NodeJS.ErrnoException;
      told = { refused: message, code };
      tell(hostIn(asked), message);
    }
    socket.setTimeout(ASKING_MS, end);
    socket.end(`${JSON.stringify(told)}\n`);
  }

  async #lookup(given: string): Promise<Told> {
    const host = socketHostOf(given) ?? "";
    const ports = this.#grant.hosts.flatMap((listed) => (allowsHost(listed, host, this.#rules) ? [listed.port] : []));
    const [somePort] = ports;
    if (somePort === undefined) {
      const shown = given.slice(0, SHOWN_UNITS);
      throw new NetworkRefused(`${shown} cannot be looked up: ${this.#rules.notAllowed(`${shown}:<port>`, host)}`);
    }
    const found = await inTime(bounds.socketConnectMs, this.#resolve(host));
    const addresses = found.filter((address) => ports.some((port) => this.#rules.mayReach(address, port, host)));
    if (addresses.length === 0) {
      const why =
        found.length === 0 ? "the host has no address" : this.#rules.explain(found, authorityOf(host, somePort));
      throw Object.assign(new NetworkRefused(`${host} cannot be looked up: ${why}`), { code: "ENOTFOUND" });
    }
    for (const address of addresses) this.#remember(address, host);
    return { addresses };
  }

  #remember(address: string, host: string): void {
    const hosts = this.#resolved.get(address) ?? new Set();
    this.#resolved.delete(address);
    hosts.add(host);
    this.#resolved.set(address, hosts);
    if (hosts.size > HOSTS_MAX) hosts.delete(hosts.values().next().value!);
    if (this.#resolved.size > ADDRESSES_MAX) this.#resolved.delete(this.#resolved.keys().next().value!);
  }

  async #connect(asking: Socket, { host: given, port }: { host: string; port: number }): Promise<Told> {
    const { openSockets, openSocketsPerTenant, socketConnectMs, socketIdleMs } = bounds;
    if (this.#open >= openSockets) throw tooMany(openSockets, "this server's process");
    if (this.#tenant.open >= openSocketsPerTenant) throw tooMany(openSocketsPerTenant, "this tenant");
    const host = socketHostOf(given);
    if (host === undefined) throw new NetworkRefused(`"${given.slice(0, SHOWN_UNITS)}" is not a host`);

    const wanted = new Wanted(asking, this.#tenant, () => {
      this.#open--;
      this.#ends.delete(wanted.end);
    });
    this.#open++;
    this.#ends.add(wanted.end);
    const beganAt = performance.now();
    try {
      const addresses = await inTime(socketConnectMs, this.#addressesOf(host, port));
      const leftMs = Math.max(1, socketConnectMs - (performance.now() - beganAt));
      const opening = openTo(host, port, addresses);
      wanted.keep(opening);
      const outside = opening.socket;
      await connected(outside, leftMs, authorityOf(host, port), socketConnectMs);
      const { remoteAddress: address = "" } = outside;
      if (!addresses.includes(address)) throw new NetworkRefused(`${authorityOf(host, port)} is at no checked address`);
      outside.setNoDelay(true);
      outside.setKeepAlive(true, KEEP_ALIVE_MS);
      const name = `s${++this.#sockets}`;
      await wanted.offer(join(dirname(this.#path), name), socketIdleMs);
      return { socket: name, address };
    } catch (error) {
      wanted.end();
      throw error;
    }
  }

  /** The addresses to connect to. One that a listed host resolved to stands for that host. */
  async #addressesOf(host: string, port: number): Promise<readonly string[]> {
    for (const listed of isIP(host) === 0 ? [] : (this.#resolved.get(host) ?? [])) {
      const isAllowed = this.#grant.hosts.some((each) => each.port === port && allowsHost(each, listed, this.#rules));
      if (isAllowed && this.#rules.mayReach(host, port, listed)) return [host];
    }
    return checkedAddresses(host, port, this.#rules, this.#resolve);
  }
}

/** One connection that a guest wants: from its request, on a connection that stays open beside it, to its end. */
class Wanted {
  readonly #asking: Socket;
  readonly #tenant: TenantSockets;
  readonly #onOver: () => void;
  readonly #left: () => void;
  #outside: Outside | undefined;
  #ticket: Server | undefined;
  #untaken: NodeJS.Timeout | undefined;
  #pair: SocketPair | undefined;
  /** The guest has been told where to take the connection. */
  #isOffered = false;
  /** Why the host ended the connection before the guest took it. */
  #lost: string | undefined;
  #isOver = false;

  constructor(asking: Socket, tenant: TenantSockets, onOver: () => void) {
    this.#asking = asking;
    this.#tenant = tenant;
    this.#onOver = onOver;
    this.#left = tenant.enter();
    // A guest that asks no more wants no connection either.
    asking.once("close", () => (this.#pair ? this.#pair.leave() : this.end()));
  }

  readonly end = (): void => this.#end(CUT);

  /** Takes over the socket to the host, connected or not. */
  keep(outside: Outside): void {
    if (this.#isOver || this.#asking.destroyed) {
      outside.socket.destroy();
      throw ended();
    }
    this.#outside = outside;
    outside.socket.on("error", ({ code }: NodeJS.ErrnoException) => (this.#lost = code));
    outside.socket.once("close", () => {
      this.#lost ??= "ECONNRESET";
      if (!this.#ticket) this.end();
    });
  }

  /** Takes one connection at `path`, which is joined with the one to the host. */
  async offer(path: string, idleMs: number): Promise<void> {
    if (this.#isOver) throw ended();
    const ticket = createServer({ allowHalfOpen: true }, (inside) => {
      ticket.close();
      clearTimeout(this.#untaken);
      if (this.#pair || this.#isOver) return void inside.destroy();
      this.#tenant.opened();
      const pair = new SocketPair(inside, this.#outside!, this.#tenant, (why) => this.#end(why));
      this.#pair = pair;
      if (this.#lost !== undefined) return pair.end(this.#lost);
      const idle = `ETIMEDOUT: nothing was sent or received for ${idleMs} ms`;
      inside.setTimeout(idleMs, () => pair.end(idle));
    });
    this.#ticket = ticket;
    this.#untaken = setTimeout(this.end, TAKEN_MS);
    await listenAt(ticket, path);
    if (this.#isOver) throw ended();
    this.#isOffered = true;
  }

  #end(why: string | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#left();
    clearTimeout(this.#untaken);
    this.#ticket?.close();
    this.#outside?.socket.destroy();
    this.#pair?.end(why);
    if (this.#isOffered) {
      // Before that, the guest still waits for an answer.
      this.#asking.end(why === undefined ? "" : `${JSON.stringify({ ended: why } satisfies Told)}\n`);
      this.#asking.setTimeout(ASKING_MS, () => this.#asking.destroy());
    }
    this.#onOver();
  }
}

export interface DoorOptions {
  readonly path: string;
  readonly grant: SocketGrant;
  readonly ownPort?: number | undefined;
  readonly tenant: TenantSockets;
  readonly resolve?: Resolve | undefined;
  /** Hears of each connection that was asked for, and of names that were refused. */
  readonly onAsked?: ((asked: AskedFor) => void) | undefined;
}

/** A request is written at once, by a program of Berth's own or by none. */
const ASKING_MS = 5_000;
const ASKED_UNITS_MAX = 1_024;
/** Questions about names that may wait besides those for connections. */
const ASKING_MAX = 64;
/** The time for the guest to take the connection that it asked for. */
const TAKEN_MS = 10_000;
const ADDRESSES_MAX = 256;
const HOSTS_MAX = 16;
const KEEP_ALIVE_MS = 30_000;
/** The time after which another of a host's addresses is tried as well. */
const NEXT_ADDRESS_MS = 1_000;
const SHOWN_UNITS = 200;
/** The reason that a guest hears of for a connection that the host ends. */
const CUT = "ECONNRESET: what this server may reach has changed, or it was withdrawn";

function hostIn(asked: Asked): string {
  if ("connect" in asked) return authorityOf(asked.connect.host, asked.connect.port);
  return "lookup" in asked ? asked.lookup : "";
}

function readAsked(line: string): Asked | undefined {
  const { connect, lookup, listed } = soundObject(line) ?? {};
  if (listed === true) return { listed };
  if (typeof lookup === "string") return { lookup };
  const { host, port } = (connect ?? {}) as { host?: unknown; port?: unknown };
  const isPort = typeof port === "number" && Number.isInteger(port) && port > 0 && port < 65_536;
  return typeof host === "string" && isPort ? { connect: { host, port } } : undefined;
}

function allowsHost({ kind, name, port }: SocketGrant["hosts"][number], host: string, rules: NetworkRules): boolean {
  if (host === "" || (kind === "host" && name !== host)) return false;
  try {
    rules.checkHost(host, port);
    return true;
  } catch {
    return false;
  }
}

function openTo(host: string, port: number, addresses: readonly string[]): Outside {
  const how = { port, allowHalfOpen: true };
  if (addresses.length === 1) return new Outside({ ...how, host: addresses[0]! });
  return new Outside({
    ...how,
    host,
    lookup: pinnedTo(addresses),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
  });
}

function connected(socket: Socket, ms: number, authority: string, limitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = `connect ETIMEDOUT ${authority}: it took longer than ${limitMs} ms`;
    const timer = setTimeout(() => socket.destroy(Object.assign(new Error(late), { code: "ETIMEDOUT" })), ms);
    socket.once("connect", () => {
      clearTimeout(timer);
      resolve();
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      const { code = "ECONNREFUSED" } = error;
      reject(code === "ETIMEDOUT" ? error : Object.assign(new Error(`connect ${code} ${authority}`), { code }));
    });
    socket.once("close", () => {
      clearTimeout(timer);
      reject(ended());
    });
  });
}

/** Rejects when `work` takes longer; it is not stopped. */
async function inTime<T extends object>(ms: number, work: Promise<T>): Promise<T> {
  const found = await within(ms, work);
  if (found) return found;
  const message = `it took longer than ${ms} ms to look the name up`;
  throw Object.assign(new Error(message), { code: "ETIMEDOUT" });
}

function listenAt(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    // One that is closed at once never listens.
    server.on("close", () => reject(ended()));
    // Nobody else can enter the folder; the guest may be another user.
    server.listen({ path, readableAll: true, writableAll: true }, resolve);
  });
}

function tooMany(most: number, whose: string): Error {
  const message = `${most} connections of ${whose} are open; close some, or use a pool`;
  return Object.assign(new Error(message), { code: "EMFILE" });
}

function ended(): Error {
  return Object.assign(new Error("the connection was ended before it was made"), { code: "ECONNABORTED" });
}
