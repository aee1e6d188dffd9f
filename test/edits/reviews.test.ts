import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import Database from "#better-sqlite3";
import { withdraw } from "../../src/host/catalog/withdrawn.ts";
import { jsonBlock } from "../../src/lib/cid.ts";
import type { Change, Store } from "../../src/store/store.ts";
import { apiOf } from "../support/api.ts";
import { call, withStatus } from "../support/berth.ts";
import { pluck } from "../support/rows.ts";
import { berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";

const say = (text: string): string =>
  `/** Says it. */\nexport function say(): string { return ${JSON.stringify(text)}; }\n`;

describe("a review", () => {
  const berth = berthInSuite({ texts: { "say.ts": say("hello") } });
  const api = apiOf(berth);

  const rows = (): Record<string, number> => {
    const database = new Database(join(berth.folder, "data", "berth.sqlite"), { readonly: true });
    try {
      const tables = ["content", "tenant_content", "derived", "tenant_derived", "name_change", "audit"];
      const count = (table: string) => database.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get()!;
      return Object.fromEntries(tables.map((table) => [table, count(table)]));
    } finally {
      database.close();
    }
  };
  const compiled = async (): Promise<number> => {
    const text = await (await fetch(`${berth.url}/metrics`)).text();
    return Number(/^berth_compile_duration_seconds_count\{outcome="ok"\} (\d+)/m.exec(text)?.[1]);
  };

  it("keeps nothing in the store, of whatever is reviewed", async () => {
    const before = rows();
    for (const [path, draft] of [
      ["/definitions/fresh", say("never saved")],
      ["/definitions/say", say("never saved either")],
      ["/variables/plan", "never a plan"],
      ["/definitions/broken", "export function ("],
    ] as const) {
      await withStatus(200, api.send("POST", `${path}/review`, draft));
    }
    assert.deepEqual(rows(), before);
  });

  it("is followed by a save that compiles nothing again, and keeps what was compiled", async () => {
    const text = say("saved");
    await api.send("POST", "/definitions/saved/review", text);
    const before = await compiled();
    await withStatus(201, api.put("/definitions/saved", text));
    assert.equal((await call(`${berth.url}/mcp/saved`, "say")).content[0].text, "saved");
    assert.equal(await compiled(), before);
    const { status: again } = await api.put("/definitions/saved", say("saved at once"));
    assert.equal(again, 200);
    assert.equal((await call(`${berth.url}/mcp/saved`, "say")).content[0].text, "saved at once");
    assert.equal(await compiled(), before + 1);
  });

  it("and a save refuse a main file that is not there, whatever it is called", async () => {
    const draft = { entry: "constructor", files: { "m.ts": say("never") } };
    assert.equal((await api.send("PUT", "/definitions/nowhere", draft, { "If-None-Match": "*" })).status, 422);
    const { body } = await api.send("POST", "/definitions/nowhere/review", draft);
    assert.equal(body.problems[0].code, "missing-file", JSON.stringify(body));
  });

  it("leaves nothing behind either as a save that is refused; the code of one counts to storedBytes", async () => {
    await onStoreOf(berth, (store) => addTenant(store, "small", { limits: { storedBytes: 14_000 } }));
    const small = apiOf({ url: `${berth.url}/t/small` });
    const before = rows();
    // Its text alone would fit, twice.
    assert.equal((await small.put("/definitions/say", say("x".repeat(7_000)))).status, 507);
    assert.deepEqual(rows(), before);
    assert.equal((await small.put("/definitions/say", say("short"))).status, 201);
  });
});

it("a withdrawal counts to the room of its tenant; a release can always be reinstated, and the others stay withdrawn (C8)", async () => {
  const changes: Change[] = [];
  const store = {
    had: async () => true,
    name: async () => undefined,
    change: async (_tenant: string, change: Change) => changes.push(change),
  } as unknown as Store;
  const release = { server: "say", release: "r", by: "test", storedBytesMax: 10 };
  await withdraw(store, "acme", { ...release, isWithdrawn: true });
  const withdrawn = jsonBlock({ withdrawn: ["r", "s"] });
  const holding = {
    ...store,
    name: async (_tenant: string, kind: string) => (kind === "withdrawn" ? { cid: withdrawn.cid } : undefined),
    content: async () => withdrawn.bytes,
  } as unknown as Store;
  await withdraw(holding, "acme", { ...release, isWithdrawn: false });
  assert.deepEqual(pluck(changes, "storedBytesMax", "put"), [
    [10, [jsonBlock({ withdrawn: ["r"] })]],
    [undefined, [jsonBlock({ withdrawn: ["s"] })]],
  ]);
});
