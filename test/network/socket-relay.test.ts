import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { mock, test } from "node:test";
import { defaultLimits } from "../../src/limits/limits.ts";
import { SOCKET_NAME, type SocketGrant } from "../../src/network/relay-wire.ts";
import { SocketRelay } from "../../src/network/socket-relay.ts";
import { spawnDirectly } from "../../src/processes/spawn/spawn.ts";
import { makeTemporary } from "../../src/processes/work-folders.ts";
import { listening } from "../support/listening.ts";
import { until } from "../support/until.ts";

test("the use of a deleted tenant is not reported, though its connections end later", async () => {
  const server = createServer((socket) => void socket.on("error", () => {}).resume());
  const port = await listening(server);
  const relay = new SocketRelay({ start: spawnDirectly, makeFolder: makeTemporary, limits: defaultLimits });
  /** Asks for a connection on a way out of the tenant's own, and takes it. */
  const connectAs = async (tenant: string) => {
    const outlet = relay.open();
    const hosts: SocketGrant["hosts"] = [{ kind: "host", name: "127.0.0.1", port }];
    await outlet.bind({ tenant, server: "report", hosts, privateToo: true, privateHosts: [] }, () => {});
    const asking = connect(join(outlet.folder, SOCKET_NAME));
    asking.on("error", () => {}).write(`${JSON.stringify({ connect: { host: "127.0.0.1", port } })}\n`);
    const told = await new Promise((resolve) => asking.once("data", resolve));
    const { socket } = JSON.parse(String(told)) as { socket: string };
    const taken = connect(join(outlet.folder, socket)).on("error", () => {});
    return { outlet, taken, asking };
  };
  try {
    const gone = await connectAs("acme");
    await until(() => relay.uses()["acme"]?.opened === 1, "its use is told");
    relay.retire("acme");
    relay.forget("acme");
    const other = await connectAs("other");
    await until(() => relay.uses()["other"]?.opened === 1, "the use of another is told");
    assert.deepEqual(Object.keys(relay.uses()), ["other"]);
    for (const { outlet, taken, asking } of [gone, other]) {
      outlet.close();
      taken.destroy();
      asking.destroy();
    }
  } finally {
    await relay.close();
    server.close();
  }
});

test("a bind settles when its tenant is retired, or when the relay closes", async () => {
  const start = (): Promise<never> => Promise.reject(new Error("there is no room for it"));
  const relay = new SocketRelay({ start, makeFolder: makeTemporary, limits: defaultLimits });
  const outlets = [relay.open(), relay.open()];
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const grant = { server: "report", hosts: [], privateToo: true, privateHosts: [] };
    const [taken, closed] = ["acme", "other"].map((tenant, at) => outlets[at]!.bind({ ...grant, tenant }, () => {}));
    relay.retire("acme");
    await taken;
    const closing = relay.close();
    await closed;
    await closing;
  } finally {
    mock.timers.reset();
    for (const outlet of outlets) outlet.close();
    await relay.close();
  }
});
