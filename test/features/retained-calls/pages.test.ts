import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { call } from "../../support/berth.ts";
import { berthInSuite } from "../../support/suite.ts";
import { until } from "../../support/until.ts";

const CALCULATOR = `
/** Divides one number by another. */
export function divide(a: number, b: number): number {
  if (b === 0) throw new Error("cannot divide " + a + " by zero");
  return a / b;
}
/** Joins words. */
export function join(words: string[]): string { return words.join(" "); }
/**
 * Signs in.
 * @param password The secret one
 * @format password
 */
export function signIn(user: string, password: string): string { return user + " is " + password.length + " long"; }
`;
const MARKUP = `</code><img src=x onerror="document.title='owned'">{{7*7}}`;

describe("retained calls on a server's page", () => {
  const berth = berthInSuite({
    texts: { "shown.ts": CALCULATOR, "silent.ts": CALCULATOR },
    mcps: { shown: { definition: "shown.ts", retain_calls: "7d" } },
    env: { BERTH_RETAINED_CALL_DELAY_MS: "0" },
  });
  let ids: number[];
  before(async () => {
    const url = `${berth.url}/mcp/shown`;
    await call(`${berth.url}/mcp/silent`, "join", { words: ["one"] });
    await call(url, "join", { words: ["one", MARKUP] });
    await call(url, "divide", { a: 4711, b: 0 });
    await call(url, "signIn", { user: "ann", password: "correct horse" });
    ids = await until(async () => {
      const { calls } = (await apiOf(berth).send("GET", "/servers/shown/calls")).body as { calls: { id: number }[] };
      return calls.length === 3 ? calls.map(({ id }) => id).toReversed() : undefined;
    });
  });

  const html = async (query: string, server = "shown"): Promise<string> => {
    const page = await fetch(`${berth.url}/mcp/meta/${server}?${query}`, { headers: { Accept: "text/html" } });
    return (await page.text()).replaceAll("&quot;", '"').replaceAll("&#x3D;", "=");
  };

  it("are listed and filtered, and the list of a server that retains none leads to its settings", async () => {
    const listed = async (query: string): Promise<string[]> =>
      Array.from((await html(query)).matchAll(/href="[^"]*call=\d+"><code>(\w+)/g), ([, tool]) => tool!);
    assert.deepEqual(await listed("tab=calls"), ["signIn", "divide", "join"]);
    assert.deepEqual(await listed("tab=calls&failed=true"), ["divide"]);
    assert.deepEqual(await listed("tab=calls&tool=join"), ["join"]);
    assert.match(await html("tab=calls", "silent"), /without arguments and results[^]*Retain calls, in the settings/);
  });

  it("are shown with arguments, error and place, and are filled in again for the tester", async () => {
    const page = await html(`tab=calls&call=${ids[1]}`);
    assert.match(page, /Call \d+ of <code>divide[^]*"a": 4711[^]*cannot divide 4711 by zero[^]*shown\.ts:4:/);
    assert.match(page, /title="[^"]*\d{2}:\d{2}/);
    const again = await html(`tab=tools&call=${ids[1]}`);
    assert.match(again, /are filled in below[^]*\{"a":4711,"b":0\}/);
  });

  it("are shown as text, and without what was hidden (T14.2)", async () => {
    for (const tab of ["calls", "tools"]) {
      assert.doesNotMatch(await html(`tab=${tab}&call=${ids[0]}`), /<img(?! src="\/assets\/)/);
      assert.doesNotMatch(await html(`tab=${tab}&call=${ids[2]}`), /correct horse/);
    }
    const again = await html(`tab=tools&call=${ids[2]}`);
    assert.match(again, /What was hidden in them is left out/);
    assert.match(again, /\{"user":"ann"\}/);
  });
});
