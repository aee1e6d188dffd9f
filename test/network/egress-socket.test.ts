import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { clock } from "../../src/lib/clock.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { parseAllowedHost } from "../../src/network/allow-list.ts";
import { EgressSocket } from "../../src/network/egress-socket.ts";
import type { SocketGrant, SocketLimits, RelayReply } from "../../src/network/relay-wire.ts";
import { TenantSockets } from "../../src/network/tenant-sockets.ts";
import { runs } from "../support/fast-check.ts";
import { listening } from "../support/listening.ts";
import { lower } from "../support/lowered-limits.ts";
import { temporaryFolder } from "../support/suite.ts";
import { until } from "../support/until.ts";

/** A guest's way out, spoken to as hostile code would: without the runner's own client. */
describe("the egress socket of a guest", () => {
  const folder = temporaryFolder();
  let server: Server;
  let port: number;
  let onConnection: (socket: Socket) => void;
  const reached: Socket[] = [];
  const opened: EgressSocket[] = [];
  const asking = new Set<Socket>();

  before(async () => {
    server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on("error", () => {});
      reached.push(socket);
      onConnection(socket);
    });
    port = await listening(server);
  });
  beforeEach(() => {
    onConnection = (socket) => socket.pipe(socket);
  });
  afterEach(() => {
    for (const door of opened.splice(0)) door.close();
    for (const socket of [...asking, ...reached.splice(0)]) socket.destroy();
    asking.clear();
  });
  after(() => server.close());

  interface Opened {
    readonly grant?: Partial<SocketGrant> & { list?: readonly string[] };
    readonly limits?: Partial<SocketLimits>;
    readonly resolve?: (host: string) => Promise<readonly string[]>;
    readonly ownPort?: number;
    readonly tenant?: TenantSockets;
  }

  const open = async ({ grant: { list, ...grant } = {}, limits: some, ...options }: Opened = {}) => {
    const limits = { ...defaultLimits, ...some };
    const hosts = (list ?? [`127.0.0.1:${port}`]).map((text) => {
      const host = parseAllowedHost(text);
      return typeof host === "string" ? assert.fail(host) : host;
    });
    const tenant = options.tenant ?? new TenantSockets(limits);
    const door = new EgressSocket({
      path: join(folder, `door${opened.length}`),
      grant: { tenant: "acme", server: "report", hosts, privateToo: true, privateHosts: [], ...grant },
      ...options,
      tenant,
    });
    const path = join(folder, `door${opened.length}`);
    opened.push(door);
    await door.listen();
    return { door, path, tenant };
  };

  /** Asks, and keeps the connection open; resolves with the first line of the answer, or undefined where there is none. */
  const ask = (path: string, asked: object | string) => {
    const socket = connect({ path });
    asking.add(socket);
    socket.on("error", () => {});
    let text = "";
    const lines: RelayReply[] = [];
    socket.on("data", (chunk) => {
      text += chunk.toString();
      for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n")) {
        lines.push(JSON.parse(text.slice(0, at)) as RelayReply);
        text = text.slice(at + 1);
      }
    });
    socket.write(typeof asked === "string" ? asked : `${JSON.stringify(asked)}\n`);
    const said = new Promise<RelayReply | undefined>((resolve) => {
      socket.on("data", () => lines.length > 0 && resolve(lines[0]));
      socket.on("close", () => resolve(lines[0]));
    });
    return { socket, said, lines };
  };

  const wantTo = (path: string, host: string, at = port) => ask(path, { connect: { host, port: at } });
  const refusalOf = async (path: string, host: string, at = port): Promise<string> => {
    const told = await wantTo(path, host, at).said;
    assert.ok(told && "refused" in told, JSON.stringify(told));
    return `${told.code}: ${told.refused}`;
  };
  const reach = async (path: string, host = "127.0.0.1", at = port) => {
    const wanted = wantTo(path, host, at);
    const told = await wanted.said;
    assert.ok(told && "socket" in told, JSON.stringify(told));
    const socket = connect({ path: join(folder, told.socket), allowHalfOpen: true });
    asking.add(socket);
    socket.on("error", () => {});
    return { ...wanted, data: socket, told };
  };
  const textOf = async (socket: Socket): Promise<string> => {
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    return text;
  };
  const ended = (socket: Socket): Promise<void> =>
    socket.closed
      ? Promise.resolve()
      : new Promise((resolve) => ["end", "close"].map((event) => socket.once(event, () => resolve())));

  it("refuses hosts and ports that are not listed, in whatever form, without looking them up", async () => {
    const { path, tenant } = await open({ resolve: () => assert.fail("it is looked up") });
    const hosts = ["evil.test", "127.0.0.2", "localhost", "::1", "::ffff:127.0.0.1"];
    const words = " 127.0.0.1/x 127.0.0.1@evil.test evil.test#127.0.0.1 127.0.0.1%0 * [::1]";
    const strange = ["a b", ...words.split(" ")];
    for (const host of hosts) assert.match(await refusalOf(path, host), /^EACCES: .*does not list it: add "/, host);
    for (const host of strange) assert.match(await refusalOf(path, host), /^EACCES: /, host);
    assert.match(await refusalOf(path, "127.0.0.1", port - 1), /does not list it/);
    assert.equal(reached.length, 0);
    assert.equal(tenant.use().refused, hosts.length + strange.length + 1);
  });

  it("resolves a host for each connection, and connects only to an address that it checked", async () => {
    let addresses = ["127.0.0.9", "127.0.0.1", "169.254.169.254"];
    const privateHosts = [{ name: "db.internal", port }];
    const { path } = await open({
      grant: { list: [`db.internal:${port}`, `web.example.org:${port}`], privateToo: false, privateHosts },
      resolve: async () => addresses,
    });
    const { told } = await reach(path, "db.internal");
    assert.ok("address" in told && told.address === "127.0.0.1");
    for (const [address, why] of [
      ["169.254.169.254", /this address can never be reached/],
      ["fe80::1%lo", /no public address/],
    ] as const) {
      addresses = [address];
      assert.match(await refusalOf(path, "db.internal"), why, address);
    }
    addresses = ["127.0.0.1"];
    const openable =
      /it has no public address; whoever runs .* can open it with BERTH_PRIVATE_HOSTS=web\.example\.org:\d+$/;
    assert.match(await refusalOf(path, "web.example.org"), openable);
    assert.equal(reached.length, 1);
  });

  it("resolves listed hosts only, and then connects to their addresses at their ports", async () => {
    const names: string[] = [];
    const { path } = await open({
      grant: { list: [`db.internal:${port}`], privateToo: false, privateHosts: [{ name: "db.internal" }] },
      resolve: async (host) => {
        names.push(host);
        return ["127.0.0.1"];
      },
    });
    assert.match(await refusalOf(path, "127.0.0.1"), /does not list it/);
    const told = await ask(path, { lookup: "evil.test" }).said;
    assert.match(JSON.stringify(told), /evil\.test cannot be looked up: .*the entry \\"report\\".*does not list it/);
    assert.deepEqual(await ask(path, { lookup: "DB.internal" }).said, { addresses: ["127.0.0.1"] });
    const { data } = await reach(path, "127.0.0.1");
    data.end("x");
    assert.equal(await textOf(data), "x");
    assert.match(await refusalOf(path, "127.0.0.1", port - 1), /does not list it/);
    assert.deepEqual(names, ["db.internal"]);
  });

  it("lists the allowed hosts", async () => {
    const { path } = await open({ grant: { list: ["*.example.org"] } });
    const hosts = [{ kind: "below", name: "example.org", port: 443 }];
    assert.deepEqual(await ask(path, { listed: true }).said, { hosts });
  });

  it("closes connections with malformed requests, and still serves others", async () => {
    const { path, tenant } = await open();
    const garbage = [
      "\n",
      "null\n",
      "[]\n",
      "{}\n",
      '{"connect":1}\n',
      '{"connect":{"host":1,"port":1}}\n',
      '{"listed":1}\n',
      '{"connect":{"host":"127.0.0.1","port":0}}\n',
      '{"lookup":[]}\n',
      "x".repeat(100_000),
      "\0\xff\n",
    ];
    for (const text of garbage) assert.equal(await ask(path, text).said, undefined, text.slice(0, 40));
    const silent = ask(path, "");
    const { data } = await reach(path);
    data.end("x");
    assert.equal(await textOf(data), "x");
    silent.socket.destroy();
    await until(() => tenant.use().open === 0, "nothing is left open");
  });

  it("limits the connections of a process and of its tenant", async (t) => {
    t.after(lower({ openSockets: 3, openSocketsPerTenant: 4 }));
    const tenant = new TenantSockets(defaultLimits);
    const one = await open({ tenant });
    const other = await open({ tenant });
    const first = await reach(one.path);
    for (let n = 0; n < 2; n++) await reach(one.path);
    assert.match(await refusalOf(one.path, "127.0.0.1"), /^EMFILE: 3 connections of /);
    await reach(other.path);
    assert.match(await refusalOf(other.path, "127.0.0.1"), /^EMFILE: 4 connections of .*tenant/);
    first.data.destroy();
    first.socket.destroy();
    await until(() => tenant.open === 3, "one is over");
    await reach(other.path);
  });

  it("survives hundreds of simultaneous connection attempts of one guest", async (t) => {
    t.after(lower({ openSockets: 8 }));
    const { path, tenant } = await open();
    let peak = 0;
    onConnection = () => (peak = Math.max(peak, tenant.open));
    for (let round = 0; round < runs(3); round++) {
      await Promise.all(Array.from({ length: 200 }, () => wantTo(path, "127.0.0.1").said));
      for (const socket of asking) socket.destroy();
      asking.clear();
    }
    await until(() => tenant.use().open === 0, "nothing is left open");
    assert.ok(peak > 0 && peak <= 8, `${peak} were open at once`);
    await reach(path);
  });

  it("hands each connection to one client, once, and drops it when its requester leaves", async () => {
    const { path, tenant } = await open();
    const { socket, told, data } = await reach(path);
    data.write("x");
    await until(() => readdirSync(folder).length === 1, "its socket is gone once it is taken");
    assert.ok("socket" in told);
    const again = connect({ path: join(folder, told.socket) });
    await new Promise<void>((resolve) => again.once("error", () => resolve()));
    const unwanted = wantTo(path, "127.0.0.1");
    await unwanted.said;
    assert.equal(readdirSync(folder).length, 2);
    unwanted.socket.destroy();
    await until(() => readdirSync(folder).length === 1 && tenant.open === 1, "what nobody took is gone");
    socket.destroy();
  });

  it("delivers what a guest sent before it closed, though its peer keeps sending", async () => {
    const received: Promise<string>[] = [];
    onConnection = (peer) => {
      received.push(textOf(peer).catch(() => "cut"));
      const flood = (): boolean => !peer.destroyed && peer.write(Buffer.alloc(65_536));
      peer.on("drain", flood);
      while (flood());
    };
    const { path, tenant } = await open();
    const { socket, data } = await reach(path);
    data.write("last words");
    await until(() => tenant.use().sentBytes === 10, "it is sent");
    data.destroy();
    socket.destroy();
    await until(() => tenant.use().open === 0, "it is over");
    assert.equal(tenant.use().sentBytes, 10);
    assert.match((await received[0])!, /^(last words|cut)$/);
  });

  it("buffers what a host sends before the guest takes the connection, with one address or several", async () => {
    onConnection = (peer) => peer.end("welcome");
    const grant = { list: [`127.0.0.1:${port}`, `both.test:${port}`] };
    const { path } = await open({ grant, resolve: async () => ["::1", "127.0.0.1"] });
    for (const host of ["127.0.0.1", "both.test"]) {
      const { said } = wantTo(path, host);
      const told = await said;
      assert.ok(told && "socket" in told, JSON.stringify(told));
      await until(() => reached.at(-1)!.writableFinished, "it has said all");
      const data = connect({ path: join(folder, told.socket) });
      assert.equal(await textOf(data), "welcome");
    }
  });

  it("carries and counts every byte in both directions between slow readers", async () => {
    const sent = randomBytes(4 * 1024 * 1024);
    const slowly = async (socket: Socket): Promise<Buffer> => {
      const chunks: Buffer[] = [];
      for await (const chunk of socket) {
        chunks.push(chunk as Buffer);
        await new Promise((resolve) => setImmediate(resolve));
      }
      return Buffer.concat(chunks);
    };
    let received!: Promise<Buffer>;
    onConnection = (peer) => {
      received = slowly(peer);
      peer.end(sent);
    };
    const { path, tenant } = await open();
    const { data } = await reach(path);
    data.end(sent);
    const sides = [await slowly(data), await received];
    for (const side of sides) assert.ok(side.equals(sent), `${side.length} bytes`);
    await until(() => tenant.use().open === 0, "the connection is over");
    const { opened, sentBytes, receivedBytes } = tenant.use();
    assert.deepEqual([opened, sentBytes, receivedBytes], [1, sent.length, sent.length]);
  });

  it("reports a name without address, a refused connection, and a slow name server", async (t) => {
    const list = [`gone.test:${port}`, "127.0.0.1:1"];
    const { path, tenant } = await open({ grant: { list }, resolve: async () => [] });
    assert.match(
      await refusalOf(path, "gone.test"),
      /^ENOTFOUND: gone\.test:\d+ may not be reached: the host has no address/,
    );
    assert.equal(await refusalOf(path, "127.0.0.1", 1), "ECONNREFUSED: connect ECONNREFUSED 127.0.0.1:1");
    t.after(lower({ socketConnectMs: 50 }));
    const never = await open({ grant: { list }, resolve: () => new Promise(() => {}), tenant });
    assert.match(await refusalOf(never.path, "gone.test"), /^ETIMEDOUT: .*longer than/);
    assert.equal(tenant.open, 0);
  });

  it("closes an idle connection, even if one side never reads, and reports why", async (t) => {
    onConnection = (peer) => void peer.pause();
    t.after(lower({ socketIdleMs: 200 }));
    const { path, tenant } = await open();
    const { data, lines } = await reach(path);
    const chunk = Buffer.alloc(1024 * 1024);
    let isWritten = 0;
    const flood = (): void => void data.write(chunk, (error) => !error && isWritten++ < 1_000 && flood());
    flood();
    await ended(data);
    assert.match(JSON.stringify(lines[1]), /ETIMEDOUT: nothing was sent or received for 200 ms/);
    assert.ok(isWritten < 100, `${isWritten} MB went to a peer that reads nothing`);
    assert.equal(tenant.use().open, 0);
  });

  it("reports a reset by the peer as a reset", async () => {
    const { path } = await open();
    const { data, lines } = await reach(path);
    data.resume().write("x");
    await until(() => reached.length === 1, "it is there");
    reached[0]!.resetAndDestroy();
    await ended(data);
    assert.deepEqual(lines[1], { ended: "ECONNRESET" });
  });

  it("reports a reset that happened before the guest took the connection", async () => {
    onConnection = (peer) => peer.resetAndDestroy();
    const { path, tenant } = await open();
    for (let tries = 0; tries < runs(16); tries++) {
      const { socket, said, lines } = wantTo(path, "127.0.0.1");
      const told = await said;
      if (told && "socket" in told) {
        // Half of them are late.
        await until(() => reached.length === tries + 1 && (tries % 2 === 0 || reached[tries]!.closed), "it is cut off");
        for (let turns = 0; turns < tries % 4; turns++) await new Promise(setImmediate);
        await ended(connect({ path: join(folder, told.socket) }).on("error", assert.fail));
        await ended(socket);
        assert.deepEqual(lines[1], { ended: "ECONNRESET" });
      } else assert.deepEqual(told && "refused" in told && told.code, "ECONNRESET");
    }
    assert.equal(tenant.open, 0);
  });

  it("closes all connections immediately, taken or not, and reports why", async () => {
    onConnection = (peer) => peer.write("first");
    const { door, path, tenant } = await open();
    const [taken, untaken] = [await reach(path), wantTo(path, "127.0.0.1")];
    assert.ok("socket" in (await untaken.said)!);
    await once(taken.data, "data");
    door.close();
    assert.equal(tenant.open, 0);
    await Promise.all([...reached, taken.data, untaken.socket].map(ended));
    for (const { lines } of [taken, untaken])
      assert.match(JSON.stringify(lines[1]), /ECONNRESET: what this server may reach has changed/);
    assert.equal(await wantTo(path, "127.0.0.1").said, undefined);
  });

  it("limits the bytes per second of a tenant, and does not delay other tenants", async () => {
    const BYTES = 300_000;
    onConnection = (peer) => peer.end(Buffer.alloc(BYTES));
    const { path } = await open({ limits: { socketBytesPerSecondPerTenant: 1_000 } });
    const { data } = await reach(path);
    let received = 0;
    data.on("data", (chunk: Buffer) => (received += chunk.length));
    await once(data, "data");
    const other = await reach((await open()).path);
    assert.equal((await textOf(other.data)).length, BYTES);
    assert.ok(received < BYTES, `${received} bytes came in a moment`);
    data.on("data", () => clock.leap(100_000));
    clock.leap(100_000);
    await once(data, "end");
    assert.equal(received, BYTES);
  });

  it("counts small pieces at a minimum size, and has no rate limit at 0", () => {
    const GIB = 1024 ** 3;
    assert.ok(new TenantSockets(defaultLimits).receive(GIB) > 1_000);
    assert.equal(new TenantSockets({ socketBytesPerSecondPerTenant: 0 }).receive(GIB), 0);
    const tenant = new TenantSockets(defaultLimits);
    let restMs = 0;
    for (let piece = 0; piece < 100_000; piece++) restMs = tenant.receive(1);
    assert.ok(restMs > 1_000, `${restMs} ms of rest after so many pieces of one byte`);
    assert.equal(tenant.use().receivedBytes, 100_000);
  });
});
