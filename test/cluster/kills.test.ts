import assert from "node:assert/strict";
import { it } from "node:test";
import { Nodes } from "../support/nodes.ts";
import { Saves } from "../support/saves.ts";
import { until } from "../support/until.ts";

/** `npm run soak -- --saves 10000` makes more. */
const SAVES = 160;

it("nodes that are killed again and again lose no save that one of them has acknowledged, and record each once", async (t) => {
  const nodes = await Nodes.start({
    texts: { "echo.ts": 'export const echo = (): string => "hello";\n' },
    env: { BERTH_SAVES_PER_MINUTE_PER_TENANT: "0" },
  });
  t.after(() => nodes.close());
  const saves = new Saves(nodes.url, SAVES);
  const writing = saves.write(8);
  for (let kills = 0; kills < 2; kills++) {
    const begun = saves.acknowledged;
    await Promise.race([writing, until(() => saves.acknowledged > Math.min(begun + SAVES / 8, SAVES - 1))]);
    await nodes.endNode(kills % 2, "SIGKILL");
    await nodes.startNode(kills % 2);
  }
  await writing;
  assert.ok(saves.acknowledged >= SAVES);
  await saves.check(nodes);
});
