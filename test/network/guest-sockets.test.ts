import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { createServer as createTls } from "node:tls";
import { apiOf, type Api } from "../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";
import { certificateFile, keyFile } from "../support/certificate.ts";
import { GUESTS } from "../support/guests.ts";
import { commandOf, descendants } from "../support/processes.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { takesLessThan, until } from "../support/until.ts";

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
export async function failed(how: string, host: string, port: number): Promise<Failed> {
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
/** Waits until that is over, in the same call. */
export async function hold(host: string, port: number): Promise<string[]> {
  await ask(host, port, "held");
  await new Promise((resolve) => kept!.once("close", resolve));
  return told;
}

/** Sends a secret to whoever listens. */
export async function signIn(host: string, port: number, context: import("berth").ToolContext): Promise<string> {
  return ask(host, port, String(await context.secret("PASSWORD")));
}

/** Receives as much as it is sent, and says how much. */
export async function receive(host: string, port: number, bytes: number): Promise<number> {
  let received = 0;
  await new Promise((resolve, reject) => {
    const socket = net.connect(port, host).on("error", reject).on("close", resolve);
    socket.on("data", (chunk) => { received += chunk.length; if (received >= bytes) socket.destroy(); });
  });
  return received;
}

/** Sends for as long as the peer takes it; tells how many bytes are on their way when it takes no more. */
export async function pour(host: string, port: number): Promise<number> {
  const socket = net.connect(port, host).on("error", () => {});
  await new Promise((resolve) => socket.once("connect", resolve));
  const chunk = Buffer.alloc(256 * 1024);
  const isDrained = (): Promise<boolean> => new Promise((resolve) => {
    const timer = setTimeout(resolve, 2_000, false);
    socket.once("drain", () => { clearTimeout(timer); resolve(true); });
  });
  let bytes = 0;
  while (bytes < 64 * 1024 * 1024) {
    bytes += chunk.length;
    if (!socket.write(chunk) && !(await isDrained())) break;
  }
  socket.destroy();
  return bytes;
}

/** Opens as many connections as are wanted, at once. */
export async function openMany(host: string, port: number, count: number): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  const sockets: net.Socket[] = [];
  await Promise.all(Array.from({ length: count }, () => new Promise<void>((resolve) => {
    const end = (what: string) => { outcomes[what] = (outcomes[what] ?? 0) + 1; resolve(); };
    sockets.push(net.connect(port, host, () => end("open")).on("error", (error: any) => end(error.code)));
  })));
  for (const socket of sockets) socket.destroy();
  return outcomes;
}
/** The host's own fetch. */
export async function fetched(url: string): Promise<string> { return (await fetch(url)).text(); }
`;

const listening = (server: Server, host = "127.0.0.1"): Promise<number> =>
  new Promise((resolve) => server.listen(0, host, () => resolve((server.address() as AddressInfo).port)));

const guests = GUESTS;

describe(`the sockets of ${guests} guests`, () => {
  const servers: Server[] = [];
  const sockets = new Set<Socket>();
  const received: string[] = [];
  let berth: TestBerth;
  let api: Api;
  let port: number;
  let entry: { definition: string; network: string[]; secrets: string[] };
  let onConnection: (socket: Socket) => void;
  const echoes = (socket: Socket): void => {
    socket.on("data", (chunk) => received.push(String(chunk)));
    socket.pipe(socket);
  };

  before(async () => {
    onConnection = echoes;
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket)).on("error", () => {});
      onConnection(socket);
    });
    port = await listening(server);
    servers.push(server);
    const network = [`127.0.0.1:${port}`, `localhost:${port}`, "db.invalid:5432"];
    const mcps = { guest: { definition: "guest.ts", network, secrets: ["PASSWORD"] } };
    berth = await startTestBerth({
      texts: { "guest.ts": GUEST, "offline.ts": GUEST },
      mcps,
      env: { BERTH_GUESTS: guests, BERTH_PRIVATE_HOSTS: "localhost" },
    });
    api = apiOf(berth);
    const { body } = await api.send("GET", "/entries/guest");
    entry = JSON.parse(body.files.guest as string) as typeof entry;
  });
  after(async () => {
    await berth.close();
    for (const socket of sockets) socket.destroy();
    for (const server of servers) server.close();
  });

  // oxlint-disable-next-line typescript/no-explicit-any -- a result has any shape
  const ask = async (tool: string, args: object = {}, name = "guest"): Promise<any> => {
    const result = await call(`${berth.url}/mcp/${name}`, tool, args as Record<string, unknown>);
    return result.structuredContent?.result ?? result.structuredContent ?? result.content?.[0]?.text ?? result;
  };
  const here = () => ({ host: "127.0.0.1", port });
  const save = async (changes: object): Promise<void> => {
    const { status, body } = await api.put("/entries/guest?allow_breaking=1", JSON.stringify({ ...entry, ...changes }));
    assert.ok(status < 300, JSON.stringify(body));
  };
  const listed = (...more: string[]): Promise<void> => save({ network: [...entry.network, ...more] });

  it("C8 reach what their entry lists, as any program does", async () => {
    assert.equal(await ask("echo", { ...here(), text: "hello" }), "hello");
    assert.equal(await ask("echo", { host: "localhost", port, text: "hello" }), "hello");
    assert.deepEqual(await ask("facts", here()), [
      true,
      true,
      "opening",
      false,
      false,
      "open",
      "127.0.0.1",
      port,
      "IPv4",
    ]);
  });

  it("C8 reach nothing else, and are told what to add to the entry", async () => {
    const other = { host: "example.org", port: 5432 };
    for (const how of ["net", "later", "tls", "http", "https"]) {
      assert.deepEqual(await ask("failed", { how, ...other }), {
        code: "EACCES",
        message:
          'example.org:5432 may not be reached: "network" of the entry "guest" in mcps does not list it: add "example.org:5432"',
      });
      assert.match(
        (await ask("failed", { how, ...here() }, "offline")).message,
        /the entry "offline" in mcps lists no "network"; add "network": \["127\.0\.0\.1:\d+"\]$/,
      );
    }
    assert.equal((await ask("failed", { how: "net", host: "127.0.0.1", port: 1 })).code, "EACCES");
    for (const how of ["local", "listen", "serve"]) {
      assert.match((await ask("failed", { how, ...here() })).message, /Guest code (cannot listen|has no local)/, how);
    }
  });

  it("C8 look up names of listed hosts, and no others", async () => {
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
    assert.match((await ask("failed", { how: "mx", host: "localhost", port: 1 })).message, /addresses only/);
    const { code } = await ask("failed", { how: "net", host: "db.invalid", port: 5432 });
    assert.equal(code, "ENOTFOUND");
  });

  it("C8 make requests by Node's own clients, and the host's fetch opens the same private hosts", async () => {
    const web = createHttp((request, response) => response.end(`${request.method} ${request.headers.host}`));
    const at = await listening(web);
    try {
      await listed(`localhost:${at}`);
      assert.equal(await ask("get", { url: `http://localhost:${at}/` }), `200 GET localhost:${at}`);
      assert.equal(await ask("fetched", { url: `http://localhost:${at}/` }), `GET localhost:${at}`);
    } finally {
      web.close();
    }
  });

  it("C8 follow no redirect to what is private or not listed", async () => {
    let requests = 0;
    const web = createHttp((request, response) => {
      requests++;
      response.writeHead(307, { Location: decodeURIComponent(request.url!.slice(1)) }).end();
    });
    const at = await listening(web);
    try {
      await listed(`localhost:${at}`);
      const targets = [
        "http://169.254.169.254/",
        `http://127.0.0.1:${at}/`,
        `http://[::1]:${at}/`,
        "http://example.org/",
      ];
      for (const [seen, to] of targets.entries()) {
        const said = await ask("fetched", { url: `http://localhost:${at}/${encodeURIComponent(to)}` });
        assert.match(said, /does not list it/, to);
        assert.equal(requests, seen + 1);
      }
    } finally {
      web.close();
    }
  });

  it("C8 do not reach Berth itself, however it is named", async () => {
    const own = Number(new URL(berth.url).port);
    await listed(`127.0.0.1:${own}`, `localhost:${own}`);
    for (const host of ["127.0.0.1", "localhost"]) {
      assert.match((await ask("failed", { how: "net", host, port: own })).message, /it is Berth itself$/);
      assert.match(await ask("fetched", { url: `http://${host}:${own}/` }), /it is Berth itself$/);
    }
  });

  it("C8 speak TLS from end to end, and refuse a certificate that does not fit", async () => {
    const ca = readFileSync(certificateFile, "utf8");
    const secure = createTls(
      { key: readFileSync(keyFile), cert: ca },
      (socket) => void socket.on("error", () => {}).pipe(socket),
    );
    const at = await listening(secure);
    try {
      await listed(`localhost:${at}`);
      const speak = (servername: string, upgrades: boolean, trusted = ca) =>
        ask("speakTls", { host: "localhost", port: at, servername, ca: trusted, upgrades });
      for (const upgrades of [false, true]) {
        assert.equal(await speak("db.test", upgrades), "hello true");
        assert.equal(await speak("other.test", upgrades), "ERR_TLS_CERT_ALTNAME_INVALID");
        assert.equal(await speak("db.test", upgrades, ""), "DEPTH_ZERO_SELF_SIGNED_CERT");
      }
      const web = await ask("get", { url: `https://localhost:${at}/`, ca: "" });
      assert.match(web, /^DEPTH_ZERO_SELF_SIGNED_CERT /);
    } finally {
      secure.close();
    }
  });

  it("C8 keep a connection from one call to the next, until what they may reach changes", async () => {
    await takesLessThan(1_000, async () => {
      await listed();
      await until(() => sockets.size === 0, "earlier connections are over");
      received.length = 0;
      for (const text of ["one", "two"]) assert.equal(await ask("ask", { ...here(), text }), text);
      assert.equal(sockets.size, 1, "both calls used one connection");
      const held = ask("hold", here());
      await until(() => received.includes("held"), "a call holds it");
      const [peer] = sockets;
      const cut = new Promise((resolve) => peer!.once("close", resolve));
      await save({ network: ["db.invalid:5432"] });
      const savedAt = performance.now();
      await cut;
      const tookMs = performance.now() - savedAt;
      assert.deepEqual(await held, ["ECONNRESET", "close"], "the call under way is told");
      assert.match((await ask("failed", { how: "net", ...here() })).message, /does not list it/);
      return tookMs;
    });
    await listed();
    assert.equal(await ask("ask", { ...here(), text: "three" }), "three");
  });

  it("C8 use a secret's new value on the next call, and no connection that was opened with the old one", async () => {
    const set = (value: string) => api.send("PUT", "/secrets/PASSWORD", value);
    await takesLessThan(1_000, async () => {
      assert.ok((await set("first-password")).status < 300);
      await until(() => sockets.size === 0, "earlier connections are over");
      assert.equal(await ask("signIn", here()), "first-password");
      const [peer] = sockets;
      const cut = new Promise((resolve) => peer!.once("close", resolve));
      assert.ok((await set("second-password")).status < 300);
      const setAt = performance.now();
      await cut;
      return performance.now() - setAt;
    });
    assert.equal(await ask("signIn", here()), "second-password");
    assert.equal(sockets.size, 1);
  });

  it("C8 open no more connections than their process may have, however often they try", async () => {
    const before = sockets.size;
    const outcomes = await ask("openMany", { ...here(), count: 100 });
    assert.deepEqual(Object.keys(outcomes).sort(), ["EMFILE", "open"]);
    assert.ok(outcomes.open <= 64, JSON.stringify(outcomes));
    for (let round = 0; round < 20; round++) await ask("openMany", { ...here(), count: 100 });
    await until(() => sockets.size === before, "all of them are over");
    assert.equal(await ask("echo", { ...here(), text: "still here" }), "still here");
  });

  it("C8 take no more than they read from a peer that floods, while others are answered", async () => {
    onConnection = (socket) => {
      const chunk = Buffer.alloc(256 * 1024);
      const flood = (): void => {
        while (!socket.destroyed && socket.write(chunk));
      };
      socket.on("drain", flood);
      flood();
    };
    const bytes = 64 * 1024 * 1024;
    const floods = Promise.all([1, 2].map(() => ask("receive", { ...here(), bytes })));
    for (let n = 0; n < 20; n++) assert.match((await ask("failed", { how: "local", ...here() })).message, /local/);
    for (const received of await floods) assert.ok(received >= bytes);
    onConnection = echoes;
  });

  it("C8 hand no more to a peer that never reads than has room on the way", async () => {
    onConnection = (socket) => void socket.pause();
    const bytes = await ask("pour", here());
    assert.ok(bytes < 32 * 1024 * 1024, `${bytes} bytes are on their way`);
    onConnection = echoes;
    assert.equal(await ask("echo", { ...here(), text: "still here" }), "still here");
  });

  it("C8 are counted by tenant", async () => {
    const figures = [
      /^berth_guest_sockets_opened_total\{tenant="default"\} [1-9]/m,
      /^berth_guest_sockets_refused_total\{tenant="default"\} [1-9]/m,
      /^berth_guest_socket_received_bytes_total\{tenant="default"\} \d{9,}/m,
      /^berth_guest_socket_open_seconds_total\{tenant="default"\} \d/m,
    ];
    await until(async () => {
      const text = await (await fetch(`${berth.url}/metrics`)).text();
      return figures.every((figure) => figure.test(text));
    }, "the relay has told of all of them");
  });

  it("C8 connect again after the relay has ended", async () => {
    assert.equal(await ask("ask", { ...here(), text: "before" }), "before");
    const relays = descendants().filter((pid) => /network\/relay-child\.js/.test(commandOf(pid)));
    assert.equal(relays.length, 1);
    process.kill(relays[0]!, "SIGKILL");
    await until(async () => (await ask("fate")).includes("close"), "the guest hears of it");
    // A guest waits two seconds for the next relay, which may take longer to start.
    await until(async () => (await ask("echo", { ...here(), text: "after" })) === "after", "there is another relay");
  });

  if (guests === "trusted") return;

  it("C8 of another tenant reach private hosts by the operator's word alone", async () => {
    const mcps = JSON.stringify({ code: { network: [`localhost:${port}`, `127.0.0.1:${port}`] } });
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { code: GUEST }, variables: { mcps } }));
    const askAcme = async (tool: string, args: object) => {
      const result = await call(`${berth.url}/t/acme/mcp/code`, tool, args as Record<string, unknown>);
      return result.structuredContent?.result ?? result.structuredContent ?? result.content?.[0]?.text ?? result;
    };
    assert.match(
      (await askAcme("failed", { how: "net", ...here() })).message,
      /has no public address; whoever runs this Berth can open it with BERTH_PRIVATE_HOSTS=127\.0\.0\.1:\d+$/,
    );
    assert.equal(await askAcme("echo", { host: "localhost", port, text: "private" }), "private");
  });
});
