import assert from "node:assert/strict";
import { it } from "node:test";
import { Admission } from "../../src/admission/admission.ts";
import { tenantLimits } from "../../src/admission/tenant-limits.ts";
import { defaultLimits } from "../../src/limits/limits.ts";

it("streams and principalStreams: each is counted, to its tenant and to whose it is, until it ends (C8)", () => {
  const limits = { ...tenantLimits(defaultLimits), streams: 2, principalStreams: 1 };
  const admission = new Admission(() => limits);
  const person = { id: "ada", tenant: "acme" } as Parameters<Admission["enterAs"]>[0];
  const leave = admission.enterStream("acme", person);
  assert.throws(
    () => admission.enterStream("acme", person),
    /this token of the tenant "acme" already has 1 streams in progress/,
  );
  const leaveOther = admission.enterStream("acme", undefined);
  assert.throws(() => admission.enterStream("acme", undefined), /the tenant "acme" already has 2 streams in progress/);
  leaveOther();
  leave();
  admission.enterStream("acme", person);
});
