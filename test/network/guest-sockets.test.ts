import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { type Socket, createServer } from "node:net";
import { after, before, describe, it } from "node:test";
import { createServer as createTls } from "node:tls";
import { apiOf, setNetwork } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { certificateFile, keyFile } from "../support/certificate.ts";
import { GUESTS } from "../support/guests.ts";
import { listening } from "../support/listening.ts";
import { commandOf, descendants } from "../support/processes.ts";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const GUEST = `
import net, { connect } from "node:net";
import tls from "node:tls";
import http from "node:http";
import https from "node:https";
import dns, { promises } from "node:dns";
import { promisify } from "node:util";

type Failed = { message: string; code: string };
const failedBy = (act: (done: (error?: any) => void) => void): Promise<Failed> => new Promise((resolve) => {
  act((error) => resolve(error ? { message: error.message, code: error.code } : { message: "it worked", code: "" }));
});

/** Sends a text and resolves with all that comes back. */
export async function echo(host: string, port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, host);
    let said = "";
    socket.setEncoding("utf8").on("data", (chunk) => (said += chunk)).on("error", reject);
    socket.on("end", () => resolve(said));
    socket.setNoDelay(true).setKeepAlive(true).ref();
    socket.write(text.slice(0, 2));
    socket.end(text.slice(2));
  });
}

/** Lists what a socket tells of itself before it is connected, and then. */
export async function facts(host: string, port: number): Promise<unknown[]> {
  const socket = connect({ port, host });
  const early = [socket.connecting, socket.pending, socket.readyState];
  await new Promise((resolve) => socket.once("ready", resolve));
  const late = [socket.connecting, socket.pending, socket.readyState, socket.remoteAddress, socket.remotePort, socket.remoteFamily];
  socket.destroy();
  return [...early, ...late];
}

/** Tells how something fails. */
export async function failed(how: string, host: string, port: number = 0): Promise<Failed> {
  switch (how) {
    case "later": return failedBy((done) => { const s = new net.Socket(); s.on("error", done); s.connect({ host, port }, () => done()); });
    case "net": return failedBy((done) => net.connect(port, host, () => done()).on("error", done));
    case "tls": return failedBy((done) => tls.connect(port, host, () => done()).on("error", done));
    case "http": return failedBy((done) => http.get({ host, port }, () => done()).on("error", done));
    case "https": return failedBy((done) => https.get({ host, port }, () => done()).on("error", done));
    case "local": return failedBy((done) => net.connect("/tmp/socket", () => done()).on("error", done));
    case "listen": return failedBy((done) => net.createServer().on("error", done).listen(0, () => done()));
    case "serve": return failedBy((done) => http.createServer().on("error", done).listen("/tmp/socket", () => done()));
    case "lookup": return failedBy((done) => dns.lookup(host, done));
    case "resolve": return failedBy((done) => dns.resolve4(host, done));
    case "mx": return failedBy((done) => dns.resolve(host, "MX", done as any));
  }
  throw new Error(how);
}

/** Every way to look a name up. */
export async function lookups(host: string): Promise<unknown[]> {
  return [
    await new Promise((resolve, reject) => dns.lookup(host, (error, ...found) => error ? reject(error) : resolve(found))),
    await new Promise((resolve, reject) => dns.lookup(host, { all: true }, (error, found) => error ? reject(error) : resolve(found))),
    await promisify(dns.lookup)(host, 4),
    await promises.lookup(host, { family: 4 }),
    await dns.promises.resolve4(host),
    await promises.lookup("127.0.0.9"),
  ];
}

/** A request by Node's own clients. */
export async function get(url: string, ca: string = ""): Promise<string> {
  return new Promise((resolve, reject) => {
    const { get } = url.startsWith("https:") ? https : http;
    get(url, { ca: ca || undefined, agent: url.startsWith("https:") ? new https.Agent({ keepAlive: true }) : undefined }, (response) => {
      let text = "";
      response.on("data", (chunk) => (text += chunk)).on("end", () => resolve(response.statusCode + " " + text)).on("error", reject);
    }).on("error", (error: any) => resolve((error.code ?? "") + " " + error.message));
  });
}

/** Speaks TLS, at once or on a connection that began without. */
export async function speakTls(host: string, port: number, servername: string, ca: string, upgrades: boolean): Promise<string> {
  const options = { host, port, servername, ca };
  const socket = upgrades ? net.connect(port, host) : undefined;
  if (socket) await new Promise((resolve) => socket.once("connect", resolve));
  return new Promise((resolve) => {
    const secure = tls.connect(socket ? { ...options, socket } : options);
    let text = "";
    secure.on("secureConnect", () => secure.end("hello")).on("data", (chunk) => (text += chunk));
    secure.on("end", () => resolve(text + " " + secure.authorized)).on("error", (error: any) => resolve(error.code));
  });
}

let kept: net.Socket | undefined;
let told: string[] = [];
/** One connection for all calls, as pools have. */
export async function ask(host: string, port: number, text: string): Promise<string> {
  kept ??= net.connect(port, host).on("error", (error: any) => told.push(error.code)).on("close", () => told.push("close"));
  kept.write(text);
  return new Promise((resolve) => kept!.once("data", (chunk) => resolve(String(chunk))));
}
/** Tells what became of it. */
export async function fate(): Promise<string[]> { return told; }
/** Receives as much as it is sent, and says how much. */
export async function receive(host: string, port: number, bytes: number): Promise<number> {
  let received = 0;
  await new Promise((resolve, reject) => {
    const socket = net.connect(port, host).on("error", reject).on("close", resolve);
    socket.on("data", (chunk) => { received += chunk.length; if (received >= bytes) socket.destroy(); });
  });
  return received;
}

/** The host's own fetch. */
export async function fetched(url: string): Promise<string> { return (await fetch(url)).text(); }
`;

