import { createRequire, syncBuiltinESMExports } from "node:module";
import net, { Socket } from "node:net";
import type { Asked, Told } from "../../network/relay-wire.ts";
import type { GuestSockets } from "./wire.mts";

/**
 * Sockets for the program: each connection that it opens, to whatever host, leads to the relay, which says where it goes.
 * The sandbox has no other way out; this is how programs, which know hosts and ports alone, find it. A connection is
 * asked for on one of its own, which stays open beside it and says why if the host ends it.
 */
type Connect = (this: Socket, ...given: unknown[]) => Socket;

interface Target {
  readonly host?: unknown;
  readonly port?: unknown;
  readonly path?: unknown;
}

// It is called with its socket below.
// oxlint-disable-next-line typescript/unbound-method
const connectNatively = Socket.prototype.connect as Connect;
let sockets: GuestSockets | undefined;

/** A TLS connection without a socket of its own is made over this one, for whatever host it names. */
const RELAYED = "\0relayed";

/** Has the program's sockets go through the relay; before `load` says more, they go nowhere. */
export function prepareSockets(): void {
  Socket.prototype.connect = connectRelayed;
  net.Server.prototype.listen = function listen(this: net.Server): net.Server {
    const error = refusal("Guest code cannot listen for connections: nobody could reach it", "EACCES", "listen");
    process.nextTick(() => this.emit("error", error));
    return this;
  };
}

/** Before the program's own modules are evaluated. */
export function connectSockets(given: GuestSockets | undefined): void {
  sockets = given;
  prepareLookups();
  if (sockets?.folder !== undefined) prepareTls();
  syncBuiltinESMExports();
}

/** Node's modules that most programs need not load. */
const require = createRequire("file:///sbx/");

function connectRelayed(this: Socket, ...given: unknown[]): Socket {
  const [target, callback] = readArguments(given);
  if (typeof target.path === "string" && target.path !== RELAYED) {
    return failLater(this, refusal("Guest code has no local sockets to connect to", "EACCES", "connect"));
  }
  const host = typeof target.host === "string" ? target.host : "localhost";
  const port = Number(target.port);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    const message = `Port should be >= 0 and < 65536. Received ${String(target.port)}.`;
    throw Object.assign(new RangeError(message), { code: "ERR_SOCKET_BAD_PORT" });
  }
  const inner = this as Socket & Inner;
  // It may have been used before.
  if (!inner._handle) inner._undestroy();
  if (callback) this.once("connect", callback);
  inner.connecting = true;
  const asking = ask({ connect: { host, port } }, (told) => {
    if (this.destroyed) return;
    if ("ended" in told) return void this.destroy(errorOf(told.ended, host, port));
    if (!("socket" in told)) {
      inner.connecting = false;
      const { refused, code } = told as Extract<Told, { refused: string }>;
      return void this.destroy(Object.assign(refusal(refused, code, "connect"), { address: host, port }));
    }
    const { address } = told;
    this.emit("lookup", null, address, net.isIP(address), host);
    // What the program has done with it since then stands.
    inner._undestroy = () => {};
    connectNatively.call(this, { path: `${sockets!.folder}/${told.socket}` });
    delete (inner as Partial<Inner>)._undestroy;
    inner._peername = { address, port, family: net.isIPv6(address) ? "IPv6" : "IPv4" };
  });
  this.once("close", asking.end);
  return this;
}

/** Parts of sockets that Node has had since its beginnings, under these names. */
interface Inner {
  connecting: boolean;
  readonly _handle: unknown;
  _peername: { address: string; port: number; family: string };
  _undestroy(): void;
}

/** As `net.connect` takes them: `(port, host?)`, `(path)` or `(options)`, each with a callback, and Node's own list of them. */
function readArguments(given: readonly unknown[]): [Target, (() => void) | undefined] {
  const all = Array.isArray(given[0]) ? (given[0] as unknown[]) : given;
  const [first, second] = all;
  const callback = all.find((each) => typeof each === "function") as (() => void) | undefined;
  if (typeof first === "object" && first !== null) return [first, callback];
  if (typeof first === "string" && !(Number(first) >= 0)) return [{ path: first }, callback];
  return [{ port: first, ...(typeof second === "string" && { host: second }) }, callback];
}

function failLater(socket: Socket, error: Error): Socket {
  process.nextTick(() => socket.destroy(error));
  return socket;
}

function refusal(message: string, code: string, syscall: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code, syscall });
}

/** `ECONNRESET: why`. */
function errorOf(ended: string, address: string, port: number): NodeJS.ErrnoException {
  const [code = "ECONNRESET"] = ended.split(":");
  return Object.assign(refusal(`read ${ended}`, code, "read"), { address, port });
}

type Wanted = Exclude<Asked, { readonly listed: true }>;

const AGAIN_MS = 100;
const TRIES = 20;

/** Asks the relay; `onTold` hears all that it says. It may be about to begin anew, and is asked again then. */
function ask(asked: Wanted, onTold: (told: Told) => void): { end: () => void } {
  let socket: Socket | undefined;
  let isOver = false;
  const tell = (told: Told): void => {
    if (!isOver) onTold(told);
  };
  const attempt = (left: number): void => {
    if (isOver) return;
    let isTold = false;
    let text = "";
    socket = new Socket();
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => {
      text += chunk;
      const lines = text.split("\n");
      text = lines.pop()!;
      for (const line of lines) {
        isTold = true;
        tell(JSON.parse(line) as Told);
      }
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      if (isTold) return tell({ ended: "ECONNRESET: the relay of this Berth has ended" });
      if (left > 0) return void setTimeout(attempt, AGAIN_MS, left - 1);
      tell({ refused: "There is no way out to the network for now; try again", code: "ECONNREFUSED" });
    });
    connectNatively.call(socket, { path: `${sockets!.folder}/door` }, () =>
      socket!.write(`${JSON.stringify(asked)}\n`),
    );
  };
  const unconnected = whyUnconnected(asked);
  if (unconnected === undefined) attempt(TRIES);
  else process.nextTick(tell, { refused: unconnected, code: "EACCES" });
  return {
    end() {
      isOver = true;
      socket?.destroy();
    },
  };
}

