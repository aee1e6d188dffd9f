import { strict as assert } from "node:assert";
import { it } from "node:test";
import { YieldCollector } from "../../../src/host/calls/run.ts";

it("what a stream yields for a caller that takes none is counted as it is written, so that very many short texts are too long", () => {
  const collected = new YieldCollector(100_000);
  const addAll = (): void => {
    for (let at = 0; at < 10_000; at++) collected.add("");
  };
  assert.throws(addAll, /its stream has more than \d+ bytes \(BERTH_OUTPUT_BYTES\)/);
  const short = new YieldCollector(100_000);
  for (let at = 0; at < 1_000; at++) short.add("line");
  const outcome = short.applyTo({ ok: true, value: { kind: "none" } });
  assert.equal(outcome.ok && outcome.value.kind === "json" && (outcome.value.value as unknown[]).length, 1_000);
});
