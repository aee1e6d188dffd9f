import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { apiOf } from "../../support/api.ts";
import { startTestBerth, withStatus, type TestBerth, type TestSources } from "../../support/berth.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

const NOTES = `/** Says it louder. */
export function shout(text: string): string {
  return text.toUpperCase() + "!";
}
`;

interface Editor {
  /** The first text as HTML shows it without scripts. */
  readonly area: string;
  readonly setup: { readonly readOnly?: boolean; readonly files: Record<string, string> };
  readonly html: string;
}

describe("pages that edit", () => {
  async function start(t: TestContext, sources: TestSources): Promise<TestBerth> {
    const berth = await startTestBerth(sources);
    t.after(() => berth.close());
    return berth;
  }

  async function open({ url }: TestBerth, path: string, headers: Record<string, string> = {}): Promise<Editor> {
    const html = await (await fetch(url + path, { headers: { Accept: "text/html", ...headers } })).text();
    const [, setup = "{}"] = /<script type="application\/json">(.*)<\/script>/.exec(html) ?? [];
    const [, area = ""] = /<textarea data-path="[^"]+"[^>]*>\n([^]*?)<\/textarea>/.exec(html) ?? [];
    return { area, setup: JSON.parse(setup) as Editor["setup"], html };
  }

  it("escape texts, and give those that HTML cannot hold to the script (T14.2)", async (t) => {
    const berth = await start(t, {});
    const texts = {
      lines: "one\r\ntwo\rthree & <four>\u{1f4a1}\n".repeat(2_000),
      zero: "a\0b",
      hostile: '</textarea></script><script>alert(1)</script><img src=x onerror="alert(1)">',
    };
    for (const [name, text] of Object.entries(texts))
      assert.equal((await apiOf(berth).put(`/variables/${name}`, text)).status, 201);
    const [lines, zero, hostile] = await Promise.all(
      Object.keys(texts).map((name) => open(berth, `/variables/${name}`)),
    );
    const escaped = "one&#13;\ntwo&#13;three &amp; &lt;four&gt;\u{1f4a1}\n".repeat(2_000);
    assert.deepEqual([lines!.area, lines!.setup.files], [escaped, {}]);
    assert.deepEqual(zero!.setup.files, { zero: "a\0b" });
    assert.match(hostile!.area, /^&lt;\/textarea&gt;&lt;\/script&gt;&lt;script&gt;/);
    assert.doesNotMatch(hostile!.html, /<script>|<img(?! src="\/assets\/)/);
  });

  it("show texts and comparisons of versions without scripts", async (t) => {
    const berth = await start(t, { texts: { "notes.ts": NOTES } });
    const moved = await fetch(`${berth.url}/servers/notes`, { headers: { Accept: "text/html" } });
    assert.match(moved.url, /\/mcp\/meta\/notes\?tab=code$/);
    assert.match(await moved.text(), /Editing needs JavaScript/);
    const api = apiOf(berth);
    const { cid: from } = await api.send("GET", "/definitions/notes");
    const { cid: to } = await api.put("/definitions/notes", NOTES.replace('"!"', '"?"'));
    const { html } = await open(berth, `/servers?server=notes&of=definition&from=${from}&to=${to}`);
    assert.match(html, /class="removed">-\s+return text\.toUpperCase\(\) \+ &quot;!&quot;;/);
    assert.match(html, /class="added">\+\s+return text\.toUpperCase\(\) \+ &quot;\?&quot;;/);
    assert.match((await open(berth, "/variables/mcps")).area, /notes/);
  });

  it("show everything on a read-only instance, and allow no edit", async (t) => {
    const berth = await start(t, { texts: { "notes.ts": NOTES }, env: { BERTH_IMAGE: "readonly" } });
    for (const path of [
      "/variables",
      "/variables/mcps",
      "/servers/new",
      "/servers/notes",
      "/mcp/meta/notes?tab=settings",
    ]) {
      const { html, setup } = await open(berth, path);
      assert.match(html, /This instance was started read-only/, path);
      assert.doesNotMatch(html, /<button[^>]*>(?:Save|Create|Delete|Restore|Continue)/, path);
      assert.notEqual(setup.readOnly, false, path);
    }
    assert.doesNotMatch((await open(berth, "/mcp")).html, /New server|Add remote server/);
  });

  it("show everything to a token without edit, and offer it no edit", async (t) => {
    const berth = await start(t, { texts: { "notes.ts": NOTES }, env: { BERTH_ACCESS: "required" } });
    const [reader, editor] = await Promise.all(
      ["read", "edit"].map(async (can) => bearer((await makeToken(berth, { can: [can] })).token)),
    );
    await withStatus(200, apiOf(berth).put("/definitions/notes", NOTES.replace("!", "?"), editor));
    for (const path of [
      "/variables",
      "/variables/mcps",
      "/secrets",
      "/servers/new",
      "/mcp/meta/notes?tab=code",
      "/mcp/meta/notes?tab=settings",
      "/mcp/meta/notes?tab=releases",
    ]) {
      const { html, setup } = await open(berth, path, reader);
      if (!path.endsWith("releases")) assert.match(html, /changes need a token that permits <code>edit</, path);
      assert.doesNotMatch(html, /<button[^>]*>(?:Save|Create|Delete|Restore|Continue|Set)/, path);
      assert.notEqual(setup.readOnly, false, path);
      assert.match(
        (await open(berth, path, editor)).html,
        /<button[^>]*>(?:Restore|Continue|Set)|"readOnly":false/,
        path,
      );
    }
  });
});
