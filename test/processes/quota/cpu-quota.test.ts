import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { findCpuQuota } from "../../../src/processes/quota/cpu-quota.ts";

describe("the CPU quota of Berth's container", () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "berth-quota-"))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const write = (files: Record<string, string>): void => {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
  };
  const mounted = (name: string, type: string, options: string, root = "/"): string =>
    `31 23 0:28 ${root} ${join(folder, name)} rw,relatime shared:9 - ${type} none ${options}\n`;
  const find = () => {
    const found = findCpuQuota(folder);
    return found && { processors: found.cpus, periodMs: found.periodMs, usedMs: found.usedMs() };
  };

  it("is what the container has", () => {
    write({
      cgroup: "0::/\n",
      mountinfo: mounted("groups", "cgroup2", "rw,nsdelegate"),
      "groups/cpu.max": "150000 100000\n",
      "groups/cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nnr_throttled 3\n",
    });
    assert.deepEqual(find(), { processors: 1.5, periodMs: 100, usedMs: 2_500 });
  });

  it("is the tightest one of the groups that it is in, with all that these use", () => {
    write({
      cgroup: "0::/system.slice/berth.service\n",
      mountinfo: mounted("groups", "cgroup2", "rw"),
      "groups/system.slice/cpu.max": "50000 50000\n",
      "groups/system.slice/cpu.stat": "usage_usec 9000\n",
      "groups/system.slice/berth.service/cpu.max": "200000 100000\n",
      "groups/system.slice/berth.service/cpu.stat": "usage_usec 1000\n",
    });
    assert.deepEqual(find(), { processors: 1, periodMs: 50, usedMs: 9 });
  });

  it("is found where only a part of the hierarchy is seen", () => {
    write({
      cgroup: "0::/pods/one/berth\n",
      mountinfo: mounted("groups", "cgroup2", "rw", "/pods/one"),
      "groups/berth/cpu.max": "300000 100000\n",
      "groups/berth/cpu.stat": "usage_usec 0\n",
    });
    assert.equal(find()?.processors, 3);
    write({ cgroup: "0::/../elsewhere\n" });
    assert.equal(find(), undefined);
  });

  it("is found in the hierarchies of version 1, unless what is used is accounted for elsewhere", () => {
    write({
      cgroup: "4:memory:/other\n3:cpuacct:/berth\n2:cpu:/berth\n",
      mountinfo: mounted("cpu", "cgroup", "rw,cpu") + mounted("acct", "cgroup", "rw,cpuacct"),
      "cpu/cpu.cfs_quota_us": "-1\n",
      "cpu/cpu.cfs_period_us": "100000\n",
      "cpu/berth/cpu.cfs_quota_us": "50000\n",
      "cpu/berth/cpu.cfs_period_us": "100000\n",
      "acct/berth/cpuacct.usage": "7000000\n",
    });
    assert.deepEqual(find(), { processors: 0.5, periodMs: 100, usedMs: 7 });
    write({ cgroup: "3:cpuacct:/\n2:cpu:/berth\n" });
    assert.equal(find(), undefined);
  });

  it("is none where there is none, or where nothing tells what is used", () => {
    assert.equal(find(), undefined);
    write({ cgroup: "0::/\n", mountinfo: mounted("groups", "cgroup2", "rw") });
    assert.equal(find(), undefined);
    write({ "groups/cpu.max": "max 100000\n", "groups/cpu.stat": "usage_usec 0\n" });
    assert.equal(find(), undefined);
    write({ "groups/cpu.max": "100000 100000\n", "groups/cpu.stat": "" });
    assert.equal(find(), undefined);
  });
});