/** Why the program has no way out at all. */
function whyUnconnected(asked: Wanted): string | undefined {
  if (sockets?.folder !== undefined) return undefined;
  const [what, line] =
    "lookup" in asked
      ? [`${asked.lookup} cannot be looked up`, `${asked.lookup}:<port>`]
      : [`${authorityOf(asked.connect)} may not be reached`, authorityOf(asked.connect)];
  if (!sockets) return `${what} while the program is only tried: connect when a function is called`;
  if (sockets.isBroken) return `${what}: this Berth could make no way out to the network; try again`;
  if (sockets.byOperator) {
    const tag = `/** @network ${line} */`;
    return `${what}: nothing grants it: start berth dev with --allow-net ${line}, or, for a public address, write ${tag} at the head of the file`;
  }
  const unlisted = `the entry "${sockets.server}" in mcps lists no "network"; add "network": ["${line}"]`;
  return `${what}: ${unlisted}${sockets.requested === undefined ? "" : `; ${sockets.requested}`}`;
}

function authorityOf({ host, port }: { host: string; port: number }): string {
  return net.isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

/** TLS ends in the program, which checks the certificate for the host that it names. */
function prepareTls(): void {
  const tls = require("node:tls") as { connect: (...given: unknown[]) => Socket };
  const connectTls = tls.connect;
  tls.connect = function connect(...given: unknown[]): Socket {
    const [target, callback] = readArguments(given);
    // `(port, host, options)`: the options stand last.
    const more = given.slice(1).find((each) => typeof each === "object" && each !== null);
    const options = { ...target, ...more } as Target & { socket?: unknown };
    if (options.socket || typeof options.path === "string") return connectTls(...given);
    return connectTls({ ...options, path: RELAYED }, callback);
  };
}

type LookedUp = (error: Error | null, ...found: unknown[]) => void;
type Address = { readonly address: string; readonly family: number };

/** Names are looked up by the relay, and only those of hosts that the entry lists. */
function prepareLookups(): void {
  const dns = require("node:dns") as Record<string, unknown> & { promises: Record<string, unknown> };
  const lookup = async (host: unknown, given?: unknown): Promise<Address | Address[]> => {
    const { family, all } = (typeof given === "object" && given !== null ? given : { family: given }) as {
      family?: unknown;
      all?: unknown;
    };
    const wanted = family === 4 || family === "IPv4" ? 4 : family === 6 || family === "IPv6" ? 6 : 0;
    const found = await addressesOf(String(host), wanted);
    return all === true ? found : found[0]!;
  };
  const resolve = (wanted: 4 | 6) => async (host: unknown, options?: unknown) => {
    const found = await addressesOf(String(host), wanted);
    const hasTtl = (options as { ttl?: unknown } | undefined)?.ttl === true;
    return found.map(({ address }) => (hasTtl ? { address, ttl: 0 } : address));
  };
  const resolveAny = async (host: unknown, kind: unknown = "A"): Promise<unknown> => {
    if (kind === "A" || kind === "AAAA") return resolve(kind === "A" ? 4 : 6)(host);
    throw refusal(
      "Guest code looks up addresses only, of hosts that its entry lists",
      "ENOTFOUND",
      `query${String(kind)}`,
    );
  };
  const asked = { lookup, resolve4: resolve(4), resolve6: resolve(6), resolve: resolveAny };
  Object.assign(dns.promises, asked);
  for (const [name, ask] of Object.entries(asked)) {
    const byCallback = (host: unknown, ...rest: unknown[]): object => {
      const callback = rest.pop() as LookedUp;
      void hand(ask(host, rest[0]), callback);
      return {};
    };
    dns[name] = Object.assign(byCallback, { [Symbol.for("nodejs.util.promisify.custom")]: ask });
  }
}

async function hand(asked: Promise<unknown>, callback: LookedUp): Promise<void> {
  let found: [Error | null, ...unknown[]];
  try {
    const answer = await asked;
    const { address, family } = answer as Partial<Address>;
    found = address === undefined ? [null, answer] : [null, address, family];
  } catch (error) {
    found = [error as Error];
  }
  // What it throws is the program's.
  process.nextTick(callback, ...found);
}

function addressesOf(host: string, wanted: number): Promise<Address[]> {
  const family = net.isIP(host);
  if (family !== 0) return Promise.resolve([{ address: host, family }]);
  return new Promise((resolve, reject) => {
    const asking = ask({ lookup: host }, (told) => {
      asking.end();
      if (!("addresses" in told)) {
        const { refused, code } = told as Extract<Told, { refused: string }>;
        return reject(Object.assign(refusal(refused, code, "getaddrinfo"), { hostname: host }));
      }
      const found = told.addresses.map((address) => ({ address, family: net.isIP(address) }));
      const fitting = found.filter((each) => wanted === 0 || each.family === wanted);
      if (fitting.length > 0) return resolve(fitting);
      const message = `getaddrinfo ENOTFOUND ${host}`;
      reject(Object.assign(refusal(message, "ENOTFOUND", "getaddrinfo"), { hostname: host }));
    });
  });
}
