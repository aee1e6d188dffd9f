import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { connect, createServer, isIP, isIPv4, type Server, type Socket } from "node:net";
import type { Asked, Told } from "../../network/relay-wire.ts";
import { ETC, etcFiles, PROXY, RESOLVER, SOCKETS } from "./wire.mts";

/**
 * The way out of a script: the first process of its sandbox, which starts the script, further confined, in the same
 * network. A script's programs know hosts and ports alone, so each listed host gets an address of loopback, at which this
 * process listens at the listed ports, and hands each connection on to the relay. Names are found in `/etc/hosts`; those
 * that a list cannot name (`*.example.org`) by a resolver, and what is listed as an address is reached by a proxy, which
 * the environment names. This process decides nothing: the relay says what is listed, and what may be reached.
 */
type Listed = Extract<Told, { hosts: unknown }>["hosts"][number];

interface Target {
  readonly host: string;
  readonly port: number;
}

/** A wanted connection, and what either side is told besides. */
interface Asking extends Target {
  /** Sent to the host, before all that follows. */
  readonly first?: string | Buffer;
  readonly opened?: string;
  readonly refused?: (why: string, code: string) => string;
}

const [file = "", ...args] = process.argv.slice(2);
let listed: readonly Listed[] = [];
/** The addresses of hosts here, and where something listens. */
const addresses = new Map<string, string>();
const places = new Set<string>();
const clients = new Set<Socket>();
const complaints = new Set<string>();

async function open(given: readonly Listed[]): Promise<void> {
  listed = given;
  boundBuffers();
  const hosts = listed.filter(({ kind }) => kind === "host");
  for (const { name } of hosts) if (!addresses.has(name)) giveAddress(name);
  writeEtc();
  await Promise.all([
    listen(createServer(OPTIONS, onProxied), PROXY),
    listen(createServer(onResolving), RESOLVER),
    // Programs have an address of their own for "localhost", so that name goes before what stands as "127.0.0.1".
    ...hosts.sort((one, other) => Number(other.name === "localhost") - Number(one.name === "localhost")).map(listenFor),
  ]);
}

/** Addresses that are written as such are reached by the proxy alone, unless they are this machine's own. */
function giveAddress(name: string): void {
  const next = addresses.size + 1;
  if (next > NAMES_MAX) return;
  if (name === "localhost") addresses.set(name, "127.0.0.1");
  else if (name === "::1" || (isIPv4(name) && name.startsWith("127."))) addresses.set(name, name);
  else if (!isIP(name)) addresses.set(name, `127.1.${next >> 8}.${next & 255}`);
}

async function listenFor({ name: host, port }: Pick<Listed, "name" | "port">): Promise<void> {
  const address = addresses.get(host);
  const place = `${address} ${port}`;
  if (address === undefined || places.has(place) || places.size >= LISTENERS_MAX) return;
  places.add(place);
  await listen(
    createServer(OPTIONS, (client) => forward(client, { host, port })),
    { host: address, port },
  );
}

/** The kernel keeps what is sent in memory that counts to no process: a socket has no more of it than a local one. */
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
    // Over TCP, since there is no UDP; and names are whole.
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

/** The pipes of the script's text, its environment, and its filter of system calls are the sandbox's. */
function start(): void {
  const child = spawn(file, args, { stdio: ["inherit", "inherit", "inherit", 3, 4, 5], env: {} });
  child.on("error", (error) => fail(error.message));
  child.on("exit", (code) => {
    const end = (): void => process.exit(code ?? KILLED);
    if (clients.size === 0) return end();
    // What it had sent before it ended still goes out.
    setTimeout(end, LEAVING_MS);
    for (const client of clients) client.once("close", () => clients.size === 0 && end());
  });
}

function fail(why: string): void {
  process.stderr.write(`There is no network for this script: ${why}\n`);
  process.exit(1);
}

function complain(why: string): void {
  if (complaints.has(why) || complaints.size >= COMPLAINTS_MAX) return;
  complaints.add(why);
  process.stderr.write(`${why}\n`);
}

