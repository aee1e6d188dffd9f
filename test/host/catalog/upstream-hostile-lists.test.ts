import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { compareContracts } from "../../../src/contract/compare.ts";
import type { Contract } from "../../../src/contract/contract.ts";
import { sanitizeContract } from "../../../src/contract/sanitize.ts";
import { openAssets } from "../../../src/http/assets.ts";
import { createPages } from "../../../src/http/pages/pages.ts";
import { createOffers } from "../../../src/http/pages/parts/offers.ts";
import { isObject, type JsonObject } from "../../../src/lib/json.ts";
import { toContract } from "../../../src/upstream/calls/survey.ts";
import { fixPrompt, fixResource, fixTemplate, fixTool, readEntries } from "../../../src/upstream/messages/lists.ts";
import { apiOf } from "../../support/api.ts";
import { call, withStatus } from "../../support/berth.ts";
import { changing, host, open, tool } from "../../support/hosted-upstreams.ts";
import { rows } from "../../support/rows.ts";
import { until } from "../../support/until.ts";

/** Values that a field may hold instead of the right one; the first has no text form. */
const STRANGE: readonly unknown[] = [
  { toString: 1, valueOf: 1 },
  null,
  7,
  true,
  "text",
  [],
  [null],
  [{ toString: 1 }],
  { a: null },
];

const TOOL: JsonObject = {
  name: "it",
  title: "It",
  description: "Does it.",
  inputSchema: { type: "object", properties: { a: { type: "string", default: "b" } }, required: ["a"] },
  outputSchema: { type: "object", properties: { b: { type: ["string", "null"] } }, required: ["b"] },
  annotations: { title: "It", readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  execution: { taskSupport: "optional" },
  icons: [{ src: "data:," }],
  _meta: { a: 1 },
};
const RESOURCE: JsonObject = { name: "it", title: "It", description: "It.", mimeType: "text/plain", size: 1 };
const PROMPT: JsonObject = {
  name: "it",
  title: "It",
  description: "It.",
  arguments: [{ name: "a", title: "A", description: "An a.", required: true }],
};

/** A copy for each place in a value and each strange value that can stand there, `extra` once in each object. */
function* strange(value: unknown): Generator {
  for (const each of STRANGE) yield each;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) for (const each of strange(item)) yield value.with(index, each);
  } else if (isObject(value)) {
    for (const [key, member] of Object.entries(value))
      for (const each of strange(member)) yield { ...value, [key]: each };
    for (const each of STRANGE) yield { ...value, extra: each };
  }
}

const EMPTY = { tools: [], resources: [], resourceTemplates: [], prompts: [] };
const readers = {
  tools: (entry: unknown) => readEntries("The tool", [entry], "name", fixTool),
  resources: (entry: unknown) => readEntries("The resource", [entry], "uri", fixResource),
  resourceTemplates: (entry: unknown) => readEntries("The template", [entry], "uriTemplate", fixTemplate),
  prompts: (entry: unknown) => readEntries("The prompt", [entry], "name", fixPrompt),
};

async function surveyed(kind: keyof typeof readers, entry: unknown) {
  const { items } = await readers[kind](entry);
  return toContract({ ...EMPTY, failed: [], problems: [], bytes: 0, [kind]: items });
}

const LISTS = [
  ["tools", TOOL],
  ["resources", { uri: "x://it", ...RESOURCE }],
  ["resourceTemplates", { uriTemplate: "x://{it}", ...RESOURCE }],
  ["prompts", PROMPT],
] as const;

