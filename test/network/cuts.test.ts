import assert from "node:assert/strict";
import { createServer as createHttp, type Server as HttpServer } from "node:http";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { rawBlock } from "../../src/lib/cid.ts";
import { apiOf, type Api } from "../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";
import { berth as command } from "../support/commands.ts";
import { GUESTS } from "../support/guests.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { takesLessThan, until } from "../support/until.ts";

/**
 * Whatever takes from a server what its connections need ends them within a second: as their peer sees it, from the
 * moment in which the change is acknowledged.
 */
const CUT_MS = 1_000;

const GUEST = `
import net from "node:net";
import type { ToolContext } from "berth";
let kept: net.Socket | undefined;
const ask = (port: number, text: string): Promise<string> => {
  kept ??= net.connect(port, "localhost").on("error", () => {}).on("close", () => (kept = undefined));
  kept.write(text);
  return new Promise((resolve, reject) => {
    kept!.once("data", (chunk) => resolve(String(chunk)));
    kept!.once("close", () => reject(new Error("closed")));
  });
};
/** Says its secret on a connection that it keeps. */
export async function say(port: number, context: ToolContext): Promise<string> {
  return ask(port, String(await context.secret("PASSWORD").catch(() => "none")));
}
/** Goes on for as long as it is let: on a socket, on an answer that does not end, and on requests. */
export async function flow(port: number, web: number): Promise<string> {
  await ask(port, "flows");
  const { body } = await fetch("http://localhost:" + web + "/");
  const read = (async () => { for await (const _ of body!); })();
  const ends = await Promise.allSettled([read, (async () => { for (;;) await ask(port, "more"); })()]);
  const again = await Promise.allSettled([fetch("http://localhost:" + web + "/again"), ask(port, "again")]);
  return JSON.stringify([...ends, ...again].map((end) => end.status === "rejected" ? end.reason.message : "went on"));
}
`;

const listening = (server: Server | HttpServer): Promise<number> =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port)));

/** The connections of one host outside: when each ended, by the clock of these tests. */
class Peer {
  readonly open = new Set<Socket>();
  readonly said: string[] = [];
  endedAt = 0;

  readonly take = (socket: Socket): void => {
    this.open.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      this.open.delete(socket);
      this.endedAt = performance.now();
    });
  };
}

const guests = GUESTS;

