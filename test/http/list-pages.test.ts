import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { namesOnPage, readListPage } from "../../src/http/list-page.ts";
import { apiOf } from "../support/api.ts";
import { modern, withStatus } from "../support/berth.ts";
import { berthInSuite } from "../support/suite.ts";

const nameOf = (index: number): string => `s${String(index).padStart(4, "0")}`;
const prompted = { prompts: { ask: { description: "Asks", messages: [{ role: "user", content: "Hello" }] } } };

describe("a page of a list", () => {
  it("continues after the previous page while names are added and removed", () => {
    const names = Array.from({ length: 20 }, (_, index) => nameOf(index * 2));
    const seen: string[] = [];
    let cursor: string | undefined;
    for (let page = 0; page === 0 || cursor !== undefined; page++) {
      const query = { limit: "3", ...(cursor !== undefined && { cursor }) };
      const found = namesOnPage(names, readListPage({ query }), () => true);
      assert.ok(found.names.length <= 3);
      seen.push(...found.names);
      cursor = found.next;
      // Entries that were seen go, among them the last one, and new ones come before and after.
      if (page === 1) names.splice(5, 1);
      if (page === 2) names.splice(0, 0, "a-new");
      if (page === 3) names.splice(names.length, 0, "z-new");
    }
    assert.deepEqual(seen, [...Array.from({ length: 20 }, (_, index) => nameOf(index * 2)), "z-new"]);
  });

  it("is filled with the names that match", () => {
    const names = Array.from({ length: 20 }, (_, index) => nameOf(index));
    const { names: shown, next } = namesOnPage(names, { limit: 3 }, (name) => Number(name.slice(1)) % 5 === 0);
    assert.deepEqual(shown, ["s0000", "s0005", "s0010"]);
    assert.ok(next);
    const rest = namesOnPage(names, readListPage({ query: { cursor: next } }), (name) => name === "s0015");
    assert.deepEqual(rest, { names: ["s0015"] });
  });

  it("rejects an invalid size or cursor", () => {
    for (const limit of ["0", "-1", "1001", "1.5", "many", "", ["1", "2"]]) {
      assert.throws(() => readListPage({ query: { limit } }), /"limit" must be a whole number from 1 to 1000/);
    }
    for (const cursor of ["", "no such cursor", ["a"]]) {
      assert.throws(() => readListPage({ query: { cursor } }), /"cursor" is not from this list/);
    }
  });
});

describe("lists of a Berth with thousands of servers", () => {
  const SERVERS = 1_200;
  const SECRETS = ["FIRST", "SECOND", "THIRD"];
  const names = Array.from({ length: SERVERS }, (_, index) => nameOf(index));
  const berth = berthInSuite({
    mcps: {
      ...Object.fromEntries(names.map((name) => [name, prompted])),
      [nameOf(0)]: { ...prompted, secrets: SECRETS },
    },
  });
  const api = apiOf(berth);

  const everyPage = async (path: string, list: string): Promise<string[]> => {
    const names: string[] = [];
    let cursor = "";
    do {
      const { body } = await withStatus(200, api.send("GET", `${path}?limit=1000${cursor}`));
      names.push(...(body[list] as { name: string }[]).map(({ name }) => name));
      cursor = body.next === undefined ? "" : `&cursor=${body.next as string}`;
    } while (cursor !== "");
    return names;
  };

  it("have pages that contain each entry once", async () => {
    const entries = await everyPage("/entries", "entries");
    assert.equal(entries.length, SERVERS);
    assert.equal(new Set(entries).size, SERVERS);
    const { body } = await api.send("GET", "/entries");
    assert.equal(body.entries.length, 100, "a page, unless it is said how much of it");
    const refused = await withStatus(400, api.send("GET", "/servers?limit=1001"));
    assert.match(refused.body.error.message, /"limit" must be a whole number from 1 to 1000/);
  });

  it("have pages of tokens, the newest first, while more are created", async () => {
    const make = async (name: string): Promise<string> =>
      (await api.send("POST", "/tokens", { name, can: ["read"] })).body.id as string;
    const made: string[] = [];
    for (const name of ["one", "two", "three", "four", "five"]) made.unshift(await make(name));
    const page = async (query: string): Promise<{ ids: string[]; next?: string }> => {
      const { body } = await withStatus(200, api.send("GET", `/tokens?limit=2${query}`));
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

  it("have HTML pages of secrets", async () => {
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

  it("have the text of mcps on its page once", async () => {
    const html = await (await fetch(`${berth.url}/variables/mcps`, { headers: { Accept: "text/html" } })).text();
    const parts = html.split(new RegExp(`(?:"|&quot;)${nameOf(SERVERS - 1)}`));
    assert.equal(parts.length - 1, 1, "in the text area, and not in the setup of the editor");
  });

  it("yield to other requests while the list of all servers is composed", async () => {
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
