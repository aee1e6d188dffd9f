import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Admission } from "../../src/admission/admission.ts";
import { readTenantLimits, tenantLimits } from "../../src/admission/tenant-limits.ts";
import { BerthError } from "../../src/lib/errors.ts";
import { defaultLimits } from "../../src/limits/limits.ts";

function refusalOf(work: () => void): BerthError {
  try {
    work();
  } catch (error) {
    if (error instanceof BerthError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("a tenant whose settings change", () => {
  it("C8 goes on where it was, unless its limits are other ones", () => {
    let requests = 1;
    const admission = new Admission(() => tenantLimits(defaultLimits, { requests }));
    admission.enter("acme");
    admission.follow("acme");
    refusalOf(() => admission.enter("acme"));
    requests = 2;
    admission.follow("acme");
    for (let request = 0; request < requests; request++) admission.enter("acme");
    refusalOf(() => admission.enter("acme"));
  });
});

describe("limits of a tenant", () => {
  it("C8 are the service's where the tenant has none of its own", () => {
    const limits = tenantLimits(defaultLimits, { requests: 3 });
    assert.equal(limits.requests, 3);
    assert.equal(limits.calls, defaultLimits.callsPerTenant);
  });

  it("C8 are read from what a person writes, and every mistake is told at once", () => {
    assert.deepEqual(readTenantLimits({ calls: 1, requests: 2 }, ["requests=5", "calls="]), { requests: 5 });
    const refused = refusalOf(() => readTenantLimits({}, ["request=5", "calls=many"]));
    assert.match(
      refused.message,
      /there is no limit "request"; there are requests, .*; "calls" must be a whole number/,
    );
  });
});
