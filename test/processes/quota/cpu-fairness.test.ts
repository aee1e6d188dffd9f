import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism, getPriority } from "node:os";
import { afterEach, beforeEach, describe, it } from "node:test";
import { clock } from "../../../src/lib/clock.ts";
import { setRevocableNiceness } from "../../../src/processes/niceness.ts";
import { cpuMs, processTree } from "../../../src/processes/process-tree.ts";
import { CpuFairness } from "../../../src/processes/quota/cpu-fairness.ts";
import { openRig, shape } from "../../support/executor.ts";
import { descendants, givingWayBy, statOf } from "../../support/processes.ts";
import { until } from "../../support/until.ts";

const BURN = "while :; do :; done";
/** A program that uses nothing, not even at its start. */
const REST = "exec sleep 1000";
/** Longer than a tenant has to use little to be calm. */
const CALM_MS = 10_000;

class Running {
  readonly pid: number;
  readonly #child: ChildProcess;

  constructor(script: string) {
    this.#child = spawn("/bin/sh", ["-c", script], { stdio: "ignore", detached: true });
    this.pid = this.#child.pid!;
  }

  get isHeld(): boolean {
    return statOf(this.pid)?.state === "T";
  }

  /** Ends it with all that it has started. */
  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, "exit");
    process.kill(-this.pid, "SIGKILL");
    await exit;
  }
}

const started: Running[] = [];
const start = (script: string): Running => {
  const running = new Running(script);
  started.push(running);
  return running;
};
const endAll = (): Promise<void[]> => Promise.all(started.splice(0).map((running) => running.end()));

/**
 * The niceness of the process relative to these tests, and, where the system distributes time by session, that of its
 * session.
 */
function nicenessesOf(pid: number): number[] {
  const session = `/proc/${pid}/autogroup`;
  const own = Number(/\) (?:\S+ ){16}(\S+)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))![1]);
  const more = own - getPriority();
  return existsSync(session) ? [more, Number(readFileSync(session, "utf8").trim().split(" ").at(-1))] : [more];
}

describe("a spare guest process", () => {
  it("runs at low priority until it has a program", async (t) => {
    const rig = await openRig(process.platform === "linux" ? "sandboxed" : "trusted", { guestSpareProcesses: 1 });
    t.after(() => rig.close());
    let spare: number[] = [];
    // The sandbox is two processes around it.
    await until(() => (spare = descendants()).length >= (process.platform === "linux" ? 3 : 0));
    if (existsSync("/proc/self/autogroup")) {
      assert.ok(spare.every((pid) => nicenessesOf(pid).includes(10)));
    }
    await rig.value(shape("echo", ["message"]), { message: "hello" });
    await until(() => spare.every((pid) => nicenessesOf(pid).every((niceness) => niceness === 0)));
  });
});

describe("tenants with a limit of CPU time", () => {
  /** The limit of the tenant "small", read whenever its use was counted. */
  let mayUse: () => number;
  let heavy: CpuFairness;
  beforeEach(() => {
    // Running guests use up so little however busy the machine is, and stopped ones have soon paid it back. A minute of
    // it, the most that is paid back, is more than all processors of two guests give between two looks.
    mayUse = () => (started.some(({ isHeld }) => isHeld) ? 500 : 10);
    heavy = new CpuFairness({ cpuMsPerSecond: (tenant) => (tenant === "small" ? mayUse() : 0) });
  });
  afterEach(() => {
    heavy.close();
    return endAll();
  });

  it("cpuMsPerSecond: use no more in the long run, child processes included", async () => {
    const guests = [BURN, `(${BURN}) & wait`].map(start);
    const usedMs = (): number => cpuMs(guests.flatMap(({ pid }) => processTree(pid)));
    // Overuse is paid back by the look at which they go on. They stand still at that look, so this machine's delays do
    // not matter.
    const goneOn: { mayUseMs: number; usedMs: number }[] = [];
    let held: (typeof goneOn)[number] | undefined;
    let lookedAt = performance.now();
    let mayUseMs = 0;
    const perSecond = mayUse;
    mayUse = () => {
      const msPerSecond = perSecond();
      mayUseMs += ((performance.now() - lookedAt) / 1_000) * msPerSecond;
      lookedAt = performance.now();
      if (guests.every(({ isHeld }) => isHeld)) held = { mayUseMs, usedMs: usedMs() };
      else if (held) {
        goneOn.push(held);
        held = undefined;
      }
      return msPerSecond;
    };
    for (const guest of guests) heavy.add("small", guest);
    await until(() => goneOn.length === 3);
    const [from, , to] = goneOn as [(typeof goneOn)[0], (typeof goneOn)[0], (typeof goneOn)[0]];
    const [used, may] = [to.usedMs - from.usedMs, to.mayUseMs - from.mayUseMs];
    assert.ok(used > 0 && used <= may + 500, `${used} of ${may} ms`);
  });

  it("cpuMsPerSecond: are stopped until they may use CPU time again, even if another process resumes them", async () => {
    const guest = start(BURN);
    heavy.add("small", guest);
    await until(() => guest.isHeld);
    mayUse = () => 1;
    process.kill(guest.pid, "SIGCONT");
    await until(() => guest.isHeld);
    mayUse = () => 0;
    await until(() => !guest.isHeld);
  });

  it("cpuMsPerSecond: do not stop other tenants, or processes that wait", async () => {
    const [burning, waiting, other] = [start(BURN), start(REST), start(BURN)];
    heavy.add("small", burning);
    heavy.add("small", waiting);
    heavy.add("large", other);
    let wereHeld = false;
    const look = (): boolean => ((wereHeld ||= waiting.isHeld || other.isHeld), burning.isHeld);
    await until(look);
    await until(() => (clock.leap(1_000), !look()));
    await until(look);
    assert.equal(wereHeld, false);
  });

  it("cpuMsPerSecond: are resumed when the watch ends", async () => {
    const guest = start(BURN);
    heavy.add("small", guest);
    await until(() => guest.isHeld);
    heavy.close();
    assert.equal(guest.isHeld, false);
  });
});

