import { strict as assert } from "node:assert";
import { chmodSync, readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import type { FailureReason, GuestOutcome, GuestProgram } from "../../src/executor/executor.ts";
import type { HostFolder } from "../../src/folders/folders.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import {
  assertNothingLeft,
  failureOf,
  latch,
  networkOf,
  openRig,
  programOf,
  largestMb,
  shape,
  valueOf,
  type Mode,
  type Rig,
} from "./executor.ts";
import { lower } from "./lowered-limits.ts";
import { commandOf, descendants } from "./processes.ts";
import { threadUserMs } from "./stopwatch.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/**
 * Hostile guests. Every attack is one call; beside it a neighbour's call is in flight from before the attack until
 * after it, and others come and go: none of them may notice, and the host may never stop turning.
 */
const attackShape = shape("attack", ["group", "name"], { style: "object", context: true });
/** User CPU time of the host's thread between two turns of its loop. Generous: it only has to be bounded. */
const TURN_MAX_MS = 2_000;
const MEMORY_MAX_MB = 700;
/** A deadline for calls that end by themselves, which no machine is busy enough to reach. */
const AMPLE_MS = 60_000;

interface Attack {
  readonly outcome: GuestOutcome;
  readonly tookMs: number;
  readonly peakMb: number;
}

const hostileLimits = { callsPerTenant: 64, guestDiskMb: 16 };
const hostileBounds = { guestEventsPerCall: 1_000_000, guestFiles: 5_000 };

/** `given` is what the hostile programs have besides their scratch folder; more than that is in `escapes.test.ts`. */
export function hostileContract(mode: Mode, given: "nothing" | "folders and a network" = "nothing"): void {
  const claims = mode === "sandboxed";

  describe(`a ${mode} executor survives, of a program with ${given}`, () => {
    let rig: Rig;
    let restore: () => void;
    const folders: HostFolder[] =
      given === "nothing" ? [] : [{ name: "given", path: temporaryFolder(), writable: true }];
    // Root's guests are nobody.
    for (const { path } of folders) chmodSync(path, 0o777);
    /** One neighbour for all attacks: an attack that it does not survive fails them all. */
    const neighbour = neighbourOf(claims ? "neighbour" : "default");
    before(async () => {
      restore = lower(hostileBounds);
      rig = await openRig(mode, hostileLimits);
    });
    after(async () => {
      await rig.close();
      restore();
      await assertNothingLeft();
    });

    const hostile = (): GuestProgram => ({
      ...programOf("hostile"),
      ...(given === "nothing" ? { network: networkOf() } : { folders, network: networkOf("127.0.0.1:1") }),
    });
    const attack = async (group: string, name: string, deadlineMs = AMPLE_MS): Promise<Attack> =>
      underAttack(rig, neighbour, async () =>
        rig.call(attackShape, { group, name }, { program: hostile(), deadlineMs }),
      );

    // Trusted mode limits V8's heap only; memory outside it is the sandbox's business.
    const inHeap = ["arrayPush", "stringSplit"];
    for (const name of claims ? [...inHeap, "wasm", "sharedBuffers", "progress"] : inHeap) {
      it(`a memory bomb: ${name}`, async () => {
        const { outcome, peakMb } = await attack("memory", name);
        assertReason(outcome, ["memory", "crash", "thrown", "protocol"]);
        assert.ok(peakMb < MEMORY_MAX_MB, `a guest held ${Math.round(peakMb)} MB`);
      });
    }

    for (const name of ["microtasks", "never", "stopped", "ignoringSignals"]) {
      it(`an endless function: ${name}`, async () => {
        const { outcome, tookMs } = await attack("loops", name, 300);
        assertReason(outcome, ["timeout"]);
        assert.ok(tookMs < AMPLE_MS, `it took ${tookMs} ms`);
      });
    }

    for (const name of ["garbage", "unknownKind", "wrongResult"]) {
      it(`an invalid frame: ${name}`, async () => {
        const { outcome } = await attack("pipe", name);
        assert.match(assertReason(outcome, ["protocol"]), /^its process wrote /);
      });
    }

    for (const name of ["progress", "strays", "emptyFrames", "requests", "stderr"]) {
      it(`a flood of ${name}`, async () => {
        const { outcome } = await attack("floods", name, 500);
        assertReason(outcome, ["protocol", "timeout", "memory", "thrown"]);
      });
    }

    const ends: Record<string, RegExp> = {
      exitWithCode: /exit code 7/,
      killSelf: /was killed/,
      segfault: /SIGSEGV/,
      closedPipe: /./,
    };
    for (const [name, expected] of Object.entries(ends)) {
      it(`a process that ends itself: ${name}`, async () => {
        const { outcome } = await attack("ends", name);
        assert.match(assertReason(outcome, ["crash"]), expected);
      });
    }
    it("a stack overflow, which is the function's own error", async () => {
      const { outcome } = await attack("ends", "stackOverflow");
      assert.match(assertReason(outcome, ["thrown"]), /Maximum call stack/);
    });

    it("a scratch folder that fills up with files", async () => {
      const { outcome } = await attack("scratch", "files");
      assert.match(
        assertReason(outcome, ["memory", "thrown"]),
        /more than \d+ files and folders to its scratch folder/,
      );
    });

    if (given !== "nothing") return;

    it("answers for calls that are not in flight, and values that would pollute prototypes", async () => {
      const program = hostile();
      assert.equal(await rig.value(shape("impersonate"), {}, { program }), "honest");
      const polluted = (await rig.value(shape("polluted"), {}, { program })) as JsonObject;
      assert.deepEqual(Object.keys(polluted), ["__proto__", "constructor"]);
      assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
    });

    it("a crash while siblings run: each of them may be repeated", async () => {
      const program = hostile();
      const args = { group: "loops", name: "never" };
      const siblings = [1, 2].map(() => rig.call(attackShape, args, { program }));
      const guilty = rig.call(attackShape, { group: "ends", name: "exitWithCode" }, { program });
      for (const call of [...siblings, guilty]) {
        const { reason, retriable } = failureOf(await call);
        assert.deepEqual([reason, retriable], ["crash", true]);
      }
    });

    it("a look at its environment, which shows nothing of the host", async () => {
      process.env["BERTH_TEST_SECRET"] = "in the environment";
      const self = valueOf((await attack("reach", "self")).outcome) as { env: string[]; argv: string; user: string };
      delete process.env["BERTH_TEST_SECRET"];
      const names = self.env.filter((name) => name !== "PWD");
      assert.deepEqual(names.sort(), ["HOME", "LANG", "TMPDIR", "TZ"]);
      if (!claims) return;
      assert.ok(!self.argv.includes(process.cwd()), self.argv);
      assert.equal(self.user, "65534:65534");
    });

    if (!claims) return;

    it("a guest gets no privilege, no namespace of its own and no core file", async () => {
      const program = hostile();
      await rig.value(shape("polluted"), {}, { program });
      for (const pid of descendants().filter(isGuest)) {
        const status = readFileSync(`/proc/${pid}/status`, "utf8");
        assert.match(status, /^CapEff:\s+0+$/m);
        assert.match(status, /^CapBnd:\s+0+$/m);
        assert.match(status, /^NoNewPrivs:\s+1$/m);
        const limits = readFileSync(`/proc/${pid}/limits`, "utf8");
        assert.match(limits, /^Max core file size\s+0\s+0/m);
        assert.match(limits, /^Max open files\s+256\s+256/m);
        const [, dataBytes] = /^Max data size\s+(\d+)/m.exec(limits)!;
        assert.ok(Number(dataBytes) <= 1024 * 1024 * 1024);
      }
    });
  });
}

