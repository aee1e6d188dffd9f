import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { rawBlock } from "../../src/lib/cid.ts";
import type { CollectionResult } from "../../src/store/store.ts";
import { apiOf, type Api } from "../support/api.ts";
import { call, post, request, startTestBerth, type TestBerth } from "../support/berth.ts";
import { onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const say = (text: string): string => `export function say(): string {\n  return "${text}";\n}\n`;

describe("what was saved, after a collection", () => {
  let berth: TestBerth;
  let api: Api;
  before(async () => {
    berth = await startTestBerth({ texts: { "demo.ts": say("zero") } });
    api = apiOf(berth);
  });
  after(() => berth?.close());

  const collect = (historyMs = 0): Promise<CollectionResult> =>
    onStoreOf(berth, (store) => store.collect({ tenants: [{ tenant: "default", historyMs }], graceMs: 0 }));
  const current = async (): Promise<string> => {
    const { body } = await api.send("GET", "/servers/demo/releases");
    return (body.releases as { release: string; current: boolean }[]).find((each) => each.current)!.release;
  };
  const saidAt = async (release: string): Promise<unknown> =>
    (await call(`${berth.url}/mcp/demo@${release}`, "say")).structuredContent;

  it("every version opens, answers at its pinned address, and can be restored, and the rest is gone", async () => {
    assert.deepEqual((await call(`${berth.url}/mcp/demo`, "say")).structuredContent, { result: "zero" });
    const releases = [await current()];
    const definitions = [(await api.send("GET", "/definitions/demo")).cid];
    for (const text of ["one", "two"]) {
      await api.put("/definitions/demo", say(text));
      releases.push(await current());
      definitions.push((await api.send("GET", "/definitions/demo")).cid);
    }
    assert.equal(new Set(releases).size, 3);
    const orphan = rawBlock("nobody named it");
    await onStoreOf(berth, (store) => store.change("default", { by: "test", put: [orphan] }));
    assert.equal((await fetch(`${berth.url}/cid/${orphan.cid}`)).status, 200);

    const { freed } = await collect();
    assert.deepEqual([freed.content.count, freed.compiled.count, freed.packages.count], [1, 0, 0]);
    assert.equal((await fetch(`${berth.url}/cid/${orphan.cid}`)).status, 404);
    for (const [index, text] of ["zero", "one", "two"].entries()) {
      assert.deepEqual(await saidAt(releases[index]!), { result: text });
      const { body } = await api.send("GET", `/definitions/demo/versions/${definitions[index]}`);
      assert.ok(JSON.stringify(body).includes(text), JSON.stringify(body));
    }
    const back = await api.send("POST", `/servers/demo/releases/${releases[0]}/restore?allow_breaking=1`);
    assert.equal(back.status, 200, JSON.stringify(back.body));
    assert.deepEqual((await call(`${berth.url}/mcp/demo`, "say")).structuredContent, { result: "zero" });
  });

  it("what was replaced longer ago than history is kept is gone with its code, and what is served stays", async () => {
    await api.put("/definitions/demo", say("three"));
    const gone = await current();
    const code = say("three");
    await api.put("/definitions/demo", say("four"));
    const now = await current();
    assert.deepEqual(await saidAt(gone), { result: "three" });
    await until(
      async () =>
        (await collect(1)).lapsed > 0 ||
        !(await onStoreOf(berth, (store) => store.had("default", "release", "demo", gone))),
    );

    assert.deepEqual((await call(`${berth.url}/mcp/demo`, "say")).structuredContent, { result: "four" });
    assert.deepEqual(await saidAt(now), { result: "four" });
    assert.equal(await onStoreOf(berth, (store) => store.content("default", gone)), undefined);
    assert.equal(await onStoreOf(berth, (store) => store.content("default", rawBlock(code).cid)), undefined);
    await api.put("/definitions/demo", code);
    assert.deepEqual((await call(`${berth.url}/mcp/demo`, "say")).structuredContent, { result: "three" });
  });

  it("is told to administrators by kind, with the most that there may be", async () => {
    const { body } = await api.send("GET", "/use");
    assert.deepEqual(Object.keys(body.use), ["packages", "content", "compiled", "state", "records", "secrets"]);
    assert.ok(body.use.content > 0 && body.use.compiled > 0 && body.use.packages === 0, JSON.stringify(body));
    assert.equal(body.storedBytes, 4 * 1024 ** 3);
    const page = await (await fetch(`${berth.url}/packages`, { headers: { Accept: "text/html" } })).text();
    assert.match(page, /The tenant stores [\d.]+ [kM]?B of 4295\.0 MB: content [^<]*, compiled [^<]*\./);
    assert.equal((await post(`${berth.url}/api/use`, request("x"))).status, 405);
  });
});
