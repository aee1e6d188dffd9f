import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rawBlock, type Block } from "../../src/lib/cid.ts";
import type { CollectionResult } from "../../src/store/store.ts";
import { apiOf, type ApiReply } from "../support/api.ts";
import { call, post, request, withStatus } from "../support/berth.ts";
import { tarballOf, type TestPackage } from "../support/registry.ts";
import { berthInSuite, registryInSuite } from "../support/suite.ts";
import { onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

const say = (text: string): string => `export function say(): string {\n  return "${text}";\n}\n`;

const greet = (version: string): TestPackage => ({
  name: "greet",
  version,
  manifest: { type: "module", main: "index.js", types: "index.d.ts" },
  files: {
    "index.js": `export const greet = () => "${version} greets";\n`,
    "index.d.ts": "export declare const greet: () => string;\n",
  },
});
describe("after a collection", () => {
  const registry = registryInSuite(greet("1.0.0"));
  const berth = berthInSuite(() => ({ texts: { "demo.ts": say("zero") }, env: { BERTH_REGISTRY: registry.url } }));
  const api = apiOf(berth);
  const collect = (historyMs = 0): Promise<CollectionResult> =>
    onStoreOf(berth, (store) => store.collect({ tenants: [{ tenant: "default", historyMs }], graceMs: 0 }));

  const current = async (): Promise<string> => {
    const { body } = await api.send("GET", "/servers/demo/releases");
    return (body.releases as { release: string; current: boolean }[]).find((each) => each.current)!.release;
  };
  const saidAt = async (release: string): Promise<unknown> =>
    (await call(`${berth.url}/mcp/demo@${release}`, "say")).structuredContent;

  it("every saved version opens, answers at its pinned address, and can be restored, and the rest is gone", async () => {
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
    await withStatus(200, api.send("POST", `/servers/demo/releases/${releases[0]}/restore?allow_breaking=1`));
    assert.deepEqual((await call(`${berth.url}/mcp/demo`, "say")).structuredContent, { result: "zero" });
  });

  it("a version that was replaced longer ago than history is kept is gone with its code, and what is served stays", async () => {
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

  it("storage use is reported to administrators by kind, with the most that there may be", async () => {
    const { body } = await api.send("GET", "/use");
    assert.deepEqual(Object.keys(body.use), [
      "packages",
      "content",
      "compiled",
      "state",
      "calls",
      "records",
      "secrets",
      "history",
    ]);
    assert.ok(body.use.content > 0 && body.use.compiled > 0 && body.use.packages === 0, JSON.stringify(body));
    assert.equal(body.storedBytes, 4 * 1024 ** 3);
    const page = await (await fetch(`${berth.url}/packages`, { headers: { Accept: "text/html" } })).text();
    assert.match(page, /The tenant stores [\d.]+ [kM]?B of 4\.3 GB: content [^<]*, compiled [^<]*\./);
    assert.equal((await post(`${berth.url}/api/use`, request("x"))).status, 405);
  });
  const tarball = (version: string): Block => rawBlock(tarballOf(greet(version)));
  const has = (version: string): Promise<boolean> =>
    onStoreOf(berth, async (store) => (await store.content("default", tarball(version).cid)) !== undefined);
  const hello = async (release = ""): Promise<unknown> =>
    (await call(`${berth.url}/mcp/hello${release && `@${release}`}`, "hello")).structuredContent;
  const done = ({ status, body }: ApiReply): void => assert.ok(status < 300, JSON.stringify(body));

  it("packages stay with the sets and releases of the past, and go with them", async () => {
    done(await api.send("POST", "/packages", { add: ["greet@^1"] }));
    const source = 'import { greet } from "greet";\nexport function hello(): string {\n  return greet();\n}\n';
    done(await api.put("/definitions/hello", source));
    assert.deepEqual(await hello(), { result: "1.0.0 greets" });
    const old = await api.send("GET", "/variables/packages");
    const { body: listed } = await api.send("GET", "/servers/hello/releases");
    registry.publish(greet("1.1.0"));
    done(await api.send("POST", "/packages", { update: true }));
    const now = await api.send("GET", "/variables/packages");
    assert.deepEqual(await hello(), { result: "1.1.0 greets" });

    const { freed } = await collect(0);
    assert.deepEqual([freed.packages.count, await has("1.0.0"), await has("1.1.0")], [0, true, true]);
    const [{ release }] = listed.releases;
    assert.deepEqual(await hello(release), { result: "1.0.0 greets" });
    await registry.close();
    done(await api.put("/variables/packages", old.body.files.packages));
    assert.deepEqual(await hello(), { result: "1.0.0 greets" });
    done(await api.put("/variables/packages", now.body.files.packages));
    assert.deepEqual(await hello(), { result: "1.1.0 greets" });

    await until(async () => {
      await collect(1);
      return !(await has("1.0.0"));
    });
    assert.ok(await has("1.1.0"));
    assert.deepEqual(await hello(), { result: "1.1.0 greets" });
    assert.equal(await onStoreOf(berth, (store) => store.had("default", "release", "hello", release)), false);
    const { body } = await api.send("GET", "/use");
    assert.equal(body.use.packages, tarball("1.1.0").bytes.length);
  });
});