describe(`the sockets of ${GUESTS} guests`, () => {
  const ca = readFileSync(certificateFile, "utf8");
  const sockets = new Set<Socket>();
  const echo = (socket: Socket): void => void socket.pipe(socket);
  let onConnection = echo;
  const echoing = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
    onConnection(socket);
  });
  const web = createHttp((request, response) => response.end(`${request.method} ${request.headers.host}`));
  const secure = createTls({ key: readFileSync(keyFile), cert: ca }, (socket) => echo(socket.on("error", () => {})));
  const servers = [echoing, web, secure];
  let [port, webPort, securePort] = [0, 0, 0];
  before(async () => {
    [port, webPort, securePort] = await Promise.all([listening(echoing), listening(web), listening(secure)]);
  });
  const berth = berthInSuite(() => {
    const names = [port, webPort, securePort].map((each) => `localhost:${each}`);
    const network = [`127.0.0.1:${port}`, "db.invalid:5432", ...names];
    return {
      texts: { "guest.ts": GUEST, "offline.ts": GUEST },
      mcps: { guest: { definition: "guest.ts", network } },
      env: { BERTH_GUESTS: GUESTS, BERTH_PRIVATE_HOSTS: "localhost" },
    };
  });
  after(() => {
    for (const socket of sockets) socket.destroy();
    for (const server of servers) server.close();
  });

  // oxlint-disable-next-line typescript/no-explicit-any -- a result has any shape
  const ask = async (tool: string, args: Record<string, unknown> = {}, at = "mcp/guest"): Promise<any> => {
    const result = await call(`${berth.url}/${at}`, tool, args);
    return result.structuredContent?.result ?? result.structuredContent ?? result.content?.[0]?.text ?? result;
  };
  const here = () => ({ host: "127.0.0.1", port });

  it("reach what their entry lists, as any program does", async () => {
    assert.equal(await ask("echo", { ...here(), text: "hello" }), "hello");
    assert.equal(await ask("echo", { host: "localhost", port, text: "hello" }), "hello");
    const facts = [true, true, "opening", false, false, "open", "127.0.0.1", port, "IPv4"];
    assert.deepEqual(await ask("facts", here()), facts);
  });

  it("reach nothing else, and report what to add to the entry", async () => {
    const other = { host: "example.org", port: 5432 };
    for (const how of ["net", "later", "tls", "http", "https"]) {
      assert.deepEqual(await ask("failed", { how, ...other }), {
        code: "EACCES",
        message:
          'example.org:5432 may not be reached: "network" of the entry "guest" in mcps does not list it: add "example.org:5432"',
      });
      assert.match(
        (await ask("failed", { how, ...here() }, "mcp/offline")).message,
        /the entry "offline" in mcps lists no "network"; add "network": \["127\.0\.0\.1:\d+"\]$/,
      );
    }
    assert.match(
      (await ask("failed", { how: "resolve", host: "example.org" }, "mcp/offline")).message,
      /^example\.org cannot be looked up: the entry "offline" .*; add "network": \["example\.org:<port>"\]$/,
    );
    for (const how of ["local", "listen", "serve"]) {
      assert.match((await ask("failed", { how, ...here() })).message, /Guest code (cannot listen|has no local)/, how);
    }
  });

  it("resolve listed hosts and no others", async () => {
    const found = await ask("lookups", { host: "localhost" });
    assert.deepEqual(found.slice(2), [
      { address: "127.0.0.1", family: 4 },
      { address: "127.0.0.1", family: 4 },
      ["127.0.0.1"],
      { address: "127.0.0.9", family: 4 },
    ]);
    for (const how of ["lookup", "resolve"]) {
      const { message } = await ask("failed", { how, host: "example.org", port: 1 });
      assert.match(message, /^example\.org cannot be looked up: "network" of the entry "guest"/);
    }
    assert.match(
      (await ask("failed", { how: "mx", host: "localhost", port: 1 })).message,
      /only addresses, and only of hosts/,
    );
    const { code } = await ask("failed", { how: "net", host: "db.invalid", port: 5432 });
    assert.equal(code, "ENOTFOUND");
  });

  it("serve Node.js's HTTP clients, and fetch reaches the same private hosts", async () => {
    const url = `http://localhost:${webPort}/`;
    assert.equal(await ask("get", { url }), `200 GET localhost:${webPort}`);
    assert.equal(await ask("fetched", { url }), `GET localhost:${webPort}`);
  });

  it("carry TLS end to end, and reject a wrong certificate", async () => {
    const speak = (servername: string, upgrades: boolean, trusted = ca) =>
      ask("speakTls", { host: "localhost", port: securePort, servername, ca: trusted, upgrades });
    for (const upgrades of [false, true]) {
      assert.equal(await speak("db.test", upgrades), "hello true");
      assert.equal(await speak("other.test", upgrades), "ERR_TLS_CERT_ALTNAME_INVALID");
    }
    const url = `https://localhost:${securePort}/`;
    assert.match(await ask("get", { url, ca: "" }), /^DEPTH_ZERO_SELF_SIGNED_CERT /);
  });

  it("apply backpressure to a flooding peer while other calls are answered", async () => {
    onConnection = (socket) => {
      const chunk = Buffer.alloc(256 * 1024);
      const flood = (): void => {
        while (!socket.destroyed && socket.write(chunk));
      };
      socket.on("drain", flood);
      flood();
    };
    const bytes = 16 * 1024 * 1024;
    const floods = Promise.all([1, 2].map(() => ask("receive", { ...here(), bytes })));
    for (let n = 0; n < 20; n++) assert.match((await ask("failed", { how: "local", ...here() })).message, /local/);
    for (const received of await floods) assert.ok(received >= bytes);
    onConnection = echo;
  });

  it("are counted by tenant", async () => {
    const figures = [
      /^berth_guest_sockets_opened_total\{tenant="default"\} [1-9]/m,
      /^berth_guest_sockets_refused_total\{tenant="default"\} [1-9]/m,
      /^berth_guest_socket_received_bytes_total\{tenant="default"\} \d{8,}/m,
      /^berth_guest_socket_open_seconds_total\{tenant="default"\} \d/m,
    ];
    await until(async () => {
      const text = await (await fetch(`${berth.url}/metrics`)).text();
      return figures.every((figure) => figure.test(text));
    }, "the relay has told of all of them");
  });

  it("keep a connection across calls, and reconnect after the relay has ended", async () => {
    await until(() => sockets.size === 0, "earlier connections are over");
    for (const text of ["one", "two"]) assert.equal(await ask("ask", { ...here(), text }), text);
    assert.equal(sockets.size, 1);
    const relays = descendants().filter((pid) => /network\/relay-child\.js/.test(commandOf(pid)));
    assert.equal(relays.length, 1);
    process.kill(relays[0]!, "SIGKILL");
    await until(async () => (await ask("fate")).includes("close"), "the guest hears of it");
    // A guest waits two seconds for the next relay, which may take longer to start.
    await until(async () => (await ask("echo", { ...here(), text: "after" })) === "after", "there is another relay");
  });

  it("do not reach Berth itself, however it is named", async () => {
    const own = Number(new URL(berth.url).port);
    await setNetwork(apiOf(berth), "guest", [`127.0.0.1:${own}`, `localhost:${own}`]);
    for (const host of ["127.0.0.1", "localhost"]) {
      assert.match((await ask("failed", { how: "net", host, port: own })).message, /it is Berth itself$/);
      assert.match(await ask("fetched", { url: `http://${host}:${own}/` }), /it is Berth itself$/);
    }
  });

  if (GUESTS === "trusted") return;

  it("of another tenant reach private hosts only where the operator opens them (C8)", async () => {
    const mcps = JSON.stringify({ code: { network: [`localhost:${port}`, `127.0.0.1:${port}`] } });
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { code: GUEST }, variables: { mcps } }));
    assert.match(
      (await ask("failed", { how: "net", ...here() }, "t/acme/mcp/code")).message,
      /has no public address; whoever runs this Berth can open it with BERTH_PRIVATE_HOSTS=127\.0\.0\.1:\d+$/,
    );
    assert.equal(await ask("echo", { host: "localhost", port, text: "private" }, "t/acme/mcp/code"), "private");
  });
});
