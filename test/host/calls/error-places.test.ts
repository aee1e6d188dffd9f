import assert from "node:assert/strict";
import { it } from "node:test";
import { call, startTestBerth } from "../../support/berth.ts";
import { inOneOf } from "../../support/until.ts";

const FAILS = `/** Fails. */
export function fail(how: string): string {
  if (how === "plain") throw new Error("boom");
  if (how === "text") throw "just a text";
  return JSON.parse("{");
}
`;

for (const setting of ["on", "off"] as const) {
  it(`BERTH_ERROR_LOCATIONS=${setting}: callers are ${setting === "on" ? "" : "not "}told where a function threw`, async (context) => {
    const berth = await startTestBerth({ texts: { "fails.ts": FAILS }, env: { BERTH_ERROR_LOCATIONS: setting } });
    context.after(() => berth.close());
    const told = async (how: string): Promise<string> => {
      const { isError, content } = await call(`${berth.url}/mcp/fails`, "fail", { how });
      assert.equal(isError, true);
      return content[0].text;
    };
    const at = (place: string): string => (setting === "on" ? ` (at fails.ts:${place})` : "");
    assert.equal(await told("plain"), `boom${at("3:30")}`);
    assert.equal(await told("text"), "just a text", "what is no error has no place");
    assert.match(
      await told("json"),
      setting === "on" ? /^SyntaxError: .* \(at fails\.ts:5:15\)$/ : /^SyntaxError: [^(]*(\(line[^)]*\))?$/,
    );
  });
}

it("BERTH_ERROR_LOCATIONS=on: callers see where an endless loop was stopped", async (context) => {
  const spins = "export function spin(): void {\n  while (true);\n}\n";
  const env = { BERTH_ERROR_LOCATIONS: "on", BERTH_CALL_MS: "500" };
  const berth = await startTestBerth({ texts: { "spins.ts": spins }, env });
  context.after(() => berth.close());
  // A machine that stalls may leave the process too little time to print where it is.
  await inOneOf(10, async () => {
    const { content } = await call(`${berth.url}/mcp/spins`, "spin", {});
    assert.match(content[0].text, /deadline of 500 ms.* \(at spins\.ts:2:\d+\)$/);
  });
});
