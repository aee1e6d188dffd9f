import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ContractChange } from "../../src/contract/change.ts";
import { compareContracts } from "../../src/contract/compare.ts";
import type { Contract, ToolContract } from "../../src/contract/contract.ts";
import type { JsonSchema } from "../../src/lib/json.ts";
import { rows } from "../support/rows.ts";

const contract = (...tools: ToolContract[]): Contract => ({ tools, resources: [], resourceTemplates: [], prompts: [] });
const tool = (name: string, properties: JsonSchema, required: string[] = [], more: JsonSchema = {}): ToolContract => ({
  name,
  inputSchema: { type: "object", properties, required, additionalProperties: false, ...more },
});
const text = { type: "string" };
const flag = { type: "boolean", default: false };

/** `effect pointer`, and the present name. */
const brief = ({ effect, pointer, renamedTo }: ContractChange): string =>
  [effect, pointer, renamedTo && `→ ${renamedTo}`].filter(Boolean).join(" ");
const between = (before: Contract, after: Contract): string[] => compareContracts(before, after).map(brief);
const sent = (before: JsonSchema, after: JsonSchema): string[] =>
  between(contract(tool("t", { x: before })), contract(tool("t", { x: after }))).map((line) =>
    line.replace("/inputSchema/properties/x", ""),
  );
const read = (before: JsonSchema, after: JsonSchema): string[] =>
  between(
    contract({ ...tool("t", {}), outputSchema: before }),
    contract({ ...tool("t", {}), outputSchema: after }),
  ).map((line) => line.replace("/outputSchema", ""));

