import { createRequire, syncBuiltinESMExports } from "node:module";
import net, { Socket } from "node:net";
import type { Asked, RelayReply } from "../../network/relay-wire.ts";
import type { GuestSockets } from "./wire.mts";

/**
 * Sockets for the program: each connection that it opens, to any host, goes to the relay, which decides where it leads.
 * The sandbox has no other egress, and programs know only hosts and ports. A connection is requested over another one,
 * which stays open next to it and reports why the host ended it.
 */
type Connect = (this: Socket, ...args: unknown[]) => Socket;

interface Target {
  readonly host?: unknown;
  readonly port?: unknown;
  readonly path?: unknown;
}

// Called with its socket below.
// oxlint-disable-next-line typescript/unbound-method
const connectNatively = Socket.prototype.connect as Connect;
let sockets: GuestSockets | undefined;

/** Marks TLS connections without a socket of their own, which are made over a relayed socket for any host. */
const RELAYED = "\0relayed";

/** Routes the program's sockets through the relay; until `load` has connected them, they lead nowhere. */
export function patchSockets(): void {
  Socket.prototype.connect = connectRelayed;
  net.Server.prototype.listen = function listen(this: net.Server): net.Server {
    const error = refusal("Guest code cannot listen for connections: no client could reach it", "EACCES", "listen");
    process.nextTick(() => this.emit("error", error));
    return this;
  };
}

/** Runs before the program's own modules are evaluated. */
export function connectSockets(network: GuestSockets | undefined): void {
  sockets = network;
  patchDns();
  if (sockets?.folder !== undefined) patchTls();
  syncBuiltinESMExports();
}

/** Modules of Node that most programs need not load. */
const require = createRequire("file:///sbx/");

function connectRelayed(this: Socket, ...args: unknown[]): Socket {
  const [target, callback] = readArguments(args);
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
  // The socket may have been used before.
  if (!inner._handle) inner._undestroy();
  if (callback) this.once("connect", callback);
  inner.connecting = true;
  const request = ask({ connect: { host, port } }, (reply) => {
    if (this.destroyed) return;
    if ("ended" in reply) return void this.destroy(toConnectionError(reply.ended, host, port));
    if (!("socket" in reply)) {
      inner.connecting = false;
      const { refused, code } = reply as Extract<RelayReply, { refused: string }>;
      return void this.destroy(Object.assign(refusal(refused, code, "connect"), { address: host, port }));
    }
    const { address } = reply;
    this.emit("lookup", null, address, net.isIP(address), host);
    // Changes that the program has made to it since then remain.
    inner._undestroy = () => {};
    connectNatively.call(this, { path: `${sockets!.folder}/${reply.socket}` });
    delete (inner as Partial<Inner>)._undestroy;
    inner._peername = { address, port, family: net.isIPv6(address) ? "IPv6" : "IPv4" };
  });
  this.once("close", request.end);
  return this;
}

/** Internals of sockets that Node has had since its beginnings, under these names. */
interface Inner {
  connecting: boolean;
  readonly _handle: unknown;
  _peername: { address: string; port: number; family: string };
  _undestroy(): void;
}

/**
 * Arguments as `net.connect` takes them: `(port, host?)`, `(path)` or `(options)`, each with a callback, or Node's own
 * array of them.
 */
function readArguments(args: readonly unknown[]): [Target, (() => void) | undefined] {
  const all = Array.isArray(args[0]) ? (args[0] as unknown[]) : args;
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
function toConnectionError(ended: string, address: string, port: number): NodeJS.ErrnoException {
  const [code = "ECONNRESET"] = ended.split(":");
  return Object.assign(refusal(`read ${ended}`, code, "read"), { address, port });
}

type RelayRequest = Exclude<Asked, { readonly listed: true }>;

const RETRY_MS = 100;
const TRIES = 20;

/** Sends a request to the relay; `onReply` receives every reply. Retries, since the relay may be restarting. */
function ask(request: RelayRequest, onReply: (told: RelayReply) => void): { end: () => void } {
  let socket: Socket | undefined;
  let isOver = false;
  const notify = (reply: RelayReply): void => {
    if (!isOver) onReply(reply);
  };
  const attempt = (retries: number): void => {
    if (isOver) return;
    let hasReply = false;
    let text = "";
    socket = new Socket();
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => {
      text += chunk;
      const lines = text.split("\n");
      text = lines.pop()!;
      for (const line of lines) {
        hasReply = true;
        notify(JSON.parse(line) as RelayReply);
      }
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      if (hasReply) return notify({ ended: "ECONNRESET: Berth's network relay has ended" });
      if (retries > 0) return void setTimeout(attempt, RETRY_MS, retries - 1);
      notify({ refused: "The network is unavailable at the moment; try again", code: "ECONNREFUSED" });
    });
    connectNatively.call(socket, { path: `${sockets!.folder}/door` }, () =>
      socket!.write(`${JSON.stringify(request)}\n`),
    );
  };
  const problem = explainNoNetwork(request);
  if (problem === undefined) attempt(TRIES);
  else process.nextTick(notify, { refused: problem, code: "EACCES" });
  return {
    end() {
      isOver = true;
      socket?.destroy();
    },
  };
}

