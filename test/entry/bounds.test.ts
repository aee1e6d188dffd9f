import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { ToolContract } from "../../src/contract/contract.ts";
import { typeText } from "../../src/contract/signature.ts";
import { entryText } from "../../src/edits/mcps-text.ts";
import { ENTRY_ITEMS_MAX } from "../../src/entry/entry.ts";
import { readNamedEntry } from "../../src/entry/mcps.ts";
import { schemaTables } from "../../src/http/pages/parts/schema-rows.ts";
import { toolView } from "../../src/http/pages/parts/tool-view.ts";
import { mergeMcps } from "../../src/image/apply.ts";
import { decodeJson, jsonBlock, rawBlock, type Block } from "../../src/lib/cid.ts";
import { ENTRY_NESTING_MAX, type JsonSchema } from "../../src/lib/json.ts";
import { PROBLEMS_MAX } from "../../src/lib/problem.ts";
import { readingBounds } from "../../src/lib/reading-bounds.ts";
import { apiOf } from "../support/api.ts";
import { call, withStatus, type TestBerth } from "../support/berth.ts";
import { holdTimeouts } from "../support/clock.ts";
import { lower } from "../support/lowered-limits.ts";
import { rows } from "../support/rows.ts";
import { berthInSuite, hostedInSuite } from "../support/suite.ts";
import { onStoreOf } from "../support/tenants.ts";
import { until } from "../support/until.ts";

/** An entry of `levels` levels, with `inner` in the last. */
const deep = (levels: number, inner = ""): string =>
  `{"options":{"hello":{"list":${"[".repeat(levels - 3)}${inner}${"]".repeat(levels - 3)}}}}`;
const zeros = (count: number): string => Array(count).fill(0).join(",");

const hello = "export const hello = (): string => 'hello';\n";
const helloAt = async (berth: TestBerth, server: string): Promise<unknown> =>
  (await call(`${berth.url}/mcp/${server}`, "hello")).structuredContent;
/** Changes `mcps` as an earlier version could, until the server hello is refused. */
const setMcps = async (berth: TestBerth, text: string, ...put: Block[]): Promise<void> => {
  const value = rawBlock(text);
  const set = [{ kind: "variable", name: "mcps", cid: value.cid }] as const;
  await onStoreOf(berth, (store) => store.change("default", { by: "test", put: [...put, value], set }));
  await until(async () => /"error"|isError/.test(JSON.stringify(await call(`${berth.url}/mcp/hello`, "hello"))));
};

after(holdTimeouts(readingBounds.checkMs));

const nestedEnum = JSON.parse(`[${"[".repeat(40)}${zeros(20_000)}${"]".repeat(40)}]`) as unknown[];
const nestedSchema = { type: "object", properties: { a: { enum: nestedEnum } } };
const berth = berthInSuite({
  texts: { "hello.ts": hello, "other.ts": hello },
  mcps: { nested: { definition: "hello.ts", tools: { hello: { inputSchema: nestedSchema } } } },
});

