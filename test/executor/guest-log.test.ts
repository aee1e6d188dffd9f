import assert from "node:assert/strict";
import { it } from "node:test";
import type { GuestProgram } from "../../src/executor/executor.ts";
import { strayLog } from "../../src/executor/guest-log.ts";

it("lines of guests that belong to no call get into the log cut, and so often for each tenant, which says how many were left out (C8)", () => {
  const written: { tenant: string; line: { message: string }; leftOut?: number }[] = [];
  const ignored = (): void => {};
  const info = (data: object): void => void written.push(data as (typeof written)[number]);
  const log = strayLog({ strayLogLinesPerMinutePerTenant: 60_000 }, { debug: ignored, info, warn: ignored });
  const say = (tenant: string, message: string): void =>
    log({ tenant, bundle: "b" } as unknown as GuestProgram, { level: "info", message });
  say("acme", "x".repeat(1_000_000));
  assert.ok(written[0]!.line.message.length < 5_000);
  for (let line = 0; line < 20_000; line++) say("evil", "again");
  const ofEvil = written.filter(({ tenant }) => tenant === "evil");
  assert.ok(ofEvil.length >= 1_000 && ofEvil.length < 10_000, `${ofEvil.length}`);
  say("acme", "short");
  assert.deepEqual([written.at(-1)!.tenant, written.at(-1)!.leftOut], ["acme", undefined]);
});
