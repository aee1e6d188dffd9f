import assert from "node:assert/strict";
import { it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { berthFor } from "../../support/suite.ts";

const MARKUP = `<img src=x onerror="document.title='owned'">`;

it("pages of state show keys and values as text (T14.2)", async (t) => {
  const berth = await berthFor(t, { texts: { "keeper.ts": "export function keep(): void {}" } });
  const html = async (path: string): Promise<string> =>
    (await fetch(berth.url + path, { headers: { Accept: "text/html" } })).text();
  assert.match(await html("/state"), /No server stores anything yet\./);
  const keys = [MARKUP, "a\u202egpj.exe", `"onclick="x`, "..", "{{7*7}}", "&lt;"];
  for (const key of keys) {
    const path = `/state/keeper/value?${new URLSearchParams({ key }).toString()}`;
    const saved = await apiOf(berth).send("PUT", path, { [MARKUP]: `</textarea>${MARKUP}` }, { "If-None-Match": "*" });
    assert.equal(saved.status, 200);
  }
  assert.match(await html("/state"), /href="\/state\/keeper"/);
  const list = await html("/state/keeper");
  const links = [...list.matchAll(/href="(\/state\/keeper\?key[^"]*)"/g)].map(([, href]) =>
    href!.replaceAll("&#x3D;", "=").replaceAll("&amp;", "&"),
  );
  assert.deepEqual(new Set(links.map((href) => new URL(href, berth.url).searchParams.get("key"))), new Set(keys));
  for (const page of [list, ...(await Promise.all(links.map(html)))])
    assert.doesNotMatch(page, /<img(?! src="\/assets\/)|<\/textarea>[^<]*<img/);
  assert.match(await html(links[0]!), /&lt;\/textarea&gt;&lt;img/);
});