describe("an entry that nests deep", () => {
  const api = apiOf(berth);
  const helloOf = (server: string) => helloAt(berth, server);

  it("is refused by its first field that is too deep, with the place of that", () => {
    assert.deepEqual(readNamedEntry("demo", JSON.parse(deep(ENTRY_NESTING_MAX))).problems, []);
    const { problems, refused } = readNamedEntry("demo", JSON.parse(deep(ENTRY_NESTING_MAX + 1)));
    assert.equal(refused, true);
    const pointer = `/demo/options/hello/list${"/0".repeat(ENTRY_NESTING_MAX - 3)}`;
    assert.deepEqual(rows(problems, "code", "pointer"), [`too-deep ${pointer}`]);
  });

  it("is not saved, and costs nobody anything", async () => {
    for (const text of [deep(ENTRY_NESTING_MAX + 1), deep(1_000, zeros(20_000)), deep(5_000)]) {
      for (const [method, path] of [
        ["PUT", "/entries/hello"],
        ["POST", "/entries/hello/review"],
      ] as const) {
        const { status, body } = await api.send(method, path, text, { "If-Match": "*" });
        const problems = method === "PUT" ? body.error.data.problems : body.problems;
        assert.equal(status, method === "PUT" ? 422 : 200, JSON.stringify(body).slice(0, 500));
        assert.match(problems[0].message, /nest at most 64 levels deep|nested too deeply/);
        assert.ok(JSON.stringify(body).length < 10_000);
      }
    }
    assert.deepEqual(await helloOf("hello"), { result: "hello" });
  });

  it("or has thousands of values far inside is not written with indents", () => {
    const text = deep(ENTRY_NESTING_MAX, zeros(100_000));
    assert.equal(entryText(JSON.parse(text)), `${text}\n`);
    assert.equal(entryText({ options: { a: [0] } }), `${JSON.stringify({ options: { a: [0] } }, null, 2)}\n`);
  });

  it("of an earlier version keeps an image's changes out of the configuration, and says so", async () => {
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    const { value, entries } = await mergeMcps({
      base: bytes("{}"),
      mine: bytes(`{"demo":${deep(20_000)}}`),
      theirs: bytes('{"other":{}}'),
      read: async () => undefined,
    });
    assert.equal(value, undefined);
    assert.match(entries[0]!.message!, /"demo" .* nests more than 64 levels deep/);
  });

  it("of a store that an earlier version left refuses its own server, is read, and can be mended", async () => {
    const { body } = await api.send("GET", "/variables/mcps");
    const entries = JSON.parse(body.files.mcps) as Record<string, unknown>;
    const kept = JSON.stringify(entries["hello"]);
    for (const text of [deep(1_000, zeros(20_000)), deep(20_000)]) {
      await setMcps(berth, JSON.stringify({ ...entries, hello: "HELLO" }).replace('"HELLO"', text));
      assert.deepEqual(await helloOf("other"), { result: "hello" });
      const read = await api.send("GET", "/entries/hello");
      assert.equal(read.status, 200, JSON.stringify(read.body).slice(0, 500));
      assert.equal(read.body.files.hello, `${text}\n`);
      const { body: history } = await api.send("GET", "/entries/hello/history");
      assert.equal(history.versions[0].cid, read.cid);
      const mended = await api.send("PUT", "/entries/hello", kept, { "If-Match": `"${read.cid}"` });
      assert.equal(mended.status, 200, JSON.stringify(mended.body).slice(0, 500));
      assert.deepEqual(await helloOf("hello"), { result: "hello" });
    }
  });
});

