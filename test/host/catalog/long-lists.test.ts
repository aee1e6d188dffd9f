import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openAssets } from "../../../src/http/assets.ts";
import { createPages } from "../../../src/http/pages/pages.ts";
import { createOffers } from "../../../src/http/pages/parts/offers.ts";
import { nearNames } from "../../../src/lib/near-names.ts";
import { apiOf } from "../../support/api.ts";
import { berthFor } from "../../support/suite.ts";

const namesOf = (count: number, name: (index: number) => string): string[] =>
  Array.from({ length: count }, (_, index) => name(index));

describe("lists that others wrote without an end", () => {
  it("of names are not all compared with a word, and those that begin like it come first", async () => {
    const word = `${"y".repeat(62)}z`;
    const nearest = (likeIt: string, far: string): Promise<string[]> =>
      nearNames(word, [...namesOf(6_000, (index) => far + `${index}`.padStart(62, "x")), likeIt]);
    const [alike, other] = [`${"y".repeat(62)}x`, `x${"y".repeat(61)}z`];
    assert.deepEqual(await nearNames(word, [alike, other]), [alike, other]);
    assert.deepEqual(await nearest(alike, "x"), [alike]);
    assert.deepEqual(await nearest(other, "x"), []);
  });

  it("of arguments of prompts are shown in part", async () => {
    const prompts = namesOf(30, (index) => `p${index}`).map((name) => ({
      name,
      arguments: namesOf(7_000, (index) => `a${index}`).map((each) => ({ name: each, required: false })),
    }));
    const contract = { tools: [], resources: [], resourceTemplates: [], prompts };
    const offers = createOffers(createPages(openAssets()));
    const shown = (await offers({ contract } as never))["prompts"] as { rows: object[]; moreArguments: string }[];
    assert.deepEqual([shown[0]!.rows.length, shown.flatMap(({ rows }) => rows).length], [60, 1_000]);
    assert.equal(shown[0]!.moreArguments, "6,940 more arguments; clients get all of them.");
    assert.equal(shown.at(-1)!.rows.length, 0);
  });

  it("of tools are in the overview of servers in part", async (t) => {
    const tools = Object.fromEntries(
      namesOf(900, (index) => `${index}`.padStart(120, "t")).map((name) => [name, { function: "hi" }]),
    );
    const berth = await berthFor(t, {
      texts: { "hi.ts": "export const hi = (): string => '';\n" },
      mcps: { long: { definition: "hi.ts", tools }, short: { definition: "hi.ts" } },
    });
    const page = await (await fetch(`${berth.url}/mcp`)).text();
    assert.match(page, /<summary>900<span/);
    const named = page.match(/<code>t+\d+<\/code>/g)?.length ?? 0;
    assert.ok(named > 0 && named <= 50, `${named} are named`);
    assert.match(page, new RegExp(`and ${900 - named} more`));
    assert.match(page, /<summary>1<span.*<code>hi<\/code>/);
  });

  it("of secrets that entries declare are told up to as many as may be set, each with its first servers", async (t) => {
    const names = namesOf(1_500, (index) => `S${String(index).padStart(4, "0")}`);
    const long = Object.fromEntries(
      ["a", "b"].map((server) => [server, { enabled: false, secrets: names.map((name) => `${name}${server}`) }]),
    );
    const many = Object.fromEntries(
      namesOf(25, (index) => `z${index}`).map((name) => [name, { enabled: false, secrets: ["ALL"] }]),
    );
    const berth = await berthFor(t, { texts: {}, mcps: { ...many, ...long } });
    const api = apiOf(berth);
    assert.equal((await api.send("PUT", "/secrets/ALL", "a-long-enough-value")).status, 204);
    const { body } = await api.send("GET", "/secrets?limit=1000");
    const [all] = body.secrets;
    assert.deepEqual([all.name, all.isSet, all.servers.length, all.moreServers], ["ALL", true, 20, 5]);
    const { secrets: rest, next } = (await api.send("GET", `/secrets?limit=1000&cursor=${body.next}`)).body;
    assert.deepEqual([body.secrets.length, rest.length, next], [1_000, 1, undefined]);
    const page = await (await fetch(`${berth.url}/secrets?limit=10`)).text();
    assert.match(page, /and 5 more servers/);
  });
});
