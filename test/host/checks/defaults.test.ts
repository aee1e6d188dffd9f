import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { call, modern } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";

const DEFAULTS = `
interface Options {
  /** @default 10 */
  limit?: number;
  /** @default process.cwd() */
  folder?: string;
  /** @default now */
  at?: Date;
  unit?: string;
  inner?: { /** @default "x" */ deep?: string };
}
export function list({ limit, folder, at, unit = "m", inner }: Options): string {
  return JSON.stringify([limit ?? "none", folder ?? "none", at ?? "none", unit, inner?.deep ?? "none"]);
}
/** @inputSchema { "type": "object", "properties": { "limit": { "type": "number", "default": 7 } } } */
export function own(args: { limit?: number }): string { return String(args.limit); }
interface Told { /** @default "red" */ color?: string }
export function told(): Told { return {}; }
/**
 * @prompt
 * @param name - Whom.
 * @default "you"
 */
export function greet(name?: string): string { return "Hello, " + (name ?? "nobody"); }
/**
 * @resource notes://{?year}
 * @param year - Which.
 * @default 2020
 */
export function note(year?: number): string { return String(year ?? "any"); }
`;

describe("defaults", () => {
  const written = { type: "object", properties: { limit: { type: "number", default: 3 }, unit: { type: "string" } } };
  const berth = berthInSuite({
    texts: { "defaults.ts": DEFAULTS },
    mcps: {
      fixed: { definition: "defaults.ts", tools: { list: { arguments: { unit: "ft" } } } },
      written: { definition: "defaults.ts", tools: { list: { inputSchema: written } } },
    },
  });
  let url: string;
  before(() => void (url = `${berth.url}/mcp/defaults`));

  const said = async (server: string, tool: string, args: Record<string, unknown>): Promise<string> => {
    const result = await call(`${berth.url}/mcp/${server}`, tool, args);
    assert.equal(result.isError, undefined, JSON.stringify(result));
    return result.content[0].text;
  };

  it("of comments are never given to the function, those of its code are its own", async () => {
    assert.equal(await said("defaults", "list", { inner: {} }), '["none","none","none","m","none"]');
    assert.equal(await said("fixed", "list", {}), '["none","none","none","ft","none"]');
    assert.equal(await said("defaults", "list", { limit: 1, folder: "/" }), '[1,"/","none","m","none"]');
  });

  it("that a schema in @inputSchema or in the configuration gives are filled in", async () => {
    assert.equal(await said("defaults", "own", {}), "7");
    assert.equal(await said("written", "list", {}), '[3,"none","none","m","none"]');
  });

  it("of comments on a result's type add nothing to the result", async () => {
    assert.deepEqual((await call(url, "told", {})).structuredContent, {});
  });

  it("of comments are not given to prompts and resources either", async () => {
    const prompt = await modern(url, "prompts/get", { name: "greet" });
    assert.equal(prompt.body.result.messages[0].content.text, "Hello, nobody");
    const resource = await modern(url, "resources/read", { uri: "notes://" });
    assert.equal(resource.body.result.contents[0].text, "any");
  });
});
