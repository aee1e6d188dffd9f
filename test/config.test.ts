import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readConfig } from "../src/config.ts";
import { BerthError } from "../src/lib/errors.ts";
import { defaultLimits, limitVariable, type Limits } from "../src/limits/limits.ts";

describe("the configuration", () => {
  it("refuses an address that other machines reach, with the reason", () => {
    assert.throws(() => readConfig({ BERTH_HOST: "0.0.0.0", BERTH_ACCESS: "open" }), /reachable from other machines/);
  });

  it("reports every problem at once, by the variable's name", () => {
    const env = { BERTH_PORT: "http", BERTH_GUESTS: "maybe", BERTH_CALL_MS: "-1" };
    assert.throws(
      () => readConfig(env),
      (error: unknown) =>
        error instanceof BerthError &&
        ["BERTH_PORT", "BERTH_GUESTS", "BERTH_CALL_MS"].every((name) => error.message.includes(name)),
    );
  });

  it("has a variable for each limit, named after it", () => {
    assert.equal(limitVariable("silentCallMs"), "BERTH_SILENT_CALL_MS");
    for (const name of Object.keys(defaultLimits) as (keyof Limits)[]) {
      const { limits } = readConfig({ [limitVariable(name)]: "12345" });
      assert.deepEqual(limits, { ...defaultLimits, [name]: 12345 });
    }
  });

  it("has a default for everything", () => {
    const { host, port, limits } = readConfig({});
    assert.deepEqual([host, port, limits.callMs], ["127.0.0.1", 7420, 30_000]);
  });
});
