import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { Ajv2020 } from "ajv/dist/2020.js";
import { packageRoot } from "../../src/config.ts";
import { parseMcps, readNamedEntry } from "../../src/entry/mcps.ts";
import { findSchemaFault } from "../../src/host/calls/arguments.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Problem } from "../../src/lib/problem.ts";

const read = (path: string): object => JSON.parse(readFileSync(join(packageRoot, path), "utf8")) as object;
const schema = read("reference_templates/mcps.schema.json");
const validate = new Ajv2020({ allErrors: true, strict: false }).compile(schema);

const cid = rawBlock("something").cid;
const said = [{ role: "user", content: "Hm" }];
const tool = (tool: unknown) => ({ echo: { tools: { echo: tool } } });
const resource = (resource: unknown) => ({ echo: { resources: { r: resource } } });
const prompt = (prompt: unknown) => ({ echo: { prompts: { p: prompt } } });

const good: Record<string, unknown> = {
  nothing: {},
  "a schema": { $schema: "./mcps.schema.json", echo: {} },
  "every field": {
    "a.b-c_1": {
      description: "d",
      definition: cid,
      tools: {},
      resources: {},
      prompts: {},
      auto_discover: true,
      tools_transform_cid: cid,
      resources_transform_cid: cid,
      prompts_transform_cid: cid,
      enabled: true,
      mcp_enabled: false,
      options: { echo: { any: [1] } },
      limits: { calls: 3, calls_per_second: 10 },
      retain_calls: "7d",
      consent: ["echo", "*"],
      secrets: ["API_TOKEN", "_x"],
      env: { API_TOKEN: "${API_TOKEN}", LOG_LEVEL: "info", TZ: "UTC" },
      network: ["api.example.org", "*.example.org:8443", "*", "127.0.0.1:80", "[::1]:80", "bücher.example"],
    },
  },
  "an upstream with secrets": { far: { upstream: "mcp+npx://x?env.A=${A_TOKEN}", secrets: ["A_TOKEN"] } },
  "an upstream": { far: { upstream: "mcp+npx://x" } },
  "an upstream that runs on each node": { far: { upstream: "mcp+npx://x", runs: "everywhere" } },
  "an upstream whose breaking changes wait": { far: { upstream: "mcp+npx://x", hold: "breaking" } },
  "an upstream whose breaking changes make it wait": {
    far: { upstream: "mcp+npx://x", hold: "breaking", hold_texts: false, schema_validation: "error" },
  },
  "an upstream of which nothing waits": { far: { upstream: "mcp+npx://x", hold: "none", schema_validation: "ignore" } },
  "an upstream of which everything waits": { far: { upstream: "mcp+npx://x", hold: "any", schema_validation: "warn" } },
  "a command": {
    far: { command: "docker", args: ["run", "-i", "x"], env: { A: "${A}" }, cwd: "/srv", hold: "breaking" },
  },
  "a remote upstream that runs once": { far: { upstream: "mcp+https://example.org/mcp", runs: "once" } },
  "an entry elsewhere": { echo: { config_cid: cid } },
  "a whole tool": tool({
    function: "f",
    arguments: { a: 1 },
    title: "t",
    description: "d",
    inputSchema: { type: "object", properties: { a: { type: "string", minLength: 1 } } },
    outputSchema: { type: "integer" },
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  }),
  "a resource that is its own content": resource({ uri: "variable://motto", mimeType: "text/plain" }),
  "a resource with text": resource({ uri: "note://a", name: "n", title: "t", description: "d", text: "" }),
  "a resource with bytes": resource({ uri: "note://a", blob: "AAE=" }),
  "a resource with content": resource({ uri: "note://a", content: `cid://${cid}` }),
  "a template": resource({ uriTemplate: "note://{name}", content: "variable://{name}" }),
  "a prompt": prompt({ title: "t", description: "d", messages: said }),
  "a prompt with arguments": prompt({
    arguments: [{ name: "who", title: "t", description: "d", required: true }],
    messages: [{ role: "assistant", content: { type: "text", text: "{{who}}" } }],
  }),
  "a prompt with a picture": prompt({
    messages: [{ role: "user", content: { type: "image", data: "AAE=", mimeType: "image/png" } }],
  }),
  "a prompt with a resource": prompt({
    messages: [{ role: "user", content: { type: "resource", resource: { uri: "a:b", text: "t" } } }],
  }),
};