function forward(client: Socket, asking: Asking): void {
  if (!keep(client)) return;
  const { host, port, refused } = asking;
  let outside: Socket | undefined;
  ask({ connect: { host, port } }, (told, done) => {
    if ("socket" in told) {
      outside = connect({ path: `${SOCKETS}/${told.socket}`, allowHalfOpen: true });
      outside.on("close", done);
      return carry(client, outside, asking);
    }
    done();
    if ("refused" in told) {
      complain(told.refused);
      return void (refused ? client.end(refused(told.refused, told.code)) : client.resetAndDestroy());
    }
    if (!("ended" in told)) return;
    // The relay ends without a word when all is said in both directions.
    if (told.ended === RELAY_ENDED && outside?.writableEnded) return;
    // Where there is no reason but a code, the program tells it itself.
    if (told.ended.includes(" ")) complain(`${host}:${port} was cut: ${told.ended}`);
    client.resetAndDestroy();
  });
}

function carry(client: Socket, outside: Socket, { first = "", opened = "" }: Asking): void {
  const onLeft = (): void => {
    if (outside.writableFinished || outside.destroyed) return void outside.destroy();
    outside.end();
    outside.once("finish", () => outside.destroy());
  };
  outside.on("error", () => client.resetAndDestroy());
  outside.on("close", () => {
    if (!client.writableEnded) client.destroy();
  });
  if (client.destroyed) return onLeft();
  client.on("close", onLeft);
  outside.write(first);
  client.write(opened);
  client.pipe(outside);
  outside.pipe(client);
}

/** False for a client that is one too many. */
function keep(client: Socket): boolean {
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

/** Asks the relay; `onTold` hears all that it says, until it is `done`. It may be about to begin anew, and is asked again. */
function ask(asked: Asked, onTold: (told: Told, done: () => void) => void, left = TRIES): void {
  let isTold = false;
  let isDone = false;
  let text = "";
  const socket = connect({ path: `${SOCKETS}/door` }, () => socket.write(`${JSON.stringify(asked)}\n`));
  const done = (): void => {
    isDone = true;
    socket.destroy();
  };
  socket.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (text + chunk).split("\n");
    text = lines.pop()!;
    for (const line of lines) {
      isTold = true;
      if (!isDone) onTold(JSON.parse(line) as Told, done);
    }
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    if (isDone) return;
    if (isTold) return onTold({ ended: RELAY_ENDED }, done);
    if (left > 0) return void setTimeout(ask, AGAIN_MS, asked, onTold, left - 1);
    onTold({ refused: "there is no way out to the network for now; try again", code: "ECONNREFUSED" }, done);
  });
}

/** Questions about names (RFC 1035, over TCP): the relay says which hosts are listed. */
function onResolving(client: Socket): void {
  if (!keep(client)) return;
  client.setTimeout(HEAD_MS, () => client.destroy());
  let read = Buffer.alloc(0);
  let isAsking = false;
  const answerNext = (): void => {
    if (isAsking || client.destroyed || read.length < 2 || read.length < 2 + read.readUInt16BE(0)) return;
    const message = read.subarray(2, 2 + read.readUInt16BE(0));
    read = read.subarray(2 + message.length);
    const asked = readQuestion(message);
    if (!asked) return void client.destroy();
    isAsking = true;
    resolve(asked.name, (address) => {
      isAsking = false;
      if (!client.destroyed) client.write(answerTo(message.subarray(0, asked.end), asked.kind, address));
      answerNext();
    });
  };
  client.on("data", (chunk: Buffer) => {
    read = Buffer.concat([read, chunk]);
    if (read.length > HEAD_BYTES_MAX) client.destroy();
    else answerNext();
  });
}