describe(`the connections of ${guests} guests end within a second`, () => {
  const [peer, web, neighbour] = [new Peer(), new Peer(), new Peer()];
  let again = 0;
  const sockets = (of: Peer): Server =>
    createServer((socket) => {
      of.take(socket);
      socket.on("data", (chunk) => of.said.push(String(chunk)));
      socket.pipe(socket);
    });
  const servers: Server[] = [sockets(peer), sockets(neighbour)];
  const endless = createHttp((request, response) => {
    if (request.url === "/again") again++;
    const timer = setInterval(() => response.write("x"), 10);
    response.on("close", () => clearInterval(timer));
  });
  endless.on("connection", web.take);
  let ports: { port: number; web: number };
  let other: number;
  let berth: TestBerth;
  let api: Api;
  let mcps: string;
  let entry: Record<string, unknown>;
  let release: string;

  const ask = async (server: string, tool: string, args: Record<string, unknown>): Promise<string> => {
    const result = await call(`${berth.url}/${server}`, tool, args);
    return result.content?.[0]?.text ?? JSON.stringify(result);
  };
  const ok = ({ status, body }: { status: number; body: unknown }): void =>
    assert.ok(status < 300, JSON.stringify(body));
  const save = async (changes: object): Promise<void> =>
    ok(await api.put("/entries/guest?allow_breaking=1", JSON.stringify({ ...entry, ...changes })));
  const run = async (args: string[], input = ""): Promise<void> => {
    const { code, stderr } = await command([...args, "--data", join(berth.folder, "data")], { input });
    assert.equal(code, 0, stderr);
  };
  const variable = (tenant: string, name: string, text: string): Promise<void> =>
    onStoreOf(berth, async (store) => {
      const value = rawBlock(text);
      await store.change(tenant, { by: "test", put: [value], set: [{ kind: "variable", name, cid: value.cid }] });
    });

  before(async () => {
    const [port, otherPort] = await Promise.all(servers.map(listening));
    ports = { port: port!, web: await listening(endless) };
    other = otherPort!;
    const network = [`localhost:${port}`, `localhost:${ports.web}`];
    berth = await startTestBerth({
      texts: { "guest.ts": GUEST, "other.ts": GUEST },
      mcps: {
        guest: { definition: "guest.ts", network, secrets: ["PASSWORD"] },
        other: { definition: "other.ts", network: [`localhost:${other}`] },
      },
      env: { BERTH_GUESTS: guests, BERTH_PRIVATE_HOSTS: "localhost" },
    });
    api = apiOf(berth);
    ok(await api.send("PUT", "/secrets/PASSWORD", "first-password"));
    entry = JSON.parse((await api.send("GET", "/entries/guest")).body.files.guest as string) as typeof entry;
    mcps = (await api.send("GET", "/variables/mcps")).body.files.mcps as string;
    assert.equal(await ask("mcp/other", "say", { port: other }), "none");
    assert.equal(await ask("mcp/guest", "say", { port: ports.port }), "first-password");
    const { body } = await api.send("GET", "/servers/guest/releases");
    release = (body.releases as { release: string }[])[0]!.release;
  });
  after(async () => {
    await berth.close();
    for (const { open } of [peer, web, neighbour]) for (const socket of open) socket.destroy();
    for (const server of [...servers, endless]) server.close();
  });

  const restored = async (): Promise<void> => save({});
  /** Has a server's call flow, changes something, and returns after how many milliseconds its last connection ended. */
  const cutMs = async (change: () => Promise<unknown>, server: string): Promise<number> => {
    const before = again;
    const flowing = ask(server, "flow", ports);
    await until(() => peer.open.size > 0 && web.open.size > 0, "it flows");
    const toldAt = await Promise.resolve(change()).then(() => performance.now());
    await until(() => peer.open.size + web.open.size === 0, "it is cut", 30_000);
    const said = await flowing;
    assert.doesNotMatch(said, /went on/, "the call under way is told");
    assert.equal(again, before, "and begins nothing else");
    return Math.max(peer.endedAt, web.endedAt) - toldAt;
  };
  const cuts = (
    change: () => Promise<unknown>,
    undo: () => Promise<unknown> = restored,
    server = "mcp/guest",
  ): Promise<void> => takesLessThan(CUT_MS, () => cutMs(change, server), undo);

  it("C8 when its entry lists other hosts", async () => {
    await cuts(() => save({ network: ["db.invalid:5432"] }));
    await restored();
  });
  it("C8 when its entry gives it another secret, variable, or environment", async () => {
    for (const changes of [{ secrets: [] }, { variables: ["x"] }, { env: { MODE: "x" } }]) {
      await cuts(() => save(changes));
      await restored();
    }
  });
  it("C8 when its secret gets another value, which the next call has, or is deleted", async () => {
    const set = async (value: string): Promise<void> => ok(await api.send("PUT", "/secrets/PASSWORD", value));
    await cuts(
      () => set("second-password"),
      () => set("first-password"),
    );
    assert.equal(await ask("mcp/guest", "say", { port: ports.port }), "second-password");
    const setAgain = (): Promise<void> => set("third-password");
    await cuts(async () => ok(await api.send("DELETE", "/secrets/PASSWORD")), setAgain);
    await setAgain();
    assert.equal(await ask("mcp/guest", "say", { port: ports.port }), "third-password");
  });
  it("C8 when its server is turned off, or removed, alone or with the whole variable", async () => {
    await cuts(() => save({ enabled: false }));
    await restored();
    await cuts(async () => {
      const headers = { "If-Match": "*", "Berth-Allow-Breaking": "true" };
      ok(await api.send("DELETE", "/entries/guest", undefined, headers));
    });
    await restored();
    const { guest: _, ...without } = JSON.parse(mcps) as Record<string, unknown>;
    const put = async (text: string): Promise<void> => ok(await api.put("/variables/mcps?allow_breaking=1", text));
    await cuts(
      () => put(JSON.stringify(without)),
      () => put(mcps),
    );
    await put(mcps);
  });
  it("C8 when one of its releases is withdrawn", async () => {
    await save({ description: "another release" });
    const withdrawal = `/servers/guest/releases/${release}/withdrawal`;
    const reinstate = async (): Promise<void> => ok(await api.send("DELETE", withdrawal));
    await cuts(async () => ok(await api.send("PUT", withdrawal)), reinstate, `mcp/guest@${release}`);
    await reinstate();
    await restored();
  });
  it("C8 when another process sets its secret", async () => {
    await cuts(
      () => run(["secret", "set", "PASSWORD"], "fourth-password"),
      async () => ok(await api.send("PUT", "/secrets/PASSWORD", "third-password")),
    );
    await until(
      async () => (await ask("mcp/guest", "say", { port: ports.port })) === "fourth-password",
      "the next call has it",
    );
  });
  it("C8 when another process changes its entry", async () => {
    const { guest, ...without } = JSON.parse(mcps) as Record<string, object>;
    const changed = { ...without, guest: { ...guest, network: [] } };
    const givenAgain = async (): Promise<void> => {
      await variable("default", "mcps", mcps);
      await until(
        async () => (await ask("mcp/guest", "say", { port: ports.port })) === "fourth-password",
        "it is given it again",
      );
    };
    for (const now of [changed, without]) {
      await cuts(() => variable("default", "mcps", JSON.stringify(now)), givenAgain);
      await givenAgain();
    }
  });
  if (guests === "sandboxed") {
    it("C8 when its tenant is suspended, or deleted, by another process", async () => {
      await save({ enabled: false });
      const variables = {
        mcps: JSON.stringify({ code: { network: [`localhost:${ports.port}`, `localhost:${ports.web}`] } }),
      };
      const served = async (act: Promise<unknown>): Promise<void> => {
        await act;
        await until(async () => (await ask("t/acme/mcp/code", "say", { port: ports.port })) === "none", "it is served");
      };
      const add = (): Promise<void> =>
        served(onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { code: GUEST }, variables })));
      const resume = (): Promise<void> => served(run(["tenant", "resume", "acme"]));
      await add();
      await cuts(() => run(["tenant", "suspend", "acme"]), resume, "t/acme/mcp/code");
      await resume();
      await cuts(() => run(["tenant", "delete", "acme", "--yes"]), add, "t/acme/mcp/code");
    });
  }
  it("C8 and those of another server go on", () => assert.equal(neighbour.open.size, 1));
});
