import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call, withStatus } from "../../support/berth.ts";
import { rows } from "../../support/rows.ts";
import type { Said } from "../../support/stdio-session.ts";
import { berthInSuite } from "../../support/suite.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";

const KEEPER = `import type { ToolContext } from "berth";
export const keep = (key: string, value: unknown, { state }: ToolContext): Promise<number> => state.set(key, value);
export const kept = async (key: string, { state }: ToolContext): Promise<unknown> => (await state.get(key)) ?? "nothing";
export const keepBytes = (key: string, { state }: ToolContext): Promise<number> => state.set(key, Uint8Array.of(0, 255, 10));
`;
const NEW = { "If-None-Match": "*" };
const ANY = { "If-Match": "*" };
const JSON_TYPE = { "Content-Type": "application/json" };

describe("the API of state", () => {
  const berth = berthInSuite({ texts: { "keeper.ts": KEEPER, "other.ts": KEEPER } });
  before(() =>
    onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { keeper: KEEPER }, limits: { stateBytes: 200 } })),
  );

  const tool = async (name: string, args: Record<string, unknown>, at = ""): Promise<unknown> => {
    const { content, structuredContent } = await call(`${berth.url}${at}/mcp/keeper`, name, args);
    return structuredContent?.result ?? content[0].text;
  };
  const value = (key: string, server = "keeper"): string =>
    `/state/${server}/value?${new URLSearchParams({ key }).toString()}`;

  it("shows what a server keeps, and has the server see what a person changes", async () => {
    const api = apiOf(berth);
    await tool("keep", { key: "a/b", value: { title: "of the server" } });
    await tool("keepBytes", { key: "raw" });
    const { servers } = (await api.send("GET", "/state")).body;
    assert.deepEqual(servers, [{ server: "keeper", keys: 2, bytes: servers[0].bytes, exists: true }]);
    const { keys } = (await api.send("GET", "/state/keeper")).body;
    assert.deepEqual(rows(keys, "key", "kind", "bytes", "expiresAt"), ["a/b json 25 -", "raw bytes 3 -"]);
    const read = await api.send("GET", value("a/b"));
    assert.deepEqual(read.body.value, { title: "of the server" });
    assert.equal(read.headers.get("cache-control"), "no-store");
    assert.equal(read.cid, String(read.body.version));
    assert.equal((await api.send("GET", value("raw"))).body.base64, "AP8K");

    const saved = await api.send("PUT", value("a/b"), { title: "of a person" }, { "If-Match": `"${read.cid}"` });
    assert.equal(saved.status, 200);
    assert.ok(saved.body.version > read.body.version);
    assert.deepEqual(await tool("kept", { key: "a/b" }), { title: "of a person" });
    assert.equal((await api.send("PUT", value("raw"), "AAEC", ANY)).status, 200);
    assert.equal((await api.send("GET", value("raw"))).body.base64, "AAEC");
    const inAnHour = Date.now() + 3_600_000;
    await withStatus(200, api.send("PUT", `${value("new")}&expiresAt=${inAnHour}`, '"text"', { ...NEW, ...JSON_TYPE }));
    assert.deepEqual((await api.send("GET", value("new"))).body.expiresAt, inAnHour);
    assert.equal((await api.send("DELETE", value("new"), undefined, ANY)).status, 204);
    assert.equal((await api.send("GET", value("new"))).status, 404);
  });

  it("refuses a write that does not say what it replaces, or that came second", async () => {
    const api = apiOf(berth);
    const version = await tool("keep", { key: "race", value: 1 });
    assert.equal((await api.send("PUT", value("race"), { n: 2 })).status, 428);
    await tool("keep", { key: "race", value: 2 });
    for (const method of ["PUT", "DELETE"]) {
      const { status, body } = await api.send(method, value("race"), method === "PUT" ? { n: 3 } : undefined, {
        "If-Match": `"${String(version)}"`,
      });
      assert.deepEqual([status, body.error.code], [412, "state_conflict"]);
      assert.ok(body.error.data.current > Number(version));
    }
    assert.equal((await api.send("PUT", value("race"), { n: 3 }, NEW)).status, 412);
    assert.equal((await api.send("PUT", value("absent"), { n: 3 }, ANY)).status, 404);
    assert.equal((await api.send("DELETE", value("absent"), undefined, ANY)).status, 404);
    assert.equal((await api.send("PUT", value("race"), { n: 3 }, { "If-Match": '"bafk"' })).status, 400);
    assert.equal(await tool("kept", { key: "race" }), 2);
  });

  it("says what is wrong with a key, a value and a request", async () => {
    const api = apiOf(berth);
    const refused: [string, string, Record<string, string>, number][] = [
      [value(""), "1", JSON_TYPE, 422],
      [value("a\u0000b"), "1", JSON_TYPE, 422],
      [value("x".repeat(513)), "1", JSON_TYPE, 422],
      ["/state/keeper/value", "1", JSON_TYPE, 400],
      [`${value("a")}&key=b`, "1", JSON_TYPE, 400],
      [value("a"), "{", JSON_TYPE, 422],
      [value("a"), `"${"x".repeat(65_536)}"`, JSON_TYPE, 422],
      [value("a"), "[".repeat(300) + "]".repeat(300), JSON_TYPE, 422],
      [value("a"), "not base64!", {}, 422],
      [value("a"), "1", { "Content-Type": "application/xml" }, 415],
      [`${value("a")}&expiresAt=1`, "1", JSON_TYPE, 400],
      [value("a", "nobody"), "1", JSON_TYPE, 404],
    ];
    for (const [path, text, headers, expected] of refused) {
      const { status, body } = await api.send("PUT", path, text, { ...NEW, ...headers });
      assert.equal(status, expected, `${path.slice(0, 60)}: ${JSON.stringify(body).slice(0, 300)}`);
      assert.ok(body.error.message.length < 500);
    }
    assert.equal((await api.send("GET", value("a"))).status, 404);
  });

  it("lists keys of any characters page by page, by what they begin with", async () => {
    const api = apiOf(berth);
    const keys = ["odd/..", "odd/<b>", "odd/%2F&?#", "odd/😀", "odd/' OR 1=1"].toSorted();
    for (const key of keys) await tool("keep", { key, value: key });
    const seen: string[] = [];
    for (let next: string | undefined = ""; next !== undefined;) {
      const { body } = await api.send("GET", `/state/keeper?prefix=odd/&limit=2${next && `&cursor=${next}`}`);
      seen.push(...body.keys.map(({ key }: { key: string }) => key));
      next = body.next;
    }
    assert.deepEqual(seen, keys);
    for (const key of keys) assert.equal((await api.send("GET", value(key))).body.value, key);
  });

  it("deletes all that a server keeps, also of one that was removed, and records who did what", async () => {
    const api = apiOf(berth);
    await api.send("PUT", value("left", "other"), "1", { ...NEW, ...JSON_TYPE });
    const { body } = await api.send("GET", "/definitions/other");
    await api.send("DELETE", "/definitions/other", undefined, { "If-Match": "*", "Berth-Allow-Breaking": "true" });
    const find = async () =>
      (await api.send("GET", "/state")).body.servers.find((each: Said) => each.server === "other");
    assert.equal((await find()).exists, false);
    assert.equal((await api.send("PUT", value("more", "other"), "1", { ...NEW, ...JSON_TYPE })).status, 404);
    await api.put("/definitions/other", body.files["other.ts"]);
    assert.deepEqual([(await find()).exists, (await api.send("GET", value("left", "other"))).body.value], [true, 1]);
    assert.deepEqual((await api.send("DELETE", "/state/other")).body, { keys: 1 });
    assert.equal(await find(), undefined);
    const { records } = (await api.send("GET", "/audit?kind=state")).body;
    assert.deepEqual(rows(records.slice(0, 2), "action", "by", "server", "key"), [
      "cleared api other -",
      "set api other left",
    ]);
  });

  it("is limited by stateBytes of the tenant", async () => {
    const api = apiOf({ url: `${berth.url}/t/acme` });
    await tool("keep", { key: "first", value: "x".repeat(100) }, "/t/acme");
    const second = String(await tool("keep", { key: "second", value: "x".repeat(100) }, "/t/acme"));
    assert.match(second, /more than the limit of 200 .*stateBytes/);
    await withStatus(507, api.send("PUT", value("second"), `"${"x".repeat(100)}"`, { ...NEW, ...JSON_TYPE }));
  });
});
