import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { connect, createServer, isIP, isIPv4, type Server, type Socket } from "node:net";
import type { Asked, RelayReply } from "../../network/relay-wire.ts";
import { ETC, etcFiles, PROXY, RESOLVER, SOCKETS } from "./wire.mts";

/**
 * The egress of a script: the first process of its sandbox, which starts the script, further confined, in the same
 * network namespace. Programs of a script know only hosts and ports, so each listed host gets a loopback address, where
 * this process listens on the listed ports and forwards each connection to the relay. Names are resolved by
 * `/etc/hosts`, those of a wildcard (`*.example.org`) by a resolver, and hosts listed by address are reached through a
 * proxy that the environment names. This process decides nothing: the relay knows what is listed and what may be
 * reached.
 */
type Listed = Extract<RelayReply, { hosts: unknown }>["hosts"][number];

interface Target {
  readonly host: string;
  readonly port: number;
}

/** A requested connection, and what either side is sent in addition. */
interface ForwardRequest extends Target {
  /** Sent to the host before everything else. */
  readonly first?: string | Buffer;
  readonly opened?: string;
  readonly refused?: (why: string, code: string) => string;
}

const [file = "", ...args] = process.argv.slice(2);
let listed: readonly Listed[] = [];
/** The loopback addresses of hosts, and the addresses and ports that have a listener. */
const addresses = new Map<string, string>();
const listeners = new Set<string>();
const clients = new Set<Socket>();
const warnings = new Set<string>();

async function open(hosts: readonly Listed[]): Promise<void> {
  listed = hosts;
  boundBuffers();
  const named = listed.filter(({ kind }) => kind === "host");
  for (const { name } of named) if (!addresses.has(name)) assignAddress(name);
  writeEtc();
  await Promise.all([
    listen(createServer(OPTIONS, onProxyClient), PROXY),
    listen(createServer(onDnsClient), RESOLVER),
    // Programs resolve "localhost" on their own, so that name takes precedence over "127.0.0.1" as a host.
    ...named.sort((one, other) => Number(other.name === "localhost") - Number(one.name === "localhost")).map(listenFor),
  ]);
}

/** Hosts listed by address are reached only through the proxy, unless the address is a loopback address. */
function assignAddress(name: string): void {
  const next = addresses.size + 1;
  if (next > NAMES_MAX) return;
  if (name === "localhost") addresses.set(name, "127.0.0.1");
  else if (name === "::1" || (isIPv4(name) && name.startsWith("127."))) addresses.set(name, name);
  else if (!isIP(name)) addresses.set(name, `127.1.${next >> 8}.${next & 255}`);
}

async function listenFor({ name: host, port }: Pick<Listed, "name" | "port">): Promise<void> {
  const address = addresses.get(host);
  const endpoint = `${address} ${port}`;
  if (address === undefined || listeners.has(endpoint) || listeners.size >= LISTENERS_MAX) return;
  listeners.add(endpoint);
  await listen(
    createServer(OPTIONS, (client) => forward(client, { host, port })),
    { host: address, port },
  );
}

/** Data in flight is in kernel memory that counts to no process: a socket gets no more of it than a local one. */
function boundBuffers(): void {
  const lengths = { tcp_rmem: "4096 65536 131072", tcp_wmem: "4096 16384 65536" };
  try {
    for (const [name, text] of Object.entries(lengths)) writeFileSync(`/proc/sys/net/ipv4/${name}`, text);
  } catch (error) {
    throw new Error(`the buffers of its sockets cannot be bounded here (${(error as Error).message})`, {
      cause: error,
    });
  }
}