function resolve(name: string, onFound: (address: string | undefined) => void): void {
  ask({ lookup: name }, (told, done) => {
    done();
    if ("refused" in told) complain(told.refused);
    if (!("addresses" in told)) return onFound(undefined);
    const host = name.toLowerCase();
    if (!addresses.has(host)) giveAddress(host);
    const fitting = listed.filter(
      ({ kind, name: domain }) => kind === "any" || (kind === "below" && host.endsWith(`.${domain}`)),
    );
    const listening = fitting.map(({ port }) => listenFor({ name: host, port }));
    void Promise.all(listening).then(
      () => onFound(addresses.get(host)),
      () => onFound(undefined),
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

/** `question`: the message up to the end of its question. Without an address, there is no such name. */
function answerTo(question: Buffer, kind: number, address: string | undefined): Buffer {
  const isAnswered = address !== undefined && kind === A;
  const record = Buffer.from([0xc0, 12, 0, A, 0, 1, 0, 0, 0, 0, 0, 4, ...(address ?? "").split(".").map(Number)]);
  const answer = Buffer.concat([Buffer.alloc(2), question, ...(isAnswered ? [record] : [])]);
  answer.writeUInt16BE(answer.length - 2, 0);
  answer.writeUInt16BE(address === undefined ? NO_SUCH_NAME : FOUND, 4);
  answer.writeUInt16BE(isAnswered ? 1 : 0, 8);
  answer.fill(0, 10, 14);
  return answer;
}

const A = 1;
/** An answer, recursion wanted and available; and the same with `NXDOMAIN`. */
const [FOUND, NO_SUCH_NAME] = [0x8180, 0x8183] as const;

/** HTTP as it is spoken to proxies: `CONNECT host:port`, or a request with a whole URL, one on each connection. */
function onProxied(client: Socket): void {
  if (!keep(client)) return;
  client.setTimeout(HEAD_MS, () => client.destroy());
  let read = Buffer.alloc(0);
  const onData = (chunk: Buffer): void => {
    read = Buffer.concat([read, chunk]);
    const end = read.indexOf("\r\n\r\n");
    if (end < 0 && read.length <= HEAD_BYTES_MAX) return;
    client.off("data", onData);
    client.pause();
    client.setTimeout(0);
    const rest = read.subarray(end + 4);
    const asking = end < 0 ? undefined : readHead(read.subarray(0, end).toString("latin1"));
    if (!asking || asking.host.length > HOST_UNITS_MAX || asking.port < 1 || asking.port > 65_535)
      return void client.end(response(400, "This is no request for a proxy"));
    forward(client, {
      ...asking,
      first: Buffer.concat([Buffer.from(asking.first, "latin1"), rest]),
      refused: responseTo,
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
  const kept = fields.filter((field) => !/^(?:proxy-[a-z-]*|connection|keep-alive)[ \t]*:/i.test(field));
  const first = [`${method} ${url.pathname}${url.search} HTTP/1.1`, ...kept, "Connection: close", "", ""].join("\r\n");
  return { host: url.hostname.replace(/^\[|\]$/g, ""), port: url.port === "" ? 80 : Number(url.port), first };
}

function responseTo(why: string, code: string): string {
  return response(code === "EACCES" ? 403 : 502, why);
}

function response(status: keyof typeof statuses, why: string): string {
  const fields = ["Content-Type: text/plain; charset=utf-8", `Content-Length: ${Buffer.byteLength(why) + 1}`];
  return [`HTTP/1.1 ${status} ${statuses[status]}`, ...fields, "Connection: close", "", `${why}\n`].join("\r\n");
}

const RELAY_ENDED = "the relay of this Berth has ended";
const statuses = { 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway" } as const;
const ESTABLISHED = "HTTP/1.1 200 Connection established\r\n\r\n";
const OPTIONS = { allowHalfOpen: true };
/** More connections of scripts than the relay gives to anybody are closed at once. */
const CLIENTS_MAX = 128;
const BACKLOG = 64;
const LISTENERS_MAX = 128;
/** The most hosts that have an address here. */
const NAMES_MAX = 4_096;
const HEAD_BYTES_MAX = 16 * 1024;
const HOST_UNITS_MAX = 253;
const HEAD_MS = 10_000;
const COMPLAINTS_MAX = 20;
/** How long it may take to hand on what a script had sent. */
const LEAVING_MS = 500;
const AGAIN_MS = 100;
const TRIES = 20;
/** As a shell reports a process that was killed. */
const KILLED = 137;

ask({ listed: true }, (told, done) => {
  done();
  if (!("hosts" in told)) return fail("refused" in told ? told.refused : "the relay does not say what is listed");
  void open(told.hosts).then(start, (error: Error) => fail(error.message));
});