describe("what callers may send", () => {
  const cases: [string, JsonSchema, JsonSchema, string[]][] = [
    ["a type that is another", text, { type: "number" }, ["breaking /type", "compatible /type"]],
    ["a type that is one of two now", { type: "boolean" }, { type: ["boolean", "string"] }, ["compatible /type"]],
    ["integer to number", { type: "integer" }, { type: "number" }, ["compatible /type"]],
    ["number to integer", { type: "number" }, { type: "integer" }, ["breaking /type"]],
    ["a value that is gone", { enum: ["a", "b"] }, { enum: ["a"] }, ["breaking /enum"]],
    ["a value that is new", { enum: ["a"] }, { enum: ["a", "b"] }, ["compatible /enum"]],
    ["values that become any text", { enum: ["a"] }, text, ["compatible /enum"]],
    ["any text that becomes values", text, { enum: ["a"] }, ["breaking /enum"]],
    ["a tighter limit", { ...text, maxLength: 9 }, { ...text, maxLength: 5 }, ["breaking /maxLength"]],
    ["a looser limit", { ...text, minLength: 9 }, { ...text, minLength: 5 }, ["compatible /minLength"]],
    ["a limit that is new", { type: "number" }, { type: "number", exclusiveMinimum: 0 }, ["breaking /minimum"]],
    ["a limit of what was not taken before", text, { type: ["string", "number"], minimum: 3 }, ["compatible /type"]],
    ["a format that is new", text, { ...text, format: "email" }, ["breaking /format"]],
    ["another pattern", { ...text, pattern: "a" }, { ...text, pattern: "b" }, ["review /pattern"]],
    [
      "elements",
      { type: "array", items: text },
      { type: "array", items: { ...text, minLength: 1 } },
      ["breaking /items/minLength"],
    ],
    ["multiples", { type: "number", multipleOf: 4 }, { type: "number", multipleOf: 2 }, ["compatible /multipleOf"]],
    ["a keyword that is not understood", text, { ...text, "x-mcp-header": "A" }, ["review /x-mcp-header"]],
    ["a description", text, { ...text, description: "new" }, ["review /description"]],
    ["a default", { ...text, default: "a" }, { ...text, default: "b" }, ["review /default"]],
    ["a type that becomes alternatives", text, { anyOf: [text, { type: "number" }] }, ["compatible /anyOf/1"]],
    ["an alternative that is gone", { anyOf: [text, { type: "number" }] }, text, ["breaking /anyOf/1"]],
    ["types and alternatives that are the same", { type: ["string", "null"] }, { anyOf: [{ type: "null" }, text] }, []],
    [
      "values and alternatives that are the same",
      { enum: ["a", "b"] },
      { anyOf: [{ const: "a" }, { const: "b" }] },
      [],
    ],
    [
      "alternatives of oneOf that overlap",
      { oneOf: [text] },
      { oneOf: [text, { ...text, minLength: 2 }] },
      ["review /oneOf", "compatible /oneOf/1"],
    ],
  ];
  for (const [what, before, after, expected] of cases) {
    it(`${what}: ${expected.join(", ") || "nothing"}`, () => assert.deepEqual(sent(before, after), expected));
  }

  it("arguments that are new, gone, required, and required with a default", () => {
    const before = contract(tool("t", { a: text, b: text, c: text, gone: { type: "array" } }, ["a"]));
    const after = contract(
      tool("t", { a: text, b: text, c: { ...text, default: "c" }, optional: flag, asked: { type: "number" } }, [
        "b",
        "c",
        "asked",
      ]),
    );
    assert.deepEqual(between(before, after), [
      "compatible /inputSchema/properties/a",
      "breaking /inputSchema/properties/b",
      "review /inputSchema/properties/c/default",
      "compatible /inputSchema/properties/c",
      "breaking /inputSchema/properties/gone",
      "compatible /inputSchema/properties/optional",
      "breaking /inputSchema/properties/asked",
    ]);
  });

  it("an argument that is gone is for a person to judge where others are taken and nobody had to give it", () => {
    const open = { additionalProperties: true };
    const lines = between(contract(tool("t", { a: text }, [], open)), contract(tool("t", {}, [], open)));
    assert.deepEqual(lines, ["review /inputSchema/properties/a"]);
  });

  it("what becomes of calls that give an argument that is gone is said as far as the schema tells it", () => {
    const number = { type: "number" };
    const said = (more: JsonSchema, required: string[] = []): string[] =>
      compareContracts(contract(tool("t", { a: text }, required)), contract(tool("t", {}, [], more))).map(
        ({ effect, message }) => `${effect}: ${message}`,
      );
    const of = (rest: string): string => `"a" is removed: ${rest}.`;
    // Servers that declare this may ignore unknown members and accept the call.
    const mayBeRefused = `breaking: ${of("calls that pass it no longer fit the schema, and may be refused")}`;
    assert.deepEqual(said({}), [mayBeRefused]);
    assert.deepEqual(said({ additionalProperties: { not: {} } })[0], mayBeRefused);
    assert.deepEqual(said({}, ["a"])[0], mayBeRefused);
    const patterned = said({ patternProperties: { "^x-": text } });
    assert.ok(
      patterned.includes(`breaking: ${of("calls that pass it may be refused, unless a name pattern accepts it")}`),
    );
    for (const open of [{ additionalProperties: true }, { additionalProperties: undefined }]) {
      const free = said(open).concat(said(open, ["a"]));
      assert.ok(free.includes(`review: ${of("calls that pass it are accepted, and it no longer has any effect")}`));
      assert.ok(free.includes(`breaking: ${of("every call passes it, and it no longer has any effect")}`));
      assert.doesNotMatch(free.join("\n"), /refused/);
    }
    const bound = said({ additionalProperties: number });
    assert.equal(
      bound[0],
      `review: ${of("calls may still pass it like any other name, and it no longer has any effect")}`,
    );
    assert.match(bound[1]!, /^breaking: "a" is no longer string, but number: calls with other values are refused\.$/);
  });

  it("an input schema that was stored empty is unknown, and breaks nothing", () => {
    const old = (inputSchema: JsonSchema): Contract =>
      contract({ name: "t", inputSchema }, tool("u", { x: text }, ["x"]));
    const now = contract(tool("t", { a: text, b: text }, ["a"]), tool("u", { x: text, y: text }, ["x", "y"]));
    for (const empty of [{}, { $schema: "https://json-schema.org/draft/2020-12/schema" }]) {
      assert.deepEqual(rows(compareContracts(old(empty), now), "name", "pointer", "effect", "message"), [
        "t /inputSchema review The old schema of the arguments is unknown: whether old calls still fit is unclear.",
        'u /inputSchema/properties/y breaking "y" is new and required: calls without it are refused.',
      ]);
      assert.deepEqual(between(old(empty), old(empty)), []);
    }
    assert.deepEqual(between(old({ type: "object" }), now)[0], "breaking /inputSchema/properties/a");
    // A tool with an unknown schema is not the same as a tool without arguments under another name.
    const before = contract({ name: "read", inputSchema: {} });
    assert.deepEqual(between(before, contract(tool("ping", {}), tool("count", { x: text }))), [
      "breaking",
      "compatible",
      "compatible",
    ]);
  });

  it("references are followed, for ever if they lead back", () => {
    const tree = (value: JsonSchema): JsonSchema => ({
      $ref: "#/$defs/node",
      $defs: { node: { type: "object", properties: { value, next: { $ref: "#/$defs/node" } } } },
    });
    const lines = between(
      contract({ name: "t", inputSchema: tree(text) }),
      contract({ name: "t", inputSchema: tree({ ...text, maxLength: 3 }) }),
    );
    assert.deepEqual(lines, ["breaking /inputSchema/properties/value/maxLength"]);
  });
});

