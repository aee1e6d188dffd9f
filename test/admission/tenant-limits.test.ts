import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Admission } from "../../src/admission/admission.ts";
import { readTenantLimits, tenantLimits, workerTenantLimits } from "../../src/admission/tenant-limits.ts";
import { defaultLimits, machineLimits, workerLimits, type Limits } from "../../src/limits/limits.ts";

it("a tenant whose settings change goes on where it was, unless its limits are other ones", () => {
  let requests = 1;
  const admission = new Admission(() => tenantLimits(defaultLimits, { requests }));
  admission.enter("acme");
  admission.follow("acme");
  assert.throws(() => admission.enter("acme"), { code: "too_many_requests" });
  requests = 2;
  admission.follow("acme");
  for (let request = 0; request < requests; request++) admission.enter("acme");
  assert.throws(() => admission.enter("acme"), { code: "too_many_requests" });
});

describe("limits of what a machine has once", () => {
  it("each of several workers has its share of, and those of a tenant's own", () => {
    const limits = workerLimits(defaultLimits, 4);
    assert.equal(limits.guestProcesses, defaultLimits.guestProcesses / 4);
    assert.equal(limits.heldBodyBytes, defaultLimits.heldBodyBytes / 4);
    assert.equal(limits.callMs, defaultLimits.callMs);
    const tenant = workerTenantLimits(limits, { guestProcesses: 8, requests: 8 }, 4);
    assert.deepEqual([tenant.guestProcesses, tenant.requests], [2, 8]);
    assert.equal(tenant.scriptProcesses, defaultLimits.scriptProcessesPerTenant / 4);
  });

  it("is never too small for what has to fit into it, more than the whole, or a limit where there was none", () => {
    const limits = workerLimits({ ...defaultLimits, guestProcesses: 3, draftBytes: 100 }, 32);
    assert.equal(limits.guestProcesses, 1);
    assert.equal(limits.draftBytes, 100);
    assert.equal(limits.cpuMsPerSecondPerTenant, 0);
    const limited = workerLimits({ ...defaultLimits, cpuMsPerSecondPerTenant: 500 }, 32);
    assert.equal(workerTenantLimits(limited, { cpuMsPerSecond: 0 }, 32).cpuMsPerSecond, 0);
    for (const [name, least] of Object.entries(machineLimits).filter(([name]) => name !== "draftBytes"))
      if (typeof least === "string") assert.ok(limits[name as keyof Limits] >= limits[least], name);
  });

  it("one process has all of", () => {
    for (const workers of [0, 1]) {
      assert.deepEqual(workerLimits(defaultLimits, workers), defaultLimits);
      assert.equal(workerTenantLimits(defaultLimits, { guestProcesses: 8 }, workers).guestProcesses, 8);
    }
  });
});

describe("limits of a tenant", () => {
  it("are the service's where the tenant has none of its own (C8)", () => {
    const limits = tenantLimits(defaultLimits, { requests: 3 });
    assert.equal(limits.requests, 3);
    assert.equal(limits.calls, defaultLimits.callsPerTenant);
  });

  it("are read from what a person writes, and every mistake is told at once", () => {
    assert.deepEqual(readTenantLimits({ calls: 1, requests: 2 }, ["requests=5", "calls="]), { requests: 5 });
    const message = /there is no limit "request"; there are requests, .*; "calls" must be a whole number/;
    assert.throws(() => readTenantLimits({}, ["request=5", "calls=many"]), { message });
  });
});
