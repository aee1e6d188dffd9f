import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, describe, it } from "node:test";
import { setNiceness } from "../../../src/processes/niceness.ts";
import { processTree, measureCpu } from "../../../src/processes/process-tree.ts";
import type { CpuQuota } from "../../../src/processes/quota/cpu-quota.ts";
import { PausedTrees } from "../../../src/processes/quota/paused-trees.ts";
import { QuotaBudget, QuotaKeeper } from "../../../src/processes/quota/quota-keeper.ts";
import { statOf } from "../../support/processes.ts";
import { until } from "../../support/until.ts";

const BURN = "while :; do :; done";

/** A quota whose use the test sets. */
class ToldUse implements CpuQuota {
  readonly cpus = 1;
  readonly periodMs = 100;
  isUsedByOthers = false;
  isGone = false;
  #usedMs = 0;
  #askedAt = performance.now();

  usedMs(): number {
    if (this.isGone) throw new Error("there is no such file");
    const now = performance.now();
    if (this.isUsedByOthers) this.#usedMs += 2 * (now - this.#askedAt);
    this.#askedAt = now;
    return this.#usedMs;
  }
}

describe("when the quota of CPU time is used up", () => {
  const started: ChildProcess[] = [];
  let quota: ToldUse | undefined;
  let keeper: QuotaKeeper;
  beforeEach(() => {
    quota = new ToldUse();
    keeper = new QuotaKeeper(() => quota);
  });
  afterEach(async () => {
    keeper.close();
    const ended = started.splice(0).map(async (child) => {
      const exit = once(child, "exit");
      process.kill(-child.pid!, "SIGKILL");
      await exit;
    });
    await Promise.all(ended);
  });

  const start = (niceness: number, script = BURN): number => {
    const child = spawn("/bin/sh", ["-c", script], { stdio: ["pipe", "pipe", "ignore"], detached: true });
    started.push(child);
    if (niceness > 0) setNiceness(child.pid!, niceness);
    keeper.started(child.pid!);
    return child.pid!;
  };
  const isHeld = (pid: number): boolean => statOf(pid)?.state === "T";

  it("stops processes of the lowest priority with their children, and resumes them", async () => {
    const parent = start(19, `(${BURN}) & wait`);
    await until(() => processTree(parent).length === 2);
    const [, child] = processTree(parent);
    quota!.isUsedByOthers = true;
    await until(() => isHeld(child!));
    quota!.isUsedByOthers = false;
    await until(() => !isHeld(child!));
  });

  it("stops processes of lower priority only briefly, and those of normal priority never", async () => {
    const [compiles, serves] = [start(3), start(0)];
    let isServingHeld = false;
    quota!.isUsedByOthers = true;
    const look = (): boolean => ((isServingHeld ||= isHeld(serves)), isHeld(compiles));
    await until(look);
    await until(() => !look());
    await until(look);
    assert.equal(isServingHeld, false);
  });

  it("lets a process run for a while after its longest pause", async () => {
    const burning = start(0);
    await until(() => measureCpu([burning]).processorMs > 0);
    const trees = new PausedTrees(0);
    const isHeldAt = (now: number): boolean => {
      trees.resumeAfter(100, 50, now);
      trees.pause([burning], now);
      return isHeld(burning);
    };
    await until(() => isHeldAt(0));
    assert.deepEqual([isHeldAt(100), isHeldAt(101), isHeldAt(150)], [true, false, false]);
    await until(() => isHeldAt(151));
    trees.resume();
    assert.equal(isHeld(burning), false);
  });

  it("does not stop a waiting process", async () => {
    const [waiting, burning] = [start(19, "echo started; read line"), start(19)];
    await once(started[0]!.stdout!, "data");
    await until(() => statOf(waiting)?.state === "S");
    quota!.isUsedByOthers = true;
    let wasHeld = false;
    for (let times = 0; times < 2; times++) {
      await until(() => ((wasHeld ||= isHeld(waiting)), isHeld(burning)));
      await until(() => ((wasHeld ||= isHeld(waiting)), !isHeld(burning)));
    }
    assert.equal(wasHeld, false);
  });

  it("resumes processes when the quota is gone, or no longer enforced", async () => {
    const burning = start(19);
    quota!.isUsedByOthers = true;
    await until(() => isHeld(burning));
    quota!.isGone = true;
    await until(() => !isHeld(burning));
    quota!.isGone = false;
    keeper.close();
    keeper = new QuotaKeeper(() => quota);
    keeper.started(burning);
    await until(() => isHeld(burning));
    keeper.close();
    assert.equal(isHeld(burning), false);
  });

  it("forgets processes that have ended", async () => {
    const burning = start(19);
    quota!.isUsedByOthers = true;
    await until(() => isHeld(burning));
    const [child] = started.splice(0);
    const exit = once(child!, "exit");
    child!.kill("SIGKILL");
    await exit;
    keeper.ended(burning);
    const next = start(19);
    await until(() => isHeld(next));
  });
});

describe("the remaining quota of CPU time", () => {
  const of = (cpus: number) => {
    const quota = { cpus, periodMs: 100, used: 0, usedMs: () => quota.used };
    return { quota, budget: new QuotaBudget(quota, 0) };
  };

  it("is a tenth of a period's after a rest, and fills at three quarters of the quota's pace", () => {
    const { quota, budget } = of(2);
    const use = (ms: number, now: number): boolean[] => {
      quota.used += ms;
      budget.measure(now);
      return [budget.isHalfFull, budget.isSpent, budget.isOverdrawn];
    };
    assert.deepEqual(use(0, 1_000), [true, false, false]);
    assert.deepEqual(use(15 + 9.9, 1_010), [true, false, false]);
    assert.deepEqual(use(15 + 10, 1_020), [false, false, false]);
    assert.deepEqual(use(15 + 0.2, 1_030), [false, true, false]);
    assert.deepEqual(use(15 + 20, 1_040), [false, true, true]);
    assert.deepEqual(use(0, 1_070), [true, false, false]);
  });

  it("forgets what was used beyond four times of that", () => {
    const { quota, budget } = of(1);
    quota.used = 10_000;
    budget.measure(10);
    budget.measure(10 + 40 / 0.75);
    assert.equal(budget.isSpent, true);
    budget.measure(10 + 41 / 0.75);
    assert.equal(budget.isSpent, false);
  });

  it("is busy where more than half of the quota is used", () => {
    const { quota, budget } = of(1);
    quota.used = 4;
    budget.measure(10);
    assert.equal(budget.isBusy, false);
    quota.used = 10;
    budget.measure(20);
    assert.equal(budget.isBusy, true);
  });
});