describe("a configuration of very many entries, or values", () => {
  const env = { BERTH_MCPS_ENTRIES: "4", BERTH_ENTRY_VALUES: "100", BERTH_VARIABLES_PER_TENANT: "2" };
  const small = berthInSuite({ texts: { "hello.ts": hello, "other.ts": hello }, env });
  const api = apiOf(small);
  const helloOf = (server: string) => helloAt(small, server);
  let own: string;
  before(async () => {
    own = JSON.stringify(JSON.parse((await api.send("GET", "/variables/mcps")).body.files.mcps));
  });
  /** The configuration with further members. */
  const withMore = (members: string): string => `${own.slice(0, -1)},${members}}`;
  const disabled = (count: number): string =>
    Array.from({ length: count }, (_, n) => `"a${n}":{"enabled":false}`).join(",");
  const listOf = (items: string): string => `{"options":{"hello":{"list":[${items}]}}}`;

  it("is saved as long as there are no more than there may be", async () => {
    const most = { entries: disabled(2), values: `"a":${listOf(zeros(96))}` };
    for (const members of Object.values(most)) {
      const { body } = await api.send("POST", "/variables/mcps/review", withMore(members));
      assert.doesNotMatch(JSON.stringify(body.problems), /too-many/);
    }
  });

  it("variablesPerTenant: stands beside so many variables, each of which can still be saved", async () => {
    assert.equal((await api.put("/variables/one", "1")).status, 201);
    const more = await withStatus(422, api.put("/variables/two", "2"));
    assert.match(more.body.error.message, /There are 2 variables, and the limit is 2/);
    assert.equal((await api.put("/variables/one", "one")).status, 200);
    assert.equal((await api.send("DELETE", "/variables/one", undefined, { "If-Match": "*" })).status, 200);
    assert.equal((await api.put("/variables/two", "2")).status, 201);
  });

  const cases: [what: string, members: () => string, message: RegExp][] = [
    ["one entry", () => disabled(3), /more than 4 entries/],
    ["20,000 entries", () => disabled(20_000), /more than 4 entries/],
    ["one value", () => `"a":${listOf(zeros(97))}`, /at most 100 values/],
    ["100,000 numbers", () => `"a":${listOf(zeros(100_000))}`, /at most 100 values/],
    ["100,000 lists", () => `"a":${listOf(Array(100_000).fill("[]").join())}`, /at most 100 values/],
  ];
  for (const [what, members, message] of cases) {
    it(`is refused before any of them is read: ${what} too many`, async (t) => {
      const value = withMore(members());
      const parse = t.mock.method(JSON, "parse");
      const { body: saved } = await api.send("PUT", "/variables/mcps", value, { "If-Match": "*" });
      const { body: reviewed } = await api.send("POST", "/variables/mcps/review", value);
      const lengths = parse.mock.calls.map(({ arguments: [text] }) => text.length);
      parse.mock.restore();
      assert.match(saved.error.message, message);
      assert.match(reviewed.problems[0].message, message);
      assert.deepEqual(reviewed.servers, []);
      if (value.length > 100_000) assert.ok(Math.max(...lengths) < 50_000 && lengths.length < 200, String(lengths));
      assert.deepEqual(await helloOf("hello"), { result: "hello" });
    });
  }

  it("is refused where one entry, or one definition, would make them too many", async () => {
    await withStatus(200, api.put("/variables/mcps", withMore(disabled(2))));
    const refused = [
      await api.put("/entries/further", '{"enabled":false}'),
      await api.put("/definitions/further", hello),
      await api.put("/entries/a0", listOf(zeros(97))),
      await api.put("/entries/a0", listOf(zeros(300_000))),
    ];
    const answers = refused.map(({ status, body }) => [
      status,
      /at most 100 values|more than 4 entries/.exec(body.error.message)?.[0],
    ]);
    assert.deepEqual(answers, [
      [422, "more than 4 entries"],
      [422, "more than 4 entries"],
      [422, "at most 100 values"],
      [422, "at most 100 values"],
    ]);
    assert.equal((await api.put("/variables/mcps", own)).status, 200);
  });

  it("refuses the entry alone where it stands in a store already, which can be mended", async () => {
    const list = listOf(zeros(300_000));
    const apart = rawBlock(list);
    for (const [entry, put] of [
      [list, []],
      [`{"config_cid":"${apart.cid}"}`, [apart]],
    ] as const) {
      await setMcps(small, own.replace(/"hello":\{[^}]*\}/, `"hello":${entry}`), ...put);
      assert.match(JSON.stringify(await call(`${small.url}/mcp/hello`, "hello")), /at most 100 values/);
      assert.deepEqual(await helloOf("other"), { result: "hello" });
      await withStatus(200, api.put("/entries/hello", JSON.stringify((JSON.parse(own) as { hello: object }).hello)));
      assert.deepEqual(await helloOf("hello"), { result: "hello" });
    }
  });

  it("gives no servers where it stands in a store already, and the others serve on", async () => {
    await setMcps(small, withMore(disabled(3)));
    assert.equal((await api.put("/variables/mcps", own)).status, 200);
    assert.deepEqual(await helloOf("hello"), { result: "hello" });
  });
});

const unknown = (count: number): Record<string, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 1]));

