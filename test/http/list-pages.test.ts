import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { createPrincipal } from "../../src/access/principal.ts";
import { composeServers, partOf } from "../../src/host/catalog/aggregate-catalog.ts";
import { withAllServers } from "../../src/host/catalog/aggregate.ts";
import { permittedCatalog } from "../../src/host/catalog/permitted.ts";
import { namesOnPage, readListPage } from "../../src/http/list-page.ts";
import { apiOf, type Api } from "../support/api.ts";
import { modern, startTestBerth, type TestBerth } from "../support/berth.ts";
import { openHosted } from "../support/host.ts";

const LIMITS = { pageItems: 3, pageItemsMax: 10 };
const nameOf = (index: number): string => `s${String(index).padStart(4, "0")}`;
const prompted = { prompts: { ask: { description: "Asks", messages: [{ role: "user", content: "Hello" }] } } };

describe("a page of a list", () => {
  it("follows the one before it without a gap and without a repeat, while names come and go", () => {
    const names = Array.from({ length: 20 }, (_, index) => nameOf(index * 2));
    const seen: string[] = [];
    let cursor: string | undefined;
    for (let page = 0; page === 0 || cursor !== undefined; page++) {
      const query = cursor === undefined ? {} : { cursor };
      const found = namesOnPage(names, readListPage({ query }, LIMITS), () => true);
      assert.ok(found.names.length <= LIMITS.pageItems);
      seen.push(...found.names);
      cursor = found.next;
      // Entries that were seen go, among them the last one, and new ones come before and after.
      if (page === 1) names.splice(5, 1);
      if (page === 2) names.splice(0, 0, "a-new");
      if (page === 3) names.splice(names.length, 0, "z-new");
    }
    assert.deepEqual(seen, [...Array.from({ length: 20 }, (_, index) => nameOf(index * 2)), "z-new"]);
  });

  it("shows as many names as it may, whatever is left out", () => {
    const names = Array.from({ length: 20 }, (_, index) => nameOf(index));
    const { names: shown, next } = namesOnPage(names, { limit: 3 }, (name) => Number(name.slice(1)) % 5 === 0);
    assert.deepEqual(shown, ["s0000", "s0005", "s0010"]);
    assert.ok(next);
    const rest = namesOnPage(names, readListPage({ query: { cursor: next } }, LIMITS), (name) => name === "s0015");
    assert.deepEqual(rest, { names: ["s0015"] });
  });

  it("is refused where its size or its cursor is none", () => {
    for (const limit of ["0", "-1", "11", "1.5", "many", "", ["1", "2"]]) {
      assert.throws(() => readListPage({ query: { limit } }, LIMITS), /"limit" must be a whole number from 1 to 10/);
    }
    for (const cursor of ["", "no such cursor", ["a"]]) {
      assert.throws(() => readListPage({ query: { cursor } }, LIMITS), /"cursor" is none that this list gave/);
    }
  });
});

