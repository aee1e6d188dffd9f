import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createPrincipal } from "../../../src/access/principal.ts";
import type { ServerChange } from "../../../src/host/offers/catalog.ts";
import { LongText, type Text } from "../../../src/lib/long-text.ts";
import { Listeners, type Listener } from "../../../src/mcp/modern/notify-listeners.ts";
import { lowerInSuite } from "../../support/lower-in-suite.ts";
import { lower } from "../../support/lowered-limits.ts";
import { until } from "../../support/until.ts";

describe("those who listen", () => {
  lowerInSuite({ listenersPerTask: 2_000 });
  /** One server, and a function that reports its changes. */
  function listening(): { listeners: Listeners; change: (change: ServerChange) => void } {
    const watching = new Set<(change: ServerChange) => void>();
    const watch = (_tenant: string, _server: string, onChange: (change: ServerChange) => void) => {
      watching.add(onChange);
      return () => watching.delete(onChange);
    };
    return {
      listeners: new Listeners({ watch }),
      change: (change) => watching.forEach((onChange) => onChange(change)),
    };
  }

  const listener = (id: number, send: (message: Text) => void, wanted: Partial<Listener> = {}): Listener => ({
    sink: { send },
    id: String(id),
    parts: 0,
    uris: undefined,
    taskIds: undefined,
    end() {},
    ...wanted,
  });

  /** Takes as long as a write to a client. */
  const write = (): void => {
    for (const since = performance.now(); performance.now() - since < 0.05;);
  };

  /** The most events in one turn of the event loop until all have happened. */
  async function mostInATurn(all: number, count: () => number): Promise<number> {
    let most = count();
    for (let before = count(); before < all; before = count()) {
      await new Promise((resolve) => setImmediate(resolve));
      most = Math.max(most, count() - before);
    }
    return most;
  }

  it("are told of a task in the same bytes, which are written once", async () => {
    const { listeners } = listening();
    const told: Text[] = [];
    for (let id = 0; id < 40; id++) {
      const hear = (message: Text): unknown => told.push(message);
      listeners.add("a", "server", listener(id, hear, { taskIds: ["t"] }));
    }
    let written = 0;
    const result = "x".repeat(1_000_000);
    const task = { taskId: "t", toJSON: () => ((written += 1), { taskId: "t", result }) };
    listeners.notifyTask("a", "t", task);
    listeners.notifyTask("b", "t", task);
    await until(() => told.length === 40);
    assert.equal(written, 1);
    const bytes = new Set(told.flatMap((text) => (text instanceof LongText ? text.pieces[1] : text)));
    assert.equal(bytes.size, 1);
    const { method, params } = JSON.parse(String(told[7]));
    assert.deepEqual([method, params.taskId, params.result], ["notifications/tasks", "t", result]);
    assert.deepEqual(params._meta, { "io.modelcontextprotocol/subscriptionId": 7 });
  });

  it("are told in turns with calls of others, of a task, a list and a resource", async () => {
    const { listeners, change } = listening();
    let told = 0;
    const hear = (): void => {
      write();
      told += 1;
    };
    for (let id = 0; id < 1_000; id++) {
      listeners.add("a", "server", listener(id, hear, { parts: 1, uris: ["x://1", "x://2"], taskIds: ["t"] }));
    }
    change({ kind: "tools" });
    change({ kind: "resource", uri: "x://1" });
    change({ kind: "resource", uri: "x://2" });
    listeners.notifyTask("a", "t", { taskId: "t" });
    const most = await mostInATurn(4_000, () => told);
    assert.ok(most < 200, `${most} in one turn`);
    assert.equal(told, 4_000);
  });

  it("hear of the resources that they asked for, and of no others, until they leave", async () => {
    const { listeners, change } = listening();
    const told: string[] = [];
    const hear = (id: number) => (message: Text) => told.push(`${id} ${JSON.parse(String(message)).params.uri}`);
    listeners.add("a", "server", listener(1, hear(1), { uris: ["x://1"] }));
    const leave = listeners.add("a", "server", listener(2, hear(2), { uris: ["x://1", "x://2"] }));
    for (const uri of ["x://1", "x://2", "x://3"]) change({ kind: "resource", uri });
    // A listener that leaves before its turn is not told.
    await until(() => told.length >= 3);
    leave();
    for (const uri of ["x://1", "x://2", "x://3"]) change({ kind: "resource", uri });
    await until(() => told.length >= 4);
    assert.deepEqual(told, ["1 x://1", "2 x://1", "2 x://2", "1 x://1"]);
  });

  it("hear of the resources of all servers those of the servers that they may read", async () => {
    const { listeners, change } = listening();
    const told: string[] = [];
    const hear = (id: number) => (message: Text) => told.push(`${id} ${JSON.parse(String(message)).params.uri}`);
    const reading = (servers: readonly string[]) =>
      createPrincipal({ id: servers.join(), tenant: "a" }, [{ can: ["read"], servers }]);
    const uris = ["x://1"];
    listeners.add("a", "", listener(1, hear(1), { uris, principal: reading(["one"]) }));
    listeners.add("a", "", listener(2, hear(2), { uris, principal: reading(["two"]) }));
    listeners.add("a", "", listener(3, hear(3), { uris }));
    change({ kind: "resource", uri: "x://1", server: "one" });
    change({ kind: "resource", uri: "x://1", server: "two" });
    await until(() => told.length >= 4);
    assert.deepEqual(told, ["1 x://1", "3 x://1", "2 x://1", "3 x://1"]);
  });

  it("listenersPerTask: one more that listens to a task is refused until another leaves", (t) => {
    t.after(lower({ listenersPerTask: 2 }));
    const { listeners } = listening();
    const hear = (): void => {};
    const add = (id: number, tenant = "a"): (() => void) =>
      listeners.add(tenant, "server", listener(id, hear, { taskIds: ["t", `own-${id}`] }));
    const leave = add(1);
    add(2);
    assert.throws(() => add(3), /listeners may follow one task/);
    add(3, "b");
    leave();
    add(4);
  });
});