function writeEtc(): void {
  const named = [...addresses].filter(([name, address]) => name !== address && name !== "localhost");
  const texts: Record<(typeof etcFiles)[number], readonly string[]> = {
    hosts: ["127.0.0.1 localhost", "::1 localhost", ...named.map(([name, address]) => `${address} ${name}`)],
    // Over TCP, since there is no UDP, and without search domains.
    "resolv.conf": [`nameserver ${RESOLVER.host}`, "search .", "options use-vc attempts:1"],
    "nsswitch.conf": ["passwd: files", "group: files", "hosts: files dns"],
    passwd: ["nobody:x:65534:65534:nobody:/tmp:/bin/sh"],
    group: ["nogroup:x:65534:"],
  };
  for (const [name, lines] of Object.entries(texts)) writeFileSync(`${ETC}/${name}`, `${lines.join("\n")}\n`);
}

function listen(server: Server, { host, port }: Target): Promise<void> {
  server.maxConnections = CLIENTS_MAX;
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen({ host, port, backlog: BACKLOG }, resolve);
  });
}

/** Descriptors 3 to 5 are the sandbox's pipes: the script's source, its environment, and its system call filter. */
function start(): void {
  const child = spawn(file, args, { stdio: ["inherit", "inherit", "inherit", 3, 4, 5], env: {} });
  child.on("error", (error) => fail(error.message));
  child.on("exit", (code) => {
    const end = (): void => process.exit(code ?? KILLED);
    if (clients.size === 0) return end();
    // Data that it sent before it ended is still delivered.
    setTimeout(end, DRAIN_MS);
    for (const client of clients) client.once("close", () => clients.size === 0 && end());
  });
}

function fail(why: string): void {
  process.stderr.write(`There is no network for this script: ${why}\n`);
  process.exit(1);
}

function warn(why: string): void {
  if (warnings.has(why) || warnings.size >= COMPLAINTS_MAX) return;
  warnings.add(why);
  process.stderr.write(`${why}\n`);
}

function forward(client: Socket, request: ForwardRequest): void {
  if (!accept(client)) return;
  const { host, port, refused } = request;
  let outside: Socket | undefined;
  ask({ connect: { host, port } }, (reply, done) => {
    if ("socket" in reply) {
      outside = connect({ path: `${SOCKETS}/${reply.socket}`, allowHalfOpen: true });
      outside.on("close", done);
      return carry(client, outside, request);
    }
    done();
    if ("refused" in reply) {
      warn(reply.refused);
      return void (refused ? client.end(refused(reply.refused, reply.code)) : client.resetAndDestroy());
    }
    if (!("ended" in reply)) return;
    // The relay ends without a reason when both directions are finished.
    if (reply.ended === RELAY_ENDED && outside?.writableEnded) return;
    // A reason that is only a code is reported by the program itself.
    if (reply.ended.includes(" ")) warn(`${host}:${port} was cut: ${reply.ended}`);
    client.resetAndDestroy();
  });
}

function carry(client: Socket, outside: Socket, { first = "", opened = "" }: ForwardRequest): void {
  const onClientClosed = (): void => {
    if (outside.writableFinished || outside.destroyed) return void outside.destroy();
    outside.end();
    outside.once("finish", () => outside.destroy());
  };
  outside.on("error", () => client.resetAndDestroy());
  outside.on("close", () => {
    if (!client.writableEnded) client.destroy();
  });
  if (client.destroyed) return onClientClosed();
  client.on("close", onClientClosed);
  outside.write(first);
  client.write(opened);
  client.pipe(outside);
  outside.pipe(client);
}

/** False if there are too many clients. */
function accept(client: Socket): boolean {
  client.on("error", () => client.destroy());
  if (clients.has(client)) return true;
  if (clients.size >= CLIENTS_MAX) {
    client.resetAndDestroy();
    return false;
  }
  clients.add(client);
  client.on("close", () => clients.delete(client));
  return true;
}

