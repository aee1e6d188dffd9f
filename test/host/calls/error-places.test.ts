import assert from "node:assert/strict";
import { it } from "node:test";
import { traceBounds } from "../../../src/executor/guest-process.ts";
import { clock } from "../../../src/lib/clock.ts";
import { readingBounds } from "../../../src/lib/reading-bounds.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { call } from "../../support/berth.ts";
import { holdTimeouts } from "../../support/clock.ts";
import { loopBegan } from "../../support/processes.ts";
import { berthFor } from "../../support/suite.ts";

const FAILS = `/** Fails. */
export function fail(how: string): string {
  if (how === "plain") throw new Error("boom");
  if (how === "text") throw "just a text";
  return JSON.parse("{");
}
`;

for (const setting of ["on", "off"] as const) {
  it(`BERTH_ERROR_LOCATIONS=${setting}: callers are ${setting === "on" ? "" : "not "}told where a function threw`, async (context) => {
    const berth = await berthFor(context, { texts: { "fails.ts": FAILS }, env: { BERTH_ERROR_LOCATIONS: setting } });
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
  const spins = "export function spin(): void {\n  while (true);\n}\nexport function wait(): void {}\n";
  const berth = await berthFor(context, { texts: { "spins.ts": spins }, env: { BERTH_ERROR_LOCATIONS: "on" } });
  context.after(holdTimeouts(traceBounds.traceMs, readingBounds.checkMs));
  await call(`${berth.url}/mcp/spins`, "wait");
  const stopped = call(`${berth.url}/mcp/spins`, "spin");
  await loopBegan();
  clock.leap(defaultLimits.callMs);
  const { content } = await stopped;
  assert.match(content[0].text, /deadline of \d+ ms.* \(at spins\.ts:2:\d+\)$/);
});