describe("an entry with many faults", () => {
  it("is told of the first, and how many there are beyond", () => {
    const { problems, refused } = readNamedEntry("demo", unknown(20_000));
    assert.equal(refused, true);
    assert.equal(problems.length, PROBLEMS_MAX + 1);
    assert.match(problems[PROBLEMS_MAX]!.message, /There are 19900 more problems/);
  });

  it("offers nothing that is wrong, whether anybody is told of it or not", () => {
    const wrong = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`tool${index}`, { title: 1 }]));
    const { entry } = readNamedEntry("demo", { tools: { ...wrong, right: { title: "Right" } } });
    assert.deepEqual(Object.keys(entry.tools), ["right"]);
    assert.equal(entry.leftOut.tools.length, 300);
  });

  it("is refused with a small answer, each problem where it stands, and the service serves on", async () => {
    const text = JSON.stringify(unknown(20_000), null, 1);
    const { body } = await withStatus(422, apiOf(berth).put("/entries/hello", text));
    const { problems } = body.error.data;
    assert.equal(problems.length, PROBLEMS_MAX + 1);
    assert.deepEqual([problems[0].line, problems[99].line], [2, 101]);
    assert.match(problems[99].frame, /> 101 \|  "k99": 1,/);
    assert.ok(JSON.stringify(body).length < 200_000, `${JSON.stringify(body).length} characters`);
    assert.deepEqual(await helloAt(berth, "hello"), { result: "hello" });
  });

  it("in many servers of the configuration is refused with a small answer, errors first", async () => {
    const servers = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`server${index}`, unknown(50)]));
    const { body } = await withStatus(422, apiOf(berth).put("/variables/mcps", JSON.stringify(servers)));
    const { problems } = body.error.data;
    assert.equal(problems.length, PROBLEMS_MAX + 1);
    assert.match(problems[PROBLEMS_MAX].message, /There are \d+ more problems/);
    assert.ok(problems.slice(0, PROBLEMS_MAX).every(({ severity }: { severity: string }) => severity === "error"));
  });
});

describe("a schema that is far longer written out than as it is", () => {
  /** Each level is five times as large as its inner one. */
  const types = ["string", "number", "boolean", "null", "array"];
  const exponential = (levels: number): JsonSchema =>
    levels === 0 ? { type: "string" } : { anyOf: types.map(() => ({ type: "array", items: exponential(levels - 1) })) };
  const nested = (levels: number): JsonSchema =>
    JSON.parse(`${'{"type":"array","items":'.repeat(levels)}{}${"}".repeat(levels)}`) as JsonSchema;
  const tool = (schema: JsonSchema): ToolContract => ({
    name: "t",
    description: "d".repeat(1_000_000),
    inputSchema: { type: "object", properties: { a: schema, b: { ...schema, description: "d".repeat(1_000_000) } } },
    outputSchema: schema,
  });

  it("has the beginning of its signature, and of each of its texts, on a page", () => {
    const long = { type: "string", default: "x".repeat(1_000_000), pattern: "y".repeat(1_000_000) };
    for (const schema of [exponential(7), nested(4_000), { enum: ["z".repeat(1_000_000)] }, long]) {
      let rows = "";
      const view = toolView(
        tool(schema),
        true,
        schemaTables((each) => (rows += JSON.stringify(each))),
      );
      assert.ok(view.signature.length < 100_000, `a signature of ${view.signature.length}`);
      assert.ok(rows.length < 50_000, `rows of ${rows.length}`);
      assert.ok(view.description.length < 20_000);
      assert.ok(typeText(schema).length < 5_000);
    }
  });

  it("is given as JSON without indents", async () => {
    const text = await (await fetch(`${berth.url}/mcp/meta/nested?tool=hello`)).text();
    assert.deepEqual((JSON.parse(text) as ToolContract).inputSchema, nestedSchema);
    assert.ok(text.length < 50_000, `${text.length} characters`);
  });
});

/** `count` resources of an entry, or of a contract. */
const resources = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`r${n}`, `a:${n}`]));
const entryResources = (count: number) =>
  Object.fromEntries(Object.entries(resources(count)).map(([name, uri]) => [name, { uri, text: name }]));