/** Sends a request to the relay; `onReply` receives replies until `done`. Retries: the relay may be restarting. */
function ask(request: Asked, onReply: (told: RelayReply, done: () => void) => void, retries = TRIES): void {
  let hasReply = false;
  let isDone = false;
  let text = "";
  const socket = connect({ path: `${SOCKETS}/door` }, () => socket.write(`${JSON.stringify(request)}\n`));
  const done = (): void => {
    isDone = true;
    socket.destroy();
  };
  socket.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (text + chunk).split("\n");
    text = lines.pop()!;
    for (const line of lines) {
      hasReply = true;
      if (!isDone) onReply(JSON.parse(line) as RelayReply, done);
    }
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    if (isDone) return;
    if (hasReply) return onReply({ ended: RELAY_ENDED }, done);
    if (retries > 0) return void setTimeout(ask, RETRY_MS, request, onReply, retries - 1);
    onReply({ refused: "the network is unavailable at the moment; try again", code: "ECONNREFUSED" }, done);
  });
}

/** DNS queries (RFC 1035, over TCP); the relay says which hosts are listed. */
function onDnsClient(client: Socket): void {
  if (!accept(client)) return;
  client.setTimeout(HEAD_MS, () => client.destroy());
  let received = Buffer.alloc(0);
  let isResolving = false;
  const answerNext = (): void => {
    if (isResolving || client.destroyed || received.length < 2 || received.length < 2 + received.readUInt16BE(0))
      return;
    const message = received.subarray(2, 2 + received.readUInt16BE(0));
    received = received.subarray(2 + message.length);
    const question = readQuestion(message);
    if (!question) return void client.destroy();
    isResolving = true;
    resolve(question.name, (address) => {
      isResolving = false;
      if (!client.destroyed) client.write(createDnsResponse(message.subarray(0, question.end), question.kind, address));
      answerNext();
    });
  };
  client.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    if (received.length > HEAD_BYTES_MAX) client.destroy();
    else answerNext();
  });
}

function resolve(name: string, onResolved: (address: string | undefined) => void): void {
  ask({ lookup: name }, (reply, done) => {
    done();
    if ("refused" in reply) warn(reply.refused);
    if (!("addresses" in reply)) return onResolved(undefined);
    const host = name.toLowerCase();
    if (!addresses.has(host)) assignAddress(host);
    const matching = listed.filter(
      ({ kind, name: domain }) => kind === "any" || (kind === "below" && host.endsWith(`.${domain}`)),
    );
    const listening = matching.map(({ port }) => listenFor({ name: host, port }));
    void Promise.all(listening).then(
      () => onResolved(addresses.get(host)),
      () => onResolved(undefined),
    );
  });
}