describe("lists of a Berth with thousands of servers", () => {
  const SERVERS = 3_000;
  const SECRETS = ["FIRST", "SECOND", "THIRD"];
  let berth: TestBerth;
  let api: Api;
  before(async () => {
    const names = Array.from({ length: SERVERS }, (_, index) => nameOf(index));
    berth = await startTestBerth({
      mcps: {
        ...Object.fromEntries(names.map((name) => [name, prompted])),
        [nameOf(0)]: { ...prompted, secrets: SECRETS },
      },
    });
    api = apiOf(berth);
  });
  after(() => berth?.close());

  const everyPage = async (path: string, list: string): Promise<string[]> => {
    const names: string[] = [];
    let cursor = "";
    do {
      const { status, body } = await api.send("GET", `${path}?limit=1000${cursor}`);
      assert.equal(status, 200, JSON.stringify(body));
      names.push(...(body[list] as { name: string }[]).map(({ name }) => name));
      cursor = body.next === undefined ? "" : `&cursor=${body.next as string}`;
    } while (cursor !== "");
    return names;
  };

  it("come in pages that are the whole together", async () => {
    const entries = await everyPage("/entries", "entries");
    assert.equal(entries.length, SERVERS);
    assert.equal(new Set(entries).size, SERVERS);
    const { body } = await api.send("GET", "/entries");
    assert.equal(body.entries.length, 100, "a page, unless it is said how much of it");
    const refused = await api.send("GET", "/servers?limit=1001");
    assert.equal(refused.status, 400, JSON.stringify(refused.body));
    assert.match(refused.body.error.message, /"limit" must be a whole number from 1 to 1000/);
  });

  it("come in pages of secrets, too", async () => {
    const first = await api.send("GET", "/secrets?limit=2");
    assert.deepEqual(
      first.body.secrets.map(({ name }: { name: string }) => name),
      SECRETS.slice(0, 2),
    );
    const { body } = await api.send("GET", `/secrets?limit=2&cursor=${first.body.next}`);
    assert.deepEqual(
      body.secrets.map(({ name }: { name: string }) => name),
      SECRETS.slice(2),
    );
    assert.equal(body.next, undefined);
  });

  it("come in pages of tokens, too, the newest first, while more of them are made", async () => {
    const make = async (name: string): Promise<string> =>
      (await api.send("POST", "/tokens", { name, can: ["read"] })).body.id as string;
    const made: string[] = [];
    for (const name of ["one", "two", "three", "four", "five"]) made.unshift(await make(name));
    const page = async (query: string): Promise<{ ids: string[]; next?: string }> => {
      const { status, body } = await api.send("GET", `/tokens?limit=2${query}`);
      assert.equal(status, 200, JSON.stringify(body));
      return { ids: body.tokens.map(({ id }: { id: string }) => id), next: body.next };
    };
    const seen: string[] = [];
    let cursor = "";
    do {
      const { ids, next } = await page(cursor);
      assert.ok(ids.length <= 2);
      seen.push(...ids);
      cursor = next === undefined ? "" : `&cursor=${next}`;
      if (seen.length === 2) await make("later");
    } while (cursor !== "");
    assert.equal(new Set(seen).size, seen.length);
    const inOrder = (ids: string[]): string[] => [...ids].sort();
    assert.deepEqual(inOrder(seen), inOrder(made));
    const { body } = await api.send("GET", "/tokens?limit=1001");
    assert.match(body.error.message, /"limit" must be a whole number from 1 to 1000/);
  });

  it("have an HTML page of some secrets, which leads to the others", async () => {
    const page = async (address: string): Promise<string> =>
      (await fetch(berth.url + address, { headers: { Accept: "text/html" } })).text();
    const first = await page("/secrets?limit=2");
    assert.match(first, /FIRST[^]*SECOND/);
    assert.doesNotMatch(first, /THIRD/);
    const next = /rel="next" href="([^"]+)"/.exec(first)![1]!.replaceAll("&amp;", "&").replaceAll("&#x3D;", "=");
    const second = await page(next);
    assert.match(second, /THIRD/);
    assert.doesNotMatch(second, /FIRST|rel="next"/);
  });

  it("lead from one HTML page to the next", async () => {
    for (const path of ["/mcp", "/servers"]) {
      const first = await (await fetch(`${berth.url}${path}?limit=2`, { headers: { Accept: "text/html" } })).text();
      assert.match(first, /s0000/);
      assert.doesNotMatch(first, /s0003/);
      const next = /rel="next" href="([^"]+)"/.exec(first)![1]!.replaceAll("&amp;", "&").replaceAll("&#x3D;", "=");
      const second = await (await fetch(berth.url + next, { headers: { Accept: "text/html" } })).text();
      assert.match(second, /s0002/);
      assert.doesNotMatch(second, /s0000/);
    }
  });

  it("have the whole of mcps on its page once", async () => {
    const html = await (await fetch(`${berth.url}/variables/mcps`, { headers: { Accept: "text/html" } })).text();
    const parts = html.split(new RegExp(`(?:"|&quot;)${nameOf(SERVERS - 1)}`));
    assert.equal(parts.length - 1, 1, "in the text area, and not in the setup of the editor");
  });

  it("let others be answered while all servers are composed into one", async () => {
    const composing = { isOver: false };
    let answered = 0;
    const listed = modern(`${berth.url}/mcp`, "prompts/list").finally(() => (composing.isOver = true));
    while (!composing.isOver) {
      const { body } = await modern(`${berth.url}/mcp/${nameOf(0)}`, "prompts/list");
      assert.equal(body.result.prompts.length, 1);
      if (!composing.isOver) answered += 1;
    }
    const { result } = (await listed).body;
    assert.deepEqual([result.prompts.length, result.nextCursor], [SERVERS, undefined], "all are on one page");
    assert.ok(answered >= 5, `${answered} others were answered meanwhile`);
  });
});