const bad: Record<string, unknown> = {
  "a list": [],
  "a server that cannot be named so": { "a b": {} },
  "a server named meta": { meta: {} },
  "a schema that is no text": { $schema: 1 },
  "an entry that is no object": { echo: "echo.ts" },
  "an unknown field": { echo: { auto_discovr: true } },
  "a text for a boolean": { echo: { enabled: "yes" } },
  "a number for a definition": { echo: { definition: 1 } },
  "a definition and an upstream": { echo: { definition: cid, upstream: "mcp+npx://x" } },
  "an entry elsewhere with another field": { echo: { config_cid: cid, description: "d" } },
  "secrets that are no list": { echo: { secrets: { API_TOKEN: "x" } } },
  "a secret that cannot be named so": { echo: { secrets: ["API-TOKEN"] } },
  "a secret of Berth's own": { echo: { secrets: ["BERTH_SECRET_KEY"] } },
  "limits that are no numbers": { echo: { limits: { calls: "many" } } },
  "limits that let nothing through": { echo: { limits: { calls_per_second: 0 } } },
  "limits of another name": { echo: { limits: { memory: 5 } } },
  "a time to keep calls that is a number": { echo: { retain_calls: 7 } },
  "a time to keep calls without a unit": { echo: { retain_calls: "7" } },
  "no time to keep calls": { echo: { retain_calls: "0d" } },
  "a network that is no list": { echo: { network: "*" } },
  "a network with a URL": { echo: { network: ["https://api.example.org/"] } },
  "a network with a credential": { echo: { network: ["a@api.example.org"] } },
  "a network with a wrong star": { echo: { network: ["api.*.org"] } },
  "a network of an upstream": { echo: { upstream: "mcp+npx://x", network: ["*"] } },
  "an environment that is no object": { echo: { env: ["A=b"] } },
  "an environment with a number": { echo: { env: { PORT: 80 } } },
  "an environment for Node": { echo: { env: { NODE_OPTIONS: "--inspect" } } },
  "an environment for npm": { echo: { env: { npm_config_registry: "x" } } },
  "an environment that says where home is": { echo: { env: { HOME: "/" } } },
  "an environment of an upstream": { echo: { upstream: "mcp+npx://x", env: { A: "b" } } },
  "variables of an upstream": { echo: { upstream: "mcp+npx://x", variables: ["motd"] } },
  "an upstream that runs sometimes": { echo: { upstream: "mcp+npx://x", runs: "sometimes" } },
  "an upstream that holds something else back": { echo: { upstream: "mcp+npx://x", hold: "all" } },
  "a definition that holds changes back": { echo: { definition: cid, hold: "breaking" } },
  "a switch of texts that is a text": { echo: { upstream: "mcp+npx://x", hold: "breaking", hold_texts: "none" } },
  "a switch of texts where everything waits": { echo: { upstream: "mcp+npx://x", hold_texts: false } },
  "a switch of texts where nothing waits": { echo: { upstream: "mcp+npx://x", hold: "none", hold_texts: true } },
  "a switch of texts of a definition": { echo: { definition: cid, hold_texts: true } },
  "two policies for changes": { echo: { upstream: "mcp+npx://x", hold: "breaking", schema_validation: "ignore" } },
  "refusal of what is not held back": { echo: { upstream: "mcp+npx://x", hold: "none", schema_validation: "error" } },
  "a definition that runs once": { echo: { definition: cid, runs: "once" } },
  "options that are no objects": { echo: { options: { echo: true } } },
  "a list of tools": { echo: { tools: [] } },
  "a tool that is no object": tool("echo"),
  "a tool with a bad name": { echo: { tools: { "a b": {} } } },
  "a tool with an unknown field": tool({ descripton: "d" }),
  "a tool whose arguments are no object": tool({ inputSchema: { type: "string" } }),
  "a tool whose arguments have no type": tool({ inputSchema: {} }),
  "a tool whose schema is none": tool({ inputSchema: { type: "object", properties: { a: { type: "strin" } } } }),
  "a tool whose schema has a name": tool({ inputSchema: { type: "object", $id: "https://example.com/" } }),
  "a tool whose output schema is none": tool({ outputSchema: { minimum: "1" } }),
  "an unknown annotation": tool({ annotations: { readonly: true } }),
  "a resource without a URI": resource({ text: "t" }),
  "a resource with a URI and a template": resource({ uri: "a:b", uriTemplate: "a:{b}", text: "" }),
  "a resource whose URI is relative": resource({ uri: "notes", text: "" }),
  "a resource whose URI is a template": resource({ uri: "note://{name}", text: "" }),
  "a template without variables": resource({ uriTemplate: "note://name", text: "" }),
  "a resource with two contents": resource({ uri: "a:b", text: "", blob: "" }),
  "bytes that are no base64": resource({ uri: "a:b", blob: "AAE" }),
  "content from elsewhere": resource({ uri: "a:b", content: "https://example.com/" }),
  "a media type that is none": resource({ uri: "a:b", text: "", mimeType: "text" }),
  "a prompt without messages": prompt({}),
  "a prompt with no messages": prompt({ messages: [] }),
  "a message of nobody": prompt({ messages: [{ role: "system", content: "Hm" }] }),
  "a message without content": prompt({ messages: [{ role: "user" }] }),
  "a message of another kind": prompt({ messages: [{ role: "user", content: { type: "video" } }] }),
  "an argument without a name": prompt({ arguments: [{}], messages: said }),
  "an argument with a bad name": prompt({ arguments: [{ name: "a b" }], messages: said }),
};

describe("mcps.schema.json", () => {
  const problemsOf = async (value: unknown): Promise<Problem[]> => {
    const { entries, problems } = await parseMcps(JSON.stringify(value));
    // The target of a reference is checked where it is read.
    const own = Object.entries(entries).filter(([, raw]) => !isDeepStrictEqual(raw, { config_cid: cid }));
    return [
      ...problems,
      ...own.flatMap(([name, raw]) => readNamedEntry(name, raw, { faultOf: findSchemaFault }).problems),
    ];
  };

  for (const [name, value] of Object.entries(good)) {
    it(`takes ${name}, as Berth does`, async () => {
      assert.ok(validate(value), JSON.stringify(validate.errors));
      assert.deepEqual(await problemsOf(value), []);
    });
  }
  for (const [name, value] of Object.entries(bad)) {
    it(`refuses ${name}, as Berth does`, async () => {
      assert.equal(validate(value), false);
      assert.ok((await problemsOf(value)).some(({ severity }) => severity === "error"));
    });
  }

  it("takes the source and the image that are shipped", () => {
    for (const path of ["reference_templates/mcps.source.json", "boot/mcps.json"]) {
      assert.ok(validate(read(path)), `${path}: ${JSON.stringify(validate.errors)}`);
    }
  });

  it("says of every field what it is for", () => {
    const { entry, tool } = (schema as { $defs: Record<string, { properties: Record<string, object> }> }).$defs;
    for (const [name, field] of Object.entries({ ...entry!.properties, ...tool!.properties })) {
      assert.ok("description" in field || name === "annotations", name);
    }
  });
});