function readQuestion(message: Buffer): { name: string; kind: number; end: number } | undefined {
  if (message.length < 12 || message.readUInt16BE(4) !== 1) return undefined;
  const labels: string[] = [];
  let at = 12;
  for (let length = message[at]; length !== 0; length = message[at]) {
    if (length === undefined || length > 63) return undefined;
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  const end = at + 5;
  return end > message.length ? undefined : { name: labels.join("."), kind: message.readUInt16BE(at + 1), end };
}

/** `question`: the message up to the end of its question. Without an address, the name does not exist. */
function createDnsResponse(question: Buffer, kind: number, address: string | undefined): Buffer {
  const isAnswered = address !== undefined && kind === A;
  const record = Buffer.from([0xc0, 12, 0, A, 0, 1, 0, 0, 0, 0, 0, 4, ...(address ?? "").split(".").map(Number)]);
  const answer = Buffer.concat([Buffer.alloc(2), question, ...(isAnswered ? [record] : [])]);
  answer.writeUInt16BE(answer.length - 2, 0);
  answer.writeUInt16BE(address === undefined ? NXDOMAIN : NO_ERROR, 4);
  answer.writeUInt16BE(isAnswered ? 1 : 0, 8);
  answer.fill(0, 10, 14);
  return answer;
}

const A = 1;
/** Response flags, with recursion desired and available; and the same with `NXDOMAIN`. */
const [NO_ERROR, NXDOMAIN] = [0x8180, 0x8183] as const;

/** The protocol of HTTP proxies: `CONNECT host:port`, or a request with an absolute URL, one per connection. */
function onProxyClient(client: Socket): void {
  if (!accept(client)) return;
  client.setTimeout(HEAD_MS, () => client.destroy());
  let received = Buffer.alloc(0);
  const onData = (chunk: Buffer): void => {
    received = Buffer.concat([received, chunk]);
    const end = received.indexOf("\r\n\r\n");
    if (end < 0 && received.length <= HEAD_BYTES_MAX) return;
    client.off("data", onData);
    client.pause();
    client.setTimeout(0);
    const rest = received.subarray(end + 4);
    const request = end < 0 ? undefined : readHead(received.subarray(0, end).toString("latin1"));
    if (!request || request.host.length > HOST_UNITS_MAX || request.port < 1 || request.port > 65_535)
      return void client.end(createResponse(400, "This is not a proxy request"));
    forward(client, {
      ...request,
      first: Buffer.concat([Buffer.from(request.first, "latin1"), rest]),
      refused: refusalResponse,
    });
  };
  client.on("data", onData);
}

function readHead(head: string): (Target & { readonly first: string; readonly opened?: string }) | undefined {
  const [line = "", ...fields] = head.split("\r\n");
  const [, method, target = ""] = /^([A-Z]+) (\S+) HTTP\/1\.[01]$/.exec(line) ?? [];
  if (method === "CONNECT") {
    const [, host, port] = /^\[?([^\]/?#@]+)\]?:([0-9]{1,5})$/.exec(target) ?? [];
    return host === undefined ? undefined : { host, port: Number(port), first: "", opened: ESTABLISHED };
  }
  const url = URL.canParse(target) ? new URL(target) : undefined;
  if (method === undefined || url?.protocol !== "http:") return undefined;
  const forwarded = fields.filter((field) => !/^(?:proxy-[a-z-]*|connection|keep-alive)[ \t]*:/i.test(field));
  const first = [`${method} ${url.pathname}${url.search} HTTP/1.1`, ...forwarded, "Connection: close", "", ""].join(
    "\r\n",
  );
  return { host: url.hostname.replace(/^\[|\]$/g, ""), port: url.port === "" ? 80 : Number(url.port), first };
}

function refusalResponse(why: string, code: string): string {
  return createResponse(code === "EACCES" ? 403 : 502, why);
}

function createResponse(status: keyof typeof statuses, why: string): string {
  const fields = ["Content-Type: text/plain; charset=utf-8", `Content-Length: ${Buffer.byteLength(why) + 1}`];
  return [`HTTP/1.1 ${status} ${statuses[status]}`, ...fields, "Connection: close", "", `${why}\n`].join("\r\n");
}

const RELAY_ENDED = "Berth's network relay has ended";
const statuses = { 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway" } as const;
const ESTABLISHED = "HTTP/1.1 200 Connection established\r\n\r\n";
const OPTIONS = { allowHalfOpen: true };
/** More connections of a script than the relay allows are closed immediately. */
const CLIENTS_MAX = 128;
const BACKLOG = 64;
const LISTENERS_MAX = 128;
/** The most hosts with a loopback address. */
const NAMES_MAX = 4_096;
const HEAD_BYTES_MAX = 16 * 1024;
const HOST_UNITS_MAX = 253;
const HEAD_MS = 10_000;
const COMPLAINTS_MAX = 20;
/** How long delivering the rest may take after a script has ended. */
const DRAIN_MS = 500;
const RETRY_MS = 100;
const TRIES = 20;
/** The exit code of a shell for a process that was killed. */
const KILLED = 137;

ask({ listed: true }, (reply, done) => {
  done();
  if (!("hosts" in reply))
    return fail("refused" in reply ? reply.refused : "the relay did not report the listed hosts");
  void open(reply.hosts).then(start, (error: Error) => fail(error.message));
});
