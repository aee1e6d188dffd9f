import assert from "node:assert/strict";
import { connect, createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { defaultLimits } from "../../src/limits/limits.ts";
import { DOOR, type SocketGrant } from "../../src/network/relay-wire.ts";
import { SocketRelay } from "../../src/network/socket-relay.ts";
import { spawnDirectly } from "../../src/processes/spawn/spawn.ts";
import { makeTemporary } from "../../src/processes/work-folders.ts";
import { until } from "../support/until.ts";

test("the use of a tenant that is gone is told no more, though its connections end after it", async () => {
  const server = createServer((socket) => void socket.on("error", () => {}).resume());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const relay = new SocketRelay({ start: spawnDirectly, makeFolder: makeTemporary, limits: defaultLimits });
  /** Asks for a connection on a way out of the tenant's own, and takes it. */
  const connectAs = async (tenant: string) => {
    const outlet = relay.open();
    const hosts: SocketGrant["hosts"] = [{ kind: "host", name: "127.0.0.1", port }];
    await outlet.bind({ tenant, server: "report", hosts, privateToo: true, privateHosts: [] }, () => {});
    const asking = connect(join(outlet.folder, DOOR));
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
