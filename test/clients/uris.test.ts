import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startTestBerth, type TestBerth } from "../support/berth.ts";
import { everySession } from "../support/clients/every-session.ts";

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

describe("URIs", () => {
  let berth: TestBerth;
  before(async () => {
    const files = ["test/fixtures/servers/whole.ts", "test/fixtures/conformance.ts"];
    berth = await startTestBerth({ files, texts: { "odd.ts": ODD } });
  });
  after(() => berth.close());

  it("T6.6 what is no URI is told from what is one", () => {
    for (const uri of ["a:", "urn:a:b", "http://[::1]:80/?q#f", "cid://bafk"]) assert.match(uri, URI);
    for (const text of ["", "a", "a b:c", "x://a b", "x://é", "x://%zz", "x://{id}", "x:#a#b"]) {
      assert.doesNotMatch(text, URI);
    }
  });

  for (const opener of everySession) {
    const { name } = opener;
    it(`T6.6 every URI that ${name} is given, of one server and of all, is valid by RFC 3986`, async () => {
      for (const path of ["/odd", "/whole", "/conformance", ""]) {
        // HTTP+SSE is for one server.
        if (path === "" && name.includes("SSE")) continue;
        const session = await opener.open(`${berth.url}/mcp${path}`);
        try {
          const uris = await session.resources();
          assert.ok(uris.length > 1);
          for (const uri of uris) {
            assert.match(uri, URI);
            if (uri.includes("broken")) continue;
            for (const content of await session.read(uri)) assert.equal((content as { uri: string }).uri, uri);
          }
          for (const template of await session.templates()) assert.match(template.replace(/\{[^{}]+\}/g, "x"), URI);
        } finally {
          await session.close();
        }
      }
    });

    it(`T6.6 ${name} gets a URI for bytes, and reads URIs that need escapes`, async () => {
      const session = await opener.open(`${berth.url}/mcp/odd`);
      try {
        const [block] = (await session.call("bytes")).content;
        assert.match((block as unknown as { resource: { uri: string } }).resource.uri, URI);
        const [content] = await session.read("odd://a%2Fb%20c?q=%C3%A9%26");
        const text = "a/b c é&";
        assert.deepEqual(content, { uri: "odd://a%2Fb%20c?q=%C3%A9%26", mimeType: "text/plain", text });
        await assert.rejects(session.read("no uri"));
      } finally {
        await session.close();
      }
    });
  }
});