/** A program whose call `gate` ends when it is released. */
interface Neighbour {
  readonly program: GuestProgram;
  /** From now on its calls wait for another gate. */
  readonly nextGate: () => (value: Json) => void;
}

function neighbourOf(tenant: string): Neighbour {
  let gate = latch<Json>();
  return {
    program: programOf("friendly", tenant, { request: () => gate.promise }),
    nextGate: () => (gate = latch<Json>()).open,
  };
}

/** Carries out an attack with a neighbour at work; asserts that the neighbour and the host did not notice. */
async function underAttack(
  rig: Rig,
  { program: neighbour, nextGate }: Neighbour,
  act: () => Promise<GuestOutcome>,
): Promise<Attack> {
  const open = nextGate();
  const inFlight = rig.value(
    shape("gate", [], { context: true }),
    {},
    { program: neighbour, deadlineMs: 5 * AMPLE_MS },
  );
  await rig.value(shape("nothing"), {}, { program: neighbour });
  const turns = watchTurns();
  const start = performance.now();

  const attack = new AbortController();
  let peakMb = 0;
  const pings = (async () => {
    while (!attack.signal.aborted) {
      peakMb = Math.max(peakMb, turns.apart(largestMb));
      const { ok } = await rig.call(shape("echo", ["message"]), { message: "ping" }, { program: neighbour });
      assert.ok(ok, "a neighbour's call failed");
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  })();
  const outcome = await act();
  const tookMs = performance.now() - start;
  attack.abort();
  await pings;
  open("still here");
  assert.equal(await inFlight, "still here");
  const turnMs = turns.longestMs();
  assert.ok(turnMs < TURN_MAX_MS, `the host did one thing for ${Math.round(turnMs)} ms`);
  return { outcome, tookMs, peakMb };
}

/**
 * The longest time that the host's thread runs its own code in one turn, from now until it is asked. On a machine that
 * is busy or short of memory, wall-clock time and the kernel's part would be longer.
 */
function watchTurns(): Turns {
  const EVERY_MS = 10;
  let longestMs = 0;
  let before = threadUserMs();
  const turn = (): void => {
    const now = threadUserMs();
    longestMs = Math.max(longestMs, now - before);
    before = now;
  };
  const timer = setInterval(turn, EVERY_MS);
  return {
    apart(look) {
      const start = threadUserMs();
      const seen = look();
      before += threadUserMs() - start;
      return seen;
    },
    longestMs() {
      clearInterval(timer);
      turn();
      return longestMs;
    },
  };
}

interface Turns {
  /** Does what the test does on the host's thread, and the host does not: on a busy machine, `/proc` is slow to read. */
  apart<Seen>(look: () => Seen): Seen;
  longestMs(): number;
}

/** The message of a failure that has one of these reasons. */
function assertReason(outcome: GuestOutcome, reasons: FailureReason[]): string {
  const { reason, message } = failureOf(outcome);
  assert.ok(reasons.includes(reason), `${reason} (${message}) is none of ${reasons.join(", ")}`);
  return message;
}

function isGuest(pid: number): boolean {
  return commandOf(pid).startsWith("/sbx/node ");
}