describe("what readers may rely on", () => {
  const object = (properties: JsonSchema, required: string[] = []): JsonSchema => ({
    type: "object",
    properties,
    required,
  });
  it("is the other way round", () => {
    assert.deepEqual(read({ ...text, maxLength: 9 }, { ...text, maxLength: 5 }), ["compatible /maxLength"]);
    assert.deepEqual(read({ ...text, maxLength: 5 }, { ...text, maxLength: 9 }), ["breaking /maxLength"]);
    assert.deepEqual(read({ enum: ["a"] }, { enum: ["a", "b"] }), ["breaking /enum"]);
    assert.deepEqual(read(text, { anyOf: [text, { type: "null" }] }), ["breaking /anyOf/1"]);
    assert.deepEqual(read({ anyOf: [text, { type: "null" }] }, text), ["compatible /anyOf/1"]);
    assert.deepEqual(read(object({ a: text }, ["a"]), object({ a: text })), ["breaking /properties/a"]);
    assert.deepEqual(read(object({ a: text }), object({ a: text }, ["a"])), ["compatible /properties/a"]);
    assert.deepEqual(read(object({ a: text }), object({})), ["breaking /properties/a"]);
    assert.deepEqual(read(object({}), object({ a: text })), ["compatible /properties/a"]);
    assert.deepEqual(read(object({ a: text }), object({ b: text })), ["breaking /properties/a → b"]);
  });

  it("is new or gone as a whole", () => {
    const plain = contract(tool("t", {}));
    const promising = contract({ ...tool("t", {}), outputSchema: text });
    assert.deepEqual(between(plain, promising), ["compatible /outputSchema"]);
    assert.deepEqual(between(promising, plain), ["breaking /outputSchema"]);
  });
});

describe("tools, resources and prompts", () => {
  it("are new, gone, and recognised under another name", () => {
    const add = tool("add", { a: { type: "number" }, b: { type: "number" } }, ["a", "b"]);
    const before = contract(add, tool("old", { x: text }), tool("ping", {}));
    const after = contract({ ...add, name: "get-sum" }, tool("ping", {}), tool("fresh", { y: { type: "array" } }));
    const changes = compareContracts(before, after);
    const shown = changes.map((change) => `${change.name}: ${brief(change)}`);
    assert.deepEqual(shown, ["add: breaking → get-sum", "old: breaking", "fresh: compatible"]);
    for (const { message } of changes) assert.match(message, /^[A-Z].*\.$/);
  });

  it("are not taken for one another where several could be meant", () => {
    const before = contract(tool("one", { x: text }));
    const after = contract(tool("two", { x: text }), tool("three", { x: text }));
    assert.deepEqual(between(before, after), ["breaking", "compatible", "compatible"]);
  });

  it("have texts and hints that a person judges", () => {
    const before = { ...tool("t", {}), description: "Reads.", annotations: { readOnlyHint: true } };
    const after = { ...tool("t", {}), title: "T", description: "Writes.", annotations: { readOnlyHint: false } };
    assert.deepEqual(between(contract(before), contract(after)), [
      "review /title",
      "review /description",
      "review /annotations/readOnlyHint",
    ]);
  });

  it("are compared by URI, by template and by the arguments of prompts", () => {
    const before: Contract = {
      ...contract(),
      description: "Old",
      resources: [{ uri: "a://1", name: "one", mimeType: "text/plain" }],
      resourceTemplates: [{ uriTemplate: "a://{x}", name: "any" }],
      prompts: [{ name: "p", arguments: [{ name: "topic", required: false }] }],
    };
    const after: Contract = {
      ...contract(),
      description: "New",
      resources: [{ uri: "a://2", name: "one", mimeType: "text/plain" }],
      resourceTemplates: [{ uriTemplate: "a://{x}", name: "any", mimeType: "text/html" }],
      prompts: [{ name: "p", arguments: [{ name: "topic", required: true }] }],
    };
    const shown = compareContracts(before, after).map((change) => `${change.subject} ${change.name} ${brief(change)}`);
    assert.deepEqual(shown, [
      "server  review /description",
      "resource a://1 breaking → a://2",
      "template a://{x} review /mimeType",
      "prompt p breaking /arguments/topic",
    ]);
  });
});

