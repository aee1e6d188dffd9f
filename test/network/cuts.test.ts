import assert from "node:assert/strict";
import { createServer as createHttp } from "node:http";
import { type Socket, createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { rawBlock } from "../../src/lib/cid.ts";
import { apiOf } from "../support/api.ts";
import { callText } from "../support/berth.ts";
import { berth as command } from "../support/commands.ts";
import { GUESTS } from "../support/guests.ts";
import { listening } from "../support/listening.ts";
import { berthInSuite } from "../support/suite.ts";
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

/** The connections of one host outside: when each ended, by the clock of these tests. */
class Peer {
  readonly open = new Set<Socket>();
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

describe(`the connections of ${GUESTS} guests end within a second`, () => {
  const [peer, web, neighbour] = [new Peer(), new Peer(), new Peer()];
  let again = 0;
  const echoing = [peer, neighbour].map((host) =>
    createServer((socket) => {
      host.take(socket);
      socket.pipe(socket);
    }),
  );
  const endless = createHttp((request, response) => {
    if (request.url === "/again") again++;
    const timer = setInterval(() => response.write("x"), 10);
    response.on("close", () => clearInterval(timer));
  });
  endless.on("connection", web.take);
  const servers = [...echoing, endless];
  let ports: { port: number; other: number; web: number };
  let mcps: string;
  let entry: Record<string, unknown>;
  let release: string;

  const ask = (server: string, tool: string, args: Record<string, unknown>): Promise<string> =>
    callText(`${berth.url}/${server}`, tool, args);
  const password = (server = "mcp/guest"): Promise<string> => ask(server, "say", { port: ports.port });
  const ok = async (reply: Promise<{ status: number; body: unknown }>): Promise<void> => {
    const { status, body } = await reply;
    assert.ok(status < 300, JSON.stringify(body));
  };
  const save = (changes: object): Promise<void> =>
    ok(api.put("/entries/guest?allow_breaking=1", JSON.stringify({ ...entry, ...changes })));
  const restored = (): Promise<void> => save({});
  const setAll = (text: string): Promise<void> => ok(api.put("/variables/mcps?allow_breaking=1", text));
  const setSecret = (value: string): Promise<void> => ok(api.send("PUT", "/secrets/PASSWORD", value));
  /** As another process does it. */
  const setFromOutside = (text: string): Promise<void> =>
    onStoreOf(berth, async (store) => {
      const value = rawBlock(text);
      const set = [{ kind: "variable", name: "mcps", cid: value.cid } as const];
      await store.change("default", { by: "test", put: [value], set });
    });
  const without = (): string => {
    const { guest: _, ...others } = JSON.parse(mcps) as Record<string, unknown>;
    return JSON.stringify(others);
  };

  before(async () => {
    const [port, other, web] = await Promise.all(servers.map((server) => listening(server)));
    ports = { port: port!, other: other!, web: web! };
  });
  const berth = berthInSuite(() => ({
    texts: { "guest.ts": GUEST, "other.ts": GUEST },
    mcps: {
      guest: {
        definition: "guest.ts",
        network: [`localhost:${ports.port}`, `localhost:${ports.web}`],
        secrets: ["PASSWORD"],
      },
      other: { definition: "other.ts", network: [`localhost:${ports.other}`] },
    },
    env: { BERTH_GUESTS: GUESTS, BERTH_PRIVATE_HOSTS: "localhost" },
  }));
  const api = apiOf(berth);
  before(async () => {
    await setSecret("first-password");
    entry = JSON.parse((await api.send("GET", "/entries/guest")).body.files.guest as string) as typeof entry;
    mcps = (await api.send("GET", "/variables/mcps")).body.files.mcps as string;
    assert.equal(await ask("mcp/other", "say", { port: ports.other }), "none");
    assert.equal(await password(), "first-password");
    const { body } = await api.send("GET", "/servers/guest/releases");
    release = (body.releases as { release: string }[])[0]!.release;
  });
  after(() => {
    for (const { open } of [peer, web, neighbour]) for (const socket of open) socket.destroy();
    for (const server of servers) server.close();
  });

  /** Has a server's call flow, changes something, and returns after how many milliseconds its last connection ended. */
  const cutMs = async (change: () => Promise<unknown>, server: string): Promise<number> => {
    const before = again;
    const flowing = ask(server, "flow", { port: ports.port, web: ports.web });
    await until(() => peer.open.size > 0 && web.open.size > 0, "it flows");
    await change();
    const changedAt = performance.now();
    await until(() => peer.open.size + web.open.size === 0, "it is cut");
    assert.doesNotMatch(await flowing, /went on/, "the call under way is told");
    assert.equal(again, before, "and begins nothing else");
    return Math.max(peer.endedAt, web.endedAt) - changedAt;
  };
  /** The change ends the connections, and can be undone. */
  const cuts = async (
    change: () => Promise<unknown>,
    undo: () => Promise<unknown> = restored,
    server = "mcp/guest",
  ): Promise<void> => {
    await takesLessThan(CUT_MS, () => cutMs(change, server), undo);
    await undo();
  };

  const changes: Record<string, object> = {
    "lists other hosts": { network: ["db.invalid:5432"] },
    "has another secret": { secrets: [] },
    "has another variable": { variables: ["x"] },
    "has another environment": { env: { MODE: "x" } },
    "is turned off": { enabled: false },
  };
  for (const [title, change] of Object.entries(changes)) {
    it(`when the entry ${title}`, () => cuts(() => save(change)));
  }
  it("when the entry is removed, alone or with the whole variable", async () => {
    await cuts(() => ok(api.remove("/entries/guest")));
    const setBack = (): Promise<void> => setAll(mcps);
    await cuts(() => setAll(without()), setBack);
  });
  it("when a secret gets another value, which the next call has, or is deleted", async () => {
    const setThird = (): Promise<void> => setSecret("third-password");
    await cuts(() => setSecret("second-password"), setThird);
    assert.equal(await password(), "third-password");
    await cuts(() => ok(api.send("DELETE", "/secrets/PASSWORD")), setThird);
  });
  it("when a release is withdrawn", async () => {
    await save({ description: "another release" });
    const withdrawal = `/servers/guest/releases/${release}/withdrawal`;
    const reinstate = (): Promise<void> => ok(api.send("DELETE", withdrawal));
    await cuts(() => ok(api.send("PUT", withdrawal)), reinstate, `mcp/guest@${release}`);
    await restored();
  });
  it("when another process sets a secret", async () => {
    const args = ["secret", "set", "PASSWORD", "--data", join(berth.folder, "data")];
    const set = async () => assert.equal((await command(args, { input: "fourth-password" })).code, 0);
    await cuts(set, () => until(async () => (await password()) === "fourth-password", "the next call has it"));
  });
  it("when another process changes or removes the entry", async () => {
    const { guest, ...others } = JSON.parse(mcps) as Record<string, object>;
    const givenAgain = async (): Promise<void> => {
      await setFromOutside(mcps);
      await until(async () => (await password()) === "fourth-password", "it is given it again");
    };
    for (const text of [JSON.stringify({ ...others, guest: { ...guest, network: [] } }), without()])
      await cuts(() => setFromOutside(text), givenAgain);
  });
  if (GUESTS === "sandboxed") {
    it("when another process suspends or deletes the tenant (C8)", async () => {
      await save({ enabled: false });
      const network = [`localhost:${ports.port}`, `localhost:${ports.web}`];
      const tenant = { servers: { code: GUEST }, variables: { mcps: JSON.stringify({ code: { network } }) } };
      const server = "t/acme/mcp/code";
      const served = async (act: Promise<unknown>): Promise<void> => {
        await act;
        await until(async () => (await password(server)) === "none", "it is served");
      };
      const suspend = (suspended: boolean): Promise<unknown> =>
        onStoreOf(berth, ({ tenants }) => tenants.change("acme", { by: "test", suspended }));
      const add = (): Promise<void> => served(onStoreOf(berth, (store) => addTenant(store, "acme", tenant)));
      await add();
      const resume = (): Promise<void> => served(suspend(false));
      await cuts(() => suspend(true), resume, server);
      await cuts(() => onStoreOf(berth, ({ tenants }) => tenants.delete("acme", "test")), add, server);
    });
  }
  it("keeps the connections of another server", () => assert.equal(neighbour.open.size, 1));
});