describe("a page that edits a text", () => {
  it("has every letter of it that HTML can hold as it is read without scripts, and all others for the script", async () => {
    const berth = await startTestBerth({ mcps: {} });
    try {
      const files = { "lines.txt": "one\r\ntwo\rthree & <four>\u{1f4a1}\n".repeat(2_000), "zero.txt": "a\0b" };
      const api = apiOf(berth);
      const setups = await Promise.all(
        Object.entries(files).map(async ([name, text]) => {
          assert.equal((await api.put(`/variables/${name}`, text)).status, 201);
          const page = await fetch(`${berth.url}/variables/${name}`, { headers: { Accept: "text/html" } });
          const html = await page.text();
          const setup = JSON.parse(/<script type="application\/json">(.*)<\/script>/.exec(html)![1]!);
          return { area: /<textarea data-path="[^"]+"[^>]*>\n([^]*?)<\/textarea>/.exec(html)![1]!, files: setup.files };
        }),
      );
      const escaped = "one&#13;\ntwo&#13;three &amp; &lt;four&gt;\u{1f4a1}\n".repeat(2_000);
      assert.deepEqual(setups[0], { area: escaped, files: {} });
      assert.deepEqual(setups[1]!.files, { "zero.txt": "a\0b" });
    } finally {
      await berth.close();
    }
  });
});

describe("the whole of all servers", () => {
  it("looks again at those alone that have changed, and loads none that somebody only watches", async () => {
    const text = (name: string): string => `export function ${name}(): number { return 1; }`;
    const hosted = await openHosted({ alpha: text("one"), beta: text("two"), gamma: text("three") });
    try {
      const looked: string[] = [];
      const { host: inner } = hosted;
      const host = withAllServers({
        ...inner,
        summary(tenant, name, options) {
          looked.push(name);
          return inner.summary(tenant, name, options);
        },
      });
      await host.server("default", "");
      assert.deepEqual(looked.splice(0), ["alpha", "beta", "gamma"]);
      await hosted.change("beta", text("other"));
      await host.reload("default");
      assert.ok((await host.server("default", "")).tool("beta.other"));
      assert.deepEqual(looked, ["beta"]);
    } finally {
      await hosted.close();
    }
  });

  it("is composed, and narrowed to what somebody may use, with turns for others meanwhile", async () => {
    const hosted = await openHosted({ one: "export function first(): number { return 1; }" });
    try {
      const of = partOf((await hosted.host.summary("default", "one"))!);
      const parts = Array.from({ length: 10_000 }, (_, index) => {
        const server = nameOf(index);
        const tools = [{ ...of.offer!.tools[0]!, name: `${server}.first` }];
        return { ...of, server, offer: { ...of.offer!, tools } };
      });
      let turns = 0;
      const counting = setInterval(() => (turns += 1), 0);
      const whole = await composeServers("default", parts, hosted.host);
      assert.equal(whole.contract.tools.length, parts.length);
      assert.ok(turns > 0, "others have turns while it is composed");

      turns = 0;
      const grants = [{ can: ["read", "call"] as const, servers: parts.slice(1).map(({ server }) => server) }];
      const some = createPrincipal({ id: "ada", tenant: "default" }, grants);
      const narrowing = permittedCatalog(whole, some);
      assert.equal(permittedCatalog(whole, some), narrowing, "it is narrowed once, whoever asks meanwhile");
      const narrow = await narrowing;
      assert.equal(narrow.contract.tools.length, parts.length - 1);
      assert.ok(turns > 0, "others have turns while it is narrowed");
      assert.equal(permittedCatalog(whole, some), narrow);
      clearInterval(counting);
      const everything = createPrincipal({ id: "root", tenant: "default" }, [{ can: ["admin"] }]);
      assert.equal(await permittedCatalog(whole, everything), whole);
    } finally {
      await hosted.close();
    }
  });
});