describe("drifts of real servers", () => {
  it("context7: a tool with other names for all, and one more argument that is required", () => {
    const docs = tool(
      "get-library-docs",
      { context7CompatibleLibraryID: text, mode: text, topic: text, page: { type: "integer" } },
      ["context7CompatibleLibraryID"],
    );
    const before = contract(tool("resolve-library-id", { libraryName: text }, ["libraryName"]), docs);
    const after = contract(
      tool("resolve-library-id", { query: text, libraryName: text }, ["query", "libraryName"]),
      tool("query-docs", { libraryId: text, query: text }, ["libraryId", "query"]),
    );
    const changes = compareContracts(before, after);
    const lines = changes.map((change) => `${change.name}: ${brief(change)}`);
    assert.ok(lines.includes("resolve-library-id: breaking /inputSchema/properties/query"), lines.join("\n"));
    assert.ok(lines.includes("get-library-docs: breaking → query-docs"), lines.join("\n"));
    assert.ok(
      lines.includes("get-library-docs: breaking /inputSchema/properties/context7CompatibleLibraryID → libraryId"),
      lines.join("\n"),
    );
  });

  it("playwright: arguments renamed, alone, in pairs and inside of lists", () => {
    const form = (name: string): JsonSchema => ({
      type: "array",
      items: { type: "object", properties: { name: text, [name]: text }, required: ["name", name] },
    });
    const before = contract(
      tool("browser_click", { element: text, ref: text }, ["ref"]),
      tool("browser_drag", { startRef: text, endRef: text }, ["startRef", "endRef"]),
      tool("browser_fill_form", { fields: form("ref") }, ["fields"]),
      tool("browser_run_code", { code: text }, ["code"]),
    );
    const after = contract(
      tool("browser_click", { element: text, target: text }, ["target"]),
      tool("browser_drag", { startTarget: text, endTarget: text }, ["startTarget", "endTarget"]),
      tool("browser_fill_form", { fields: form("target") }, ["fields"]),
      tool("browser_run_code_unsafe", { code: text }, ["code"]),
    );
    const shown = compareContracts(before, after).map((change) => `${change.name}: ${brief(change)}`);
    assert.deepEqual(shown, [
      "browser_click: breaking /inputSchema/properties/ref → target",
      "browser_drag: breaking /inputSchema/properties/startRef → startTarget",
      "browser_drag: breaking /inputSchema/properties/endRef → endTarget",
      "browser_fill_form: breaking /inputSchema/properties/fields/items/properties/ref → target",
      "browser_run_code: breaking → browser_run_code_unsafe",
    ]);
  });

  it("the seed: a required argument is renamed beside optional ones that go and come", () => {
    const before = contract(tool("search", { gene: text, disease: text }, ["gene"]));
    const after = contract(tool("search", { query: text, filters: { type: "object" } }, ["query"]));
    assert.deepEqual(between(before, after), [
      "breaking /inputSchema/properties/gene → query",
      "breaking /inputSchema/properties/disease",
      "compatible /inputSchema/properties/filters",
    ]);
  });

  it("an optional argument that is described otherwise is no other's new name", () => {
    const topic = { ...text, description: "What to focus on." };
    const query = { ...text, description: "A question in full words, with all that belongs to it." };
    assert.deepEqual(
      between(contract(tool("docs", { topic, page: { type: "integer" } })), contract(tool("docs", { query }))),
      [
        "breaking /inputSchema/properties/topic",
        "breaking /inputSchema/properties/page",
        "compatible /inputSchema/properties/query",
      ],
    );
  });

  it("a renamed argument that is newly required says both", () => {
    const before = contract(tool("find", { libraryName: text }));
    const after = contract(tool("find", { library: text }, ["library"]));
    assert.deepEqual(between(before, after), [
      "breaking /inputSchema/properties/libraryName → library",
      "breaking /inputSchema/properties/libraryName",
    ]);
  });

  it("playwright: a renamed flag among new ones", () => {
    const before = contract(tool("browser_network_requests", { includeStatic: flag }));
    const after = contract(
      tool("browser_network_requests", { static: flag, requestBody: flag, requestHeaders: flag }, [
        "static",
        "requestBody",
        "requestHeaders",
      ]),
    );
    assert.deepEqual(between(before, after), [
      "breaking /inputSchema/properties/includeStatic → static",
      "compatible /inputSchema/properties/includeStatic",
      "compatible /inputSchema/properties/requestBody",
      "compatible /inputSchema/properties/requestHeaders",
    ]);
  });

  it("filesystem: a list whose schemas have lost their type", () => {
    const after = { name: "read_file", inputSchema: { $schema: "http://json-schema.org/draft-07/schema#" } };
    const lines = between(contract(tool("read_file", { path: text }, ["path"])), contract(after));
    assert.deepEqual(lines.slice(0, 2), ["breaking /inputSchema/type", "breaking /inputSchema/properties/path"]);
  });
});
