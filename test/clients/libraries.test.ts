import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { ClientSession } from "../support/clients/client-session.ts";
import { everySession, sessionFor } from "../support/clients/every-session.ts";
import { berthInSuite } from "../support/suite.ts";

/** Values that types forbid, but a function can return all the same. */
const CARELESS = `
import type { ContentBlock, PromptMessage } from "berth";
const empty = { type: "resource", resource: { uri: "a:b" } } as unknown as ContentBlock;
/** An embedded resource without content. */
export function embed(): ContentBlock { return empty; }
/** @prompt */
export function quote(): PromptMessage[] { return [{ role: "user", content: empty }]; }
`;

const TUPLES = `
/** Gives a pair back the other way round. */
export function swap(pair: [string, number]): [number, string] { return [pair[1], pair[0]]; }
/** Gives a text and any number of numbers. */
export function measures(name: string): { row: [string, ...number[]] } { return { row: [name, 1, 2] }; }
`;

/** More than two pages of everything. */
const COUNT = 120;

const numbered = (kind: string, before = "", after = ""): string[] =>
  Array.from({ length: COUNT }, (_, index) => `${before}${kind}${index + 1}${after}`);

const MANY = [
  ...numbered("tool").map((name) => `/** A tool. */ export function ${name}(): string { return "${name}"; }`),
  ...numbered("note").map((name) => `/** @resource many://${name} */ export function ${name}(): string { return ""; }`),
  ...numbered("shelf").map(
    (name) => `/** @resource many://${name}/{id} */ export function ${name}(id: string): string { return id; }`,
  ),
  ...numbered("prompt").map((name) => `/** @prompt */ export function ${name}(): string { return ""; }`),
].join("\n");

/** A URI by the grammar of RFC 3986, appendix A, but for the inner grammar of addresses in brackets. */
const URI = (() => {
  const pct = "%[0-9A-Fa-f]{2}";
  const unreserved = "[A-Za-z0-9._~-]";
  const sub = "[!$&'()*+,;=]";
  const pchar = `(?:${unreserved}|${pct}|${sub}|[:@])`;
  const authority = `(?:(?:${unreserved}|${pct}|${sub}|:)*@)?(?:\\[[0-9A-Fa-fv:.]+\\]|(?:${unreserved}|${pct}|${sub})*)(?::\\d*)?`;
  const path = `(?://${authority}(?:/${pchar}*)*|/(?:${pchar}+(?:/${pchar}*)*)?|${pchar}+(?:/${pchar}*)*|)`;
  const tail = `(?:${pchar}|[/?])*`;
  return new RegExp(`^[A-Za-z][A-Za-z0-9+.-]*:${path}(?:\\?${tail})?(?:#${tail})?$`);
})();

const ODD = `
/** @resource urn:example:a%20b */
export function urn(): string { return "urn"; }
/** @resource https://user@example.org:8080/a;b=c?d=%C3%A9#e */
export function web(): string { return "web"; }
/** @resource odd://{path}{?q} */
export function search(path: string, q?: string): string { return path + " " + q; }
/** Bytes of no kind that a client shows. */
export function bytes(): Uint8Array { return Uint8Array.of(1, 2, 3); }
`;

describe("what client libraries get", () => {
  const berth = berthInSuite({
    files: ["test/fixtures/servers/whole.ts", "test/fixtures/conformance.ts"],
    texts: { "tuples.ts": TUPLES, "careless.ts": CARELESS, "many.ts": MANY, "odd.ts": ODD },
  });

  for (const opener of everySession) {
    const { name } = opener;
    const open = (t: TestContext, path: string): Promise<ClientSession> =>
      sessionFor(t, opener, `${berth.url}/mcp${path}`);

    // Clients validate a result against the output schema that they were given, most of them by draft 7.
    it(`${name} accepts tuples as results`, async (t) => {
      const session = await open(t, "/tuples");
      await session.tools();
      const swapped = (await session.call("swap", { pair: ["a", 1] })).structuredContent;
      assert.deepEqual(swapped, session.era === "legacy" ? { result: [1, "a"] } : [1, "a"]);
      const { structuredContent } = await session.call("measures", { name: "a" });
      assert.deepEqual(structuredContent, { row: ["a", 1, 2] });
    });

    // A client rejects a whole answer if one block violates the protocol.
    it(`${name} gets a readable answer for invalid content, and the fault of a prompt (S8)`, async (t) => {
      const session = await open(t, "/careless");
      const [block] = (await session.call("embed")).content;
      assert.deepEqual(JSON.parse(block?.text ?? ""), { type: "resource", resource: { uri: "a:b" } });
      await assert.rejects(session.prompt("quote"), { code: -32603, message: /did not return messages/ });
    });

    it(`${name} goes through all pages of lists, and gets each name once and in order (T4.5, S2)`, async (t) => {
      const session = await open(t, "/many");
      assert.deepEqual(await session.tools(), numbered("tool"));
      assert.deepEqual(await session.resources(), numbered("note", "many://"));
      assert.deepEqual(await session.templates(), numbered("shelf", "many://", "/{id}"));
      assert.deepEqual(await session.prompts(), numbered("prompt"));
      assert.equal((await session.call(`tool${COUNT}`)).content[0]?.text, `tool${COUNT}`);
    });

    it(`every URI that ${name} gets, of one server and of all, is valid by RFC 3986 (T6.6)`, async (t) => {
      for (const path of ["/odd", "/whole", "/conformance", ""]) {
        // HTTP+SSE is for one server; the pages of "many" are read above.
        if (path === "" && name.includes("SSE")) continue;
        const session = await open(t, path);
        const uris = (await session.resources()).filter((uri) => !uri.includes("many"));
        assert.ok(uris.length > 1);
        for (const uri of uris) {
          assert.match(uri, URI);
          if (uri.includes("broken")) continue;
          for (const content of await session.read(uri)) assert.equal((content as { uri: string }).uri, uri);
        }
        for (const template of await session.templates()) assert.match(template.replace(/\{[^{}]+\}/g, "x"), URI);
      }
    });

    it(`${name} gets a URI for bytes, and reads URIs that need escapes (T6.6)`, async (t) => {
      const session = await open(t, "/odd");
      const [block] = (await session.call("bytes")).content;
      assert.match((block as unknown as { resource: { uri: string } }).resource.uri, URI);
      const [content] = await session.read("odd://a%2Fb%20c?q=%C3%A9%26");
      const text = "a/b c é&";
      assert.deepEqual(content, { uri: "odd://a%2Fb%20c?q=%C3%A9%26", mimeType: "text/plain", text });
      await assert.rejects(session.read("no uri"));
    });
  }
});