const OBJECT = { type: "object" };
const SOUND = { name: "it", inputSchema: OBJECT };
/** A tool as a server lists it, as Berth lists it, and the problem. */
const FIXABLE: readonly (readonly [listed: JsonObject, served: JsonObject, problem: RegExp])[] = [
  [{ name: "it" }, SOUND, /inputSchema is not a JSON Schema and accepts any object/],
  [{ name: "it", inputSchema: null }, SOUND, /inputSchema is not a JSON Schema and accepts any object/],
  [{ name: "it", inputSchema: "text" }, SOUND, /inputSchema is not a JSON Schema and accepts any object/],
  [{ name: "it", inputSchema: {} }, SOUND, /inputSchema does not say "type": "object"/],
  [{ name: "it", inputSchema: { type: null } }, SOUND, /inputSchema.type is not allowed to be null/],
  [{ name: "it", inputSchema: { type: ["object", "null"] } }, SOUND, /inputSchema does not say "type": "object"/],
  [{ name: "it", inputSchema: { ...OBJECT, required: null } }, SOUND, /inputSchema.required is not allowed to be null/],
  [{ name: "it", inputSchema: { ...OBJECT, required: [7] } }, SOUND, /inputSchema.required is not a list of strings/],
  [{ name: "it", inputSchema: { ...OBJECT, properties: null } }, SOUND, /properties is not allowed to be null/],
  [{ name: "it", inputSchema: { ...OBJECT, properties: [] } }, SOUND, /inputSchema.properties is not an object/],
  [
    { name: "it", inputSchema: { ...OBJECT, properties: { a: null, description: { type: "string", enum: null } } } },
    { name: "it", inputSchema: { ...OBJECT, properties: { a: {}, description: { type: "string" } } } },
    /subschema is not allowed to be null.*inputSchema.enum is not allowed to be null/,
  ],
  [{ ...SOUND, outputSchema: null }, SOUND, /outputSchema is not a JSON Schema and is left out/],
  [{ ...SOUND, outputSchema: { required: null } }, { ...SOUND, outputSchema: {} }, /Schema.required is not allowed/],
  [{ ...SOUND, title: null, description: null }, SOUND, /title is not a string.*description is not a string/],
  [{ ...SOUND, annotations: null }, SOUND, /annotations is not an object/],
  [{ ...SOUND, annotations: { readOnlyHint: null } }, { ...SOUND, annotations: {} }, /Hint is not true or false/],
];

describe("null and other faults in what upstreams list", () => {
  for (const [listed, served, problem] of FIXABLE) {
    it(`are fixed with a warning, so that the tool stays: ${JSON.stringify(listed)}`, async () => {
      const { items, problems } = await readEntries("The tool", [listed], "name", fixTool);
      assert.deepEqual(items, [served]);
      assert.match(rows(problems, "message").join(" "), problem);
      assert.ok(problems.every(({ severity }) => severity === "warning"));
      // As an earlier version has stored it.
      if (isObject(listed["inputSchema"])) {
        const [stored] = (await sanitizeContract({ ...EMPTY, tools: [listed] }))!.tools;
        const inputSchema = { ...stored!.inputSchema, ...OBJECT };
        assert.deepEqual(JSON.parse(JSON.stringify({ ...stored, inputSchema })), served);
      }
    });
  }

  it("are not found where null is a value, or in an extension of unknown meaning", async () => {
    const inputSchema = { ...OBJECT, properties: { a: { default: null, const: null, enum: [null], "x-own": null } } };
    const { items, problems } = await readEntries("The tool", [{ name: "it", inputSchema }], "name", fixTool);
    assert.deepEqual([items, problems], [[{ name: "it", inputSchema }], []]);
  });

  it("are fixed in prompts, too", async () => {
    const listed = { name: "it", description: null, arguments: null };
    const { items, problems } = await readEntries("The prompt", [listed], "name", fixPrompt);
    assert.deepEqual(items, [{ name: "it", arguments: [] }]);
    assert.deepEqual(rows(problems, "severity"), ["warning", "warning"]);
  });
});