/** Why the program has no network at all. */
function explainNoNetwork(request: RelayRequest): string | undefined {
  if (sockets?.folder !== undefined) return undefined;
  const [problem, line] =
    "lookup" in request
      ? [`${request.lookup} cannot be looked up`, `${request.lookup}:<port>`]
      : [`${formatAuthority(request.connect)} may not be reached`, formatAuthority(request.connect)];
  if (!sockets) return `${problem} while the program is loaded on trial: connect when a function is called`;
  if (sockets.isBroken) return `${problem}: network access could not be set up; try again`;
  if (sockets.byOperator) {
    const tag = `/** @network ${line} */`;
    return `${problem}: nothing grants it: start berth dev with --allow-net ${line}, or, for a public address, write ${tag} at the head of the file`;
  }
  const unlisted = `the entry "${sockets.server}" in mcps lists no "network"; add "network": ["${line}"]`;
  return `${problem}: ${unlisted}${sockets.requested === undefined ? "" : `; ${sockets.requested}`}`;
}

function formatAuthority({ host, port }: { host: string; port: number }): string {
  return net.isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

/** TLS ends in the program, which verifies the certificate for the host that it names. */
function patchTls(): void {
  const tls = require("node:tls") as { connect: (...args: unknown[]) => Socket };
  const connectTls = tls.connect;
  tls.connect = function connect(...args: unknown[]): Socket {
    const [target, callback] = readArguments(args);
    // `(port, host, options)`: the options come last.
    const more = args.slice(1).find((each) => typeof each === "object" && each !== null);
    const options = { ...target, ...more } as Target & { socket?: unknown };
    if (options.socket || typeof options.path === "string") return connectTls(...args);
    return connectTls({ ...options, path: RELAYED }, callback);
  };
}

type LookupCallback = (error: Error | null, ...results: unknown[]) => void;
type Address = { readonly address: string; readonly family: number };

/** Names are resolved by the relay, and only those of hosts that the entry lists. */
function patchDns(): void {
  const dns = require("node:dns") as Record<string, unknown> & { promises: Record<string, unknown> };
  const lookup = async (host: unknown, options?: unknown): Promise<Address | Address[]> => {
    const { family, all } = (typeof options === "object" && options !== null ? options : { family: options }) as {
      family?: unknown;
      all?: unknown;
    };
    const wantedFamily = family === 4 || family === "IPv4" ? 4 : family === 6 || family === "IPv6" ? 6 : 0;
    const addresses = await lookUpAddresses(String(host), wantedFamily);
    return all === true ? addresses : addresses[0]!;
  };
  const resolve = (family: 4 | 6) => async (host: unknown, options?: unknown) => {
    const addresses = await lookUpAddresses(String(host), family);
    const hasTtl = (options as { ttl?: unknown } | undefined)?.ttl === true;
    return addresses.map(({ address }) => (hasTtl ? { address, ttl: 0 } : address));
  };
  const resolveAny = async (host: unknown, kind: unknown = "A"): Promise<unknown> => {
    if (kind === "A" || kind === "AAAA") return resolve(kind === "A" ? 4 : 6)(host);
    throw refusal(
      "Guest code can look up only addresses, and only of hosts that its entry lists",
      "ENOTFOUND",
      `query${String(kind)}`,
    );
  };
  const lookups = { lookup, resolve4: resolve(4), resolve6: resolve(6), resolve: resolveAny };
  Object.assign(dns.promises, lookups);
  for (const [name, lookUp] of Object.entries(lookups)) {
    const byCallback = (host: unknown, ...rest: unknown[]): object => {
      const callback = rest.pop() as LookupCallback;
      void deliver(lookUp(host, rest[0]), callback);
      return {};
    };
    dns[name] = Object.assign(byCallback, { [Symbol.for("nodejs.util.promisify.custom")]: lookUp });
  }
}

async function deliver(lookup: Promise<unknown>, callback: LookupCallback): Promise<void> {
  let results: [Error | null, ...unknown[]];
  try {
    const answer = await lookup;
    const { address, family } = answer as Partial<Address>;
    results = address === undefined ? [null, answer] : [null, address, family];
  } catch (error) {
    results = [error as Error];
  }
  // An exception of the callback is the program's.
  process.nextTick(callback, ...results);
}

function lookUpAddresses(host: string, wantedFamily: number): Promise<Address[]> {
  const family = net.isIP(host);
  if (family !== 0) return Promise.resolve([{ address: host, family }]);
  return new Promise((resolve, reject) => {
    const request = ask({ lookup: host }, (reply) => {
      request.end();
      if (!("addresses" in reply)) {
        const { refused, code } = reply as Extract<RelayReply, { refused: string }>;
        return reject(Object.assign(refusal(refused, code, "getaddrinfo"), { hostname: host }));
      }
      const addresses = reply.addresses.map((address) => ({ address, family: net.isIP(address) }));
      const matching = addresses.filter((each) => wantedFamily === 0 || each.family === wantedFamily);
      if (matching.length > 0) return resolve(matching);
      const message = `getaddrinfo ENOTFOUND ${host}`;
      reject(Object.assign(refusal(message, "ENOTFOUND", "getaddrinfo"), { hostname: host }));
    });
  });
}
