import { isIP, createServer, type Server, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { tryParseObject } from "../lib/json.ts";
import { within } from "../lib/within.ts";
import { fixed } from "../limits/fixed.ts";
import { checkedAddresses, pinnedTo, resolverFor, type Resolve } from "./agent.ts";
import { normalizeHost } from "./allow-list.ts";
import { authorityOf, listRules, NetworkRefused, type NetworkRules } from "./network-rules.ts";
import type { Asked, EgressRequest, SocketGrant, RelayReply } from "./relay-wire.ts";
import { HostConnection, SocketPair } from "./socket-pair.ts";
import type { TenantSockets } from "./tenant-sockets.ts";

const bounds = fixed({
  /** Open connections of one guest process, and of all processes of a tenant. */
  openSockets: 64,
  openSocketsPerTenant: 256,
  /** The time limit for resolving the host of a connection, and for connecting to it. */
  socketConnectMs: 10_000,
  /** Time after which a connection without traffic is closed. */
  socketIdleMs: 600_000,
});

/**
 * The egress of one guest process: a Unix socket that only this process can see. The socket identifies the guest, and
 * the grant that it was opened with decides what may be reached, never what is sent on it. A guest requests a host and
 * a port on a connection of its own; the host is resolved here, each address is checked, and only a checked address is
 * connected to. Then the guest gets a second socket, for one connection, which carries bytes and nothing else, so that
 * every protocol works over it, with end-to-end TLS.
 */
export class EgressSocket {
  readonly #path: string;
  readonly #grant: SocketGrant;
  readonly #tenant: TenantSockets;
  readonly #rules: NetworkRules;
  readonly #resolve: Resolve;
  readonly #onRequest: ((asked: EgressRequest) => void) | undefined;
  readonly #server: Server;
  readonly #ends = new Set<() => void>();
  /** Listed hosts by the addresses that they resolved to: programs resolve a name and connect to the result. */
  readonly #resolved = new Map<string, Set<string>>();
  #open = 0;
  #sockets = 0;

  constructor({ path, grant, ownPort, tenant, resolve, onRequest }: EgressSocketOptions) {
    this.#onRequest = onRequest;
    this.#path = path;
    this.#grant = grant;
    this.#tenant = tenant;
    const { hosts, tenant: _, ...options } = grant;
    this.#rules = listRules(hosts, { ...options, ownPort });
    this.#resolve = resolve ?? resolverFor(this.#rules);
    this.#server = createServer((socket) => this.#onConnection(socket));
    // Each connection may have its request, and some more may look up names.
    this.#server.maxConnections = 2 * bounds.openSockets + LOOKUPS_MAX;
  }

  listen(): Promise<void> {
    return listenAt(this.#server, this.#path);
  }

  /** Ends every connection; nothing flows once this returns. */
  close(): void {
    this.#server.close();
    for (const end of this.#ends) end();
  }

  #onConnection(socket: Socket): void {
    const end = (): void => void socket.destroy();
    this.#ends.add(end);
    socket.on("error", () => {});
    socket.on("close", () => this.#ends.delete(end));
    socket.setTimeout(REQUEST_MS, end);
    let text = "";
    const onData = (chunk: Buffer): void => {
      text += chunk.toString("utf8");
      const line = text.indexOf("\n");
      if (line < 0 && text.length <= REQUEST_UNITS_MAX) return;
      socket.off("data", onData);
      // The rest is read and dropped, to notice the end of the connection.
      socket.resume();
      void this.#answer(socket, line < 0 ? "" : text.slice(0, line), end);
    };
    socket.on("data", onData);
  }

  async #answer(socket: Socket, line: string, end: () => void): Promise<void> {
    const request = parseRequest(line);
    if (!request) return end();
    socket.setTimeout(0);
    let reply: RelayReply;
    const beganAt = performance.now();
    const report = (host: string, refused?: string): void =>
      this.#onRequest?.({ host, ms: performance.now() - beganAt, ...(refused !== undefined && { refused }) });
    try {
      if ("connect" in request) {
        reply = await this.#connect(socket, request.connect);
        report(requestedHost(request));
        // It ends together with the requested connection.
        this.#ends.delete(end);
        return void socket.write(`${JSON.stringify(reply)}\n`);
      }
      reply = "lookup" in request ? await this.#lookup(request.lookup) : { hosts: this.#grant.hosts };
    } catch (error) {
      this.#tenant.refused();
      const { message, code = "EACCES" } = error as NodeJS.ErrnoException;
      reply = { refused: message, code };
      report(requestedHost(request), message);
    }
    socket.setTimeout(REQUEST_MS, end);
    socket.end(`${JSON.stringify(reply)}\n`);
  }

  async #lookup(text: string): Promise<RelayReply> {
    const host = normalizeHost(text) ?? "";
    const ports = this.#grant.hosts.flatMap((listed) => (allowsHost(listed, host, this.#rules) ? [listed.port] : []));
    const [somePort] = ports;
    if (somePort === undefined) {
      const shown = text.slice(0, SHOWN_UNITS);
      throw new NetworkRefused(`${shown} cannot be looked up: ${this.#rules.notAllowed(`${shown}:<port>`, host)}`);
    }
    const found = await withTimeout(bounds.socketConnectMs, this.#resolve(host));
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

  async #connect(request: Socket, { host: text, port }: { host: string; port: number }): Promise<RelayReply> {
    const { openSockets, openSocketsPerTenant, socketConnectMs, socketIdleMs } = bounds;
    if (this.#open >= openSockets) throw tooMany(openSockets, "this server's process");
    if (this.#tenant.open >= openSocketsPerTenant) throw tooMany(openSocketsPerTenant, "this tenant");
    const host = normalizeHost(text);
    if (host === undefined) throw new NetworkRefused(`"${text.slice(0, SHOWN_UNITS)}" is not a host`);

    const connection = new GuestConnection(request, this.#tenant, () => {
      this.#open--;
      this.#ends.delete(connection.end);
    });
    this.#open++;
    this.#ends.add(connection.end);
    const beganAt = performance.now();
    try {
      const addresses = await withTimeout(socketConnectMs, this.#resolveAddresses(host, port));
      const leftMs = Math.max(1, socketConnectMs - (performance.now() - beganAt));
      const opening = openTo(host, port, addresses);
      connection.adopt(opening);
      const outside = opening.socket;
      await connected(outside, leftMs, authorityOf(host, port), socketConnectMs);
      const { remoteAddress: address = "" } = outside;
      if (!addresses.includes(address))
        throw new NetworkRefused(`${authorityOf(host, port)} is at an unchecked address`);
      outside.setNoDelay(true);
      outside.setKeepAlive(true, KEEP_ALIVE_MS);
      const name = `s${++this.#sockets}`;
      await connection.offer(join(dirname(this.#path), name), socketIdleMs);
      return { socket: name, address };
    } catch (error) {
      connection.end();
      throw error;
    }
  }

  /** The addresses to connect to. An address that a listed host resolved to represents that host. */
  async #resolveAddresses(host: string, port: number): Promise<readonly string[]> {
    for (const listed of isIP(host) === 0 ? [] : (this.#resolved.get(host) ?? [])) {
      const isAllowed = this.#grant.hosts.some((each) => each.port === port && allowsHost(each, listed, this.#rules));
      if (isAllowed && this.#rules.mayReach(host, port, listed)) return [host];
    }
    return checkedAddresses(host, port, this.#rules, this.#resolve);
  }
}

/** One connection that a guest requested: from its request, on a connection that stays open, to its end. */
class GuestConnection {
  readonly #request: Socket;
  readonly #tenant: TenantSockets;
  readonly #onOver: () => void;
  readonly #leaveTenant: () => void;
  #outside: HostConnection | undefined;
  #listener: Server | undefined;
  #acceptTimer: NodeJS.Timeout | undefined;
  #pair: SocketPair | undefined;
  /** The guest knows where to connect. */
  #isOffered = false;
  /** Why the host ended the connection before the guest connected. */
  #lost: string | undefined;
  #isOver = false;

  constructor(request: Socket, tenant: TenantSockets, onOver: () => void) {
    this.#request = request;
    this.#tenant = tenant;
    this.#onOver = onOver;
    this.#leaveTenant = tenant.enter();
    // A guest that closes its request no longer needs the connection.
    request.once("close", () => (this.#pair ? this.#pair.leave() : this.end()));
  }

  readonly end = (): void => this.#end(REVOKED);

  /** Takes over the socket to the host, connected or not. */
  adopt(outside: HostConnection): void {
    if (this.#isOver || this.#request.destroyed) {
      outside.socket.destroy();
      throw ended();
    }
    this.#outside = outside;
    outside.socket.on("error", ({ code }: NodeJS.ErrnoException) => (this.#lost = code));
    outside.socket.once("close", () => {
      this.#lost ??= "ECONNRESET";
      if (!this.#listener) this.end();
    });
  }

  /** Accepts one connection at `path`, and joins it with the one to the host. */
  async offer(path: string, idleMs: number): Promise<void> {
    if (this.#isOver) throw ended();
    const listener = createServer({ allowHalfOpen: true }, (inside) => {
      listener.close();
      clearTimeout(this.#acceptTimer);
      if (this.#pair || this.#isOver) return void inside.destroy();
      this.#tenant.opened();
      const pair = new SocketPair(inside, this.#outside!, this.#tenant, (why) => this.#end(why));
      this.#pair = pair;
      if (this.#lost !== undefined) return pair.end(this.#lost);
      const idle = `ETIMEDOUT: nothing was sent or received for ${idleMs} ms`;
      inside.setTimeout(idleMs, () => pair.end(idle));
    });
    this.#listener = listener;
    this.#acceptTimer = setTimeout(this.end, ACCEPT_MS);
    await listenAt(listener, path);
    if (this.#isOver) throw ended();
    this.#isOffered = true;
  }

  #end(why: string | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#leaveTenant();
    clearTimeout(this.#acceptTimer);
    this.#listener?.close();
    this.#outside?.socket.destroy();
    this.#pair?.end(why);
    if (this.#isOffered) {
      // Before that, the guest still waits for an answer.
      this.#request.end(why === undefined ? "" : `${JSON.stringify({ ended: why } satisfies RelayReply)}\n`);
      this.#request.setTimeout(REQUEST_MS, () => this.#request.destroy());
    }
    this.#onOver();
  }
}

export interface EgressSocketOptions {
  readonly path: string;
  readonly grant: SocketGrant;
  readonly ownPort?: number | undefined;
  readonly tenant: TenantSockets;
  readonly resolve?: Resolve | undefined;
  /** Called for each requested connection, and for each name that was refused. */
  readonly onRequest?: ((asked: EgressRequest) => void) | undefined;
}

/** Requests are sent in one piece by Berth's own code. */
const REQUEST_MS = 5_000;
const REQUEST_UNITS_MAX = 1_024;
/** Name look-ups that may wait, in addition to connections. */
const LOOKUPS_MAX = 64;
/** The time for the guest to connect to the socket that it was offered. */
const ACCEPT_MS = 10_000;
const ADDRESSES_MAX = 256;
const HOSTS_MAX = 16;
const KEEP_ALIVE_MS = 30_000;
/** The delay before another address of a host is tried in parallel. */
const NEXT_ADDRESS_MS = 1_000;
const SHOWN_UNITS = 200;
/** The reason that a guest gets for a connection that Berth ends. */
const REVOKED = "ECONNRESET: what this server may reach has changed, or it was withdrawn";

function requestedHost(request: Asked): string {
  if ("connect" in request) return authorityOf(request.connect.host, request.connect.port);
  return "lookup" in request ? request.lookup : "";
}

function parseRequest(line: string): Asked | undefined {
  const { connect, lookup, listed } = tryParseObject(line) ?? {};
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

function openTo(host: string, port: number, addresses: readonly string[]): HostConnection {
  const options = { port, allowHalfOpen: true };
  if (addresses.length === 1) return new HostConnection({ ...options, host: addresses[0]! });
  return new HostConnection({
    ...options,
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

/** Rejects when `work` takes longer, without stopping it. */
async function withTimeout<T extends object>(ms: number, work: Promise<T>): Promise<T> {
  const found = await within(ms, work);
  if (found) return found;
  const message = `it took longer than ${ms} ms to look the name up`;
  throw Object.assign(new Error(message), { code: "ETIMEDOUT" });
}

function listenAt(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    // A server that is closed immediately never listens.
    server.on("close", () => reject(ended()));
    // Only the guest can enter the folder; it may run as another user.
    server.listen({ path, readableAll: true, writableAll: true }, resolve);
  });
}

function tooMany(most: number, owner: string): Error {
  const message = `${most} connections of ${owner} are open; close some, or use a pool`;
  return Object.assign(new Error(message), { code: "EMFILE" });
}

function ended(): Error {
  return Object.assign(new Error("the connection was ended before it was established"), { code: "ECONNABORTED" });
}