describe("what upstreams list with wrong types", () => {
  it("is left out wherever it stands, so that the contract has what it says it has", async () => {
    const pages = createPages(openAssets());
    const offers = createOffers(pages);
    for (const [kind, entry] of LISTS) {
      const sound = await surveyed(kind, entry);
      assert.equal(sound[kind].length, 1);
      for (const each of strange(entry)) {
        const contract = await surveyed(kind, each);
        const said = JSON.stringify(each);
        for (const item of contract[kind]) assertSound(item, said);
        assert.doesNotThrow(() => compareContracts(sound, contract), said);
        assert.doesNotThrow(() => compareContracts(contract, sound), said);
        await offers({ release: "r", contractCid: "c", contract, isNarrowed: true } as never);
        // As a version that accepted everything has stored it.
        const stored = await sanitizeContract({ ...sound, [kind]: [each] });
        for (const item of stored![kind]) assertSound(item, said);
        assert.doesNotThrow(() => compareContracts(sound, stored!), said);
      }
    }
  });

  it("is left out of what was stored, and what is sound is the very same", async () => {
    const sound: Contract = await surveyed("tools", TOOL);
    assert.equal(await sanitizeContract(sound), sound);
    const [tool] = sound.tools;
    const tools = [{ ...tool, annotations: null }, { name: "none" }];
    const strange = { ...sound, description: null, tools, prompts: null };
    const { annotations: _, ...rest } = tool!;
    assert.deepEqual(await sanitizeContract(strange), { ...sound, tools: [rest] });
    for (const none of [null, [], { tools: null }]) assert.equal(await sanitizeContract(none), undefined);
  });

  it("takes nobody else away, and leaves its entry to be changed and deleted", async (t) => {
    const hello = tool("hello", "Says hello.");
    const server = changing(t, [hello, { ...tool("it", "It."), annotations: { readOnlyHint: true } }]);
    const berth = await host(t, { u: { upstream: server.uri } });
    await call(`${berth.url}/mcp/u`, "it");
    server.offer([
      hello,
      { ...tool("it", "It."), annotations: null, title: { a: 1 } },
      { ...tool("odd", "It."), description: { a: 1 }, annotations: { readOnlyHint: "yes", other: { toString: 1 } } },
      { name: "bad", inputSchema: { type: "string" } },
      { name: "half\ud800", inputSchema: { type: "object" } },
    ] as never);
    const api = apiOf(berth);
    const problems = async (): Promise<string> => JSON.stringify((await api.send("GET", "/servers")).body);
    await until(async () => (await problems()).includes("its annotations is not an object"));
    assert.match(await problems(), /\\"bad\\" is left out: its inputSchema is of type \\"string\\"/);
    for (const mode of ["legacy", "auto"] as const) {
      const client = await open(t, berth, "", mode);
      const { tools } = await client.listTools();
      const [own, odd] = ["u.hello", "u.odd"].map((name) => tools.find((each) => each.name === name));
      assert.ok(own && odd && odd.description === undefined, JSON.stringify(tools));
    }
    for (const page of ["/mcp", "/servers", "/mcp/meta/u", "/api/servers"]) {
      assert.equal((await fetch(berth.url + page, { headers: { Accept: "text/html" } })).status, 200, page);
    }
    await withStatus(200, api.put("/entries/u", '{"enabled": false}', { "Berth-Allow-Breaking": "true" }));
    await withStatus(200, api.remove("/entries/u"));
  });
});

function assertSound(item: object, said: string): void {
  const { name, title = "", description = "", mimeType = "", ...rest } = item as Record<string, unknown>;
  for (const text of [name, title, description, mimeType]) assert.equal(typeof text, "string", said);
  const { title: shown = "", ...hints } = (rest["annotations"] ?? {}) as JsonObject;
  assert.equal(typeof shown, "string", said);
  for (const [name, hint] of Object.entries(hints)) {
    if (name.endsWith("Hint")) assert.equal(typeof hint, "boolean", said);
  }
  for (const schema of [rest["inputSchema"], rest["outputSchema"]]) {
    if (schema === undefined) continue;
    const { properties = {}, required = [] } = schema as JsonObject;
    assert.ok(isObject(properties) && Array.isArray(required), said);
    assert.ok(
      required.every((each) => typeof each === "string"),
      said,
    );
  }
  for (const argument of (rest["arguments"] ?? []) as JsonObject[]) {
    assert.deepEqual([typeof argument["name"], typeof (argument["description"] ?? "")], ["string", "string"], said);
    assert.equal(typeof argument["required"], "boolean", said);
  }
}