describe("an entry of thousands of things", () => {
  const hosted = hostedInSuite({ words: "export const say = (): string => 'one';\n" });

  it("is refused, and none of them is looked at", () => {
    const all = { tools: resources, resources: entryResources, prompts: resources };
    for (const [field, of] of Object.entries(all)) {
      const { problems, refused, entry } = readNamedEntry("demo", { [field]: of(ENTRY_ITEMS_MAX + 1) });
      assert.deepEqual([refused, ...rows(problems, "code", "pointer")], [true, `too-many-items /demo/${field}`]);
      assert.match(problems[0]!.message, new RegExp(`${ENTRY_ITEMS_MAX + 1} ${field}.*at most ${ENTRY_ITEMS_MAX}`));
      assert.deepEqual(entry.leftOut, { tools: [], prompts: [], resources: [] });
    }
    for (const field of ["secrets", "variables", "network", "folders", "consent"]) {
      const { problems, refused } = readNamedEntry("demo", { [field]: Array(5_001).fill("a.example") });
      assert.deepEqual([refused, ...rows(problems, "code", "pointer")], [true, `too-many-items /demo/${field}`]);
    }
    const { problems, entry } = readNamedEntry("demo", { resources: entryResources(ENTRY_ITEMS_MAX) });
    assert.deepEqual([problems, entry.resources.length], [[], ENTRY_ITEMS_MAX]);
  });

  it("has a page with the first hundred of each kind, and how many more there are", async () => {
    const template = { uriTemplate: "t:{x}", content: "variable://{x}" };
    const message = { role: "user", content: "Hi" };
    const prompts = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`p${n}`, { messages: [message] }]));
    const many = { resources: { ...entryResources(150), template }, prompts };
    const saved = await apiOf(berth).put("/entries/hello", JSON.stringify(many), { "Berth-Allow-Breaking": "true" });
    assert.equal(saved.status, 200, JSON.stringify(saved.body).slice(0, 500));
    const page = await (await fetch(`${berth.url}/mcp/meta/hello`, { headers: { Accept: "text/html" } })).text();
    assert.equal(page.match(/<dt><code>a:/g)?.length, 100);
    assert.equal(page.match(/<dt><code>p\d/g)?.length, 100);
    assert.match(page, /51 more resources; clients get all/);
    assert.match(page, /1 more prompt; clients get all/);
  });

  it("or one that nests deep, of an earlier release, is served as it was", async () => {
    const structure = async (cid: string) =>
      decodeJson((await hosted.store.content("default", cid))!) as Record<string, unknown>;
    const parts = await structure((await hosted.catalog("words")).release);
    const count = ENTRY_ITEMS_MAX + 500;
    const options = { say: { list: (JSON.parse(deep(200)) as { options: unknown }).options } };
    const config = rawBlock(JSON.stringify({ options, resources: entryResources(count) }));
    const listed = Object.entries(resources(count)).map(([name, uri]) => ({ uri, name }));
    const contract = jsonBlock({ ...(await structure(parts["contract"] as string)), resources: listed });
    const release = jsonBlock({ ...parts, config: config.cid, contract: contract.cid });
    const set = [{ kind: "release", name: "words", cid: release.cid }] as const;
    await hosted.store.change("default", { by: "test", put: [config, contract, release], set });
    const catalog = await hosted.catalog(`words@${release.cid}`);
    assert.equal(catalog.contract.resources.length, count);
    assert.deepEqual(await (await catalog.resource("a:1499"))!.read({}), {
      contents: [{ uri: "a:1499", mimeType: "text/plain", text: "r1499" }],
    });
    assert.equal(await catalog.servesUri("a:1500"), false);
    assert.equal(await catalog.servesUri("a:1499"), true);
  });

  for (const [limit, most, told] of [
    ["contractBytes", 20_000, /more than 20000 bytes/],
    ["contractValues", 1_000, /more than 1000 JSON values/],
  ] as const) {
    it(`${limit}: is refused where they have more together, though one function has their schema once`, async (t) => {
      t.after(lower({ [limit]: most }));
      await hosted.define("words", "export const say = (text: string): string => text;\n");
      const tools = (count: number) =>
        Object.fromEntries(Array.from({ length: count }, (_, n) => [`t${n}`, { function: "say" }]));
      await hosted.configure({ words: { tools: tools(20) } });
      const { release } = await hosted.catalog("words");
      await hosted.configure({ words: { tools: tools(500) } });
      await assert.rejects(hosted.catalog("words"), told);
      assert.equal((await hosted.catalog(`words@${release}`)).contract.tools.length, 20);
    });
  }
});