describe("tenants whose guests use much CPU time", () => {
  let heavy: CpuFairness;
  beforeEach(() => (heavy = new CpuFairness()));
  const nicenessOf = ({ pid }: { readonly pid: number }): number => statOf(pid)!.niceness;
  afterEach(() => {
    heavy.close();
    return endAll();
  });

  it("regain normal priority for processes that were just starting", async () => {
    const guest = start(REST);
    setRevocableNiceness(guest.pid, 10);
    heavy.add("calm", guest, { isNice: true });
    assert.equal(nicenessOf(guest), givingWayBy(0));
    // As a process that starts at this very moment inherits it.
    setRevocableNiceness(guest.pid, 10);
    await until(() => nicenessOf(guest) === givingWayBy(0));
  });

  it("lose priority for all their processes, while guests of other tenants do not (C8)", async () => {
    const [burning, resting, other] = [start(BURN), start(REST), start(REST)];
    heavy.add("noisy", burning);
    heavy.add("noisy", resting);
    heavy.add("calm", other);
    await until(async () => nicenessOf(burning) === 19 && nicenessOf(resting) === 19);
    assert.equal(nicenessOf(other), nicenessOf(process), "as it was started");
    assert.deepEqual([heavy.startNiceness("noisy"), heavy.startNiceness("calm")], [19, 0]);
    const next = start(REST);
    heavy.add("noisy", next);
    assert.equal(nicenessOf(next), 19, "one that starts meanwhile as well");

    await burning.end();
    heavy.delete(burning);
    await until(() => (clock.leap(CALM_MS), !heavy.isHeavy("noisy")));
    // Only privileged users may raise a priority again.
    assert.equal(nicenessOf(resting), process.getuid?.() === 0 ? givingWayBy(0) : 19);
    const after = start(REST);
    heavy.add("noisy", after);
    assert.equal(nicenessOf(after), nicenessOf(process), "one that starts when they are calm again does not");
  });

  it("stay heavy while their processes are stopped", async () => {
    const burning = start(BURN);
    heavy.add("noisy", burning);
    await until(() => heavy.isHeavy("noisy"));
    process.kill(burning.pid, "SIGSTOP");
    await until(() => burning.isHeld);
    for (let looks = 0; looks < 3; looks++) {
      clock.leap(CALM_MS);
      // A process that is added when others are measured is measured later than they are.
      await new Promise<void>((resolve) => heavy.add("calm", start(REST), { onPoll: () => resolve() }));
      assert.ok(heavy.isHeavy("noisy"));
    }
    process.kill(burning.pid, "SIGCONT");
  });

  it("are heavy even if CPU contention leaves little to each", async () => {
    const tenants = Array.from({ length: 3 * availableParallelism() }, (_, number) => `noisy-${number}`);
    for (const tenant of tenants) heavy.add(tenant, start(BURN));
    await until(() => tenants.every((tenant) => heavy.isHeavy(tenant)));
  });

  it("start processes at low priority while they are at their limit of starts", async () => {
    const [hasty, calm] = [start(REST), start(REST)];
    for (const { pid } of [hasty, calm]) setRevocableNiceness(pid, 10);
    const asStarted = nicenessesOf(hasty.pid);
    heavy.noteDelayed("hasty");
    heavy.add("hasty", hasty, { isNice: true });
    heavy.add("calm", calm, { isNice: true });
    assert.deepEqual(nicenessesOf(hasty.pid), asStarted);
    const keepsUp = ({ pid }: Running): boolean => nicenessesOf(pid).every((niceness) => niceness === 0);
    await until(() => keepsUp(calm));
    assert.deepEqual(nicenessesOf(hasty.pid), asStarted);
    await until(() => (clock.leap(CALM_MS), keepsUp(hasty)));
  });

  it("are unaffected by a process that has ended", () => {
    assert.deepEqual(processTree(2 ** 22 + 1), [2 ** 22 + 1]);
    assert.equal(cpuMs([2 ** 22 + 1]), 0);
    heavy.add("gone", { pid: 2 ** 22 + 1 });
    heavy.add("unstarted", { pid: undefined });
    assert.equal(heavy.isHeavy("gone"), false);
  });
});
