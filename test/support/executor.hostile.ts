import { strict as assert } from "node:assert";
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
import { until } from "./until.ts";

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
    const folders: HostFolder[] = [];
    /** One neighbour for all attacks: an attack that it does not survive fails them all. */
    const neighbour = neighbourOf(claims ? "neighbour" : "default");
    before(async () => {
      restore = lower(hostileBounds);
      rig = await openRig(mode, hostileLimits);
      if (given === "nothing") return;
      const path = realpathSync(mkdtempSync(join(tmpdir(), "berth-given-")));
      // Root's guests are nobody.
      chmodSync(path, 0o777);
      folders.push({ name: "given", path, writable: true });
    });
    after(async () => {
      await rig.close();
      restore();
      await assertNothingLeft();
      for (const { path } of folders) rmSync(path, { recursive: true });
    });

    const hostile = (): GuestProgram => ({
      ...programOf("hostile"),
      ...(given === "nothing" ? { network: networkOf() } : { folders, network: networkOf("127.0.0.1:1") }),
    });
    const attack = async (group: string, name: string, deadlineMs: number, more: JsonObject = {}): Promise<Attack> =>
      underAttack(rig, neighbour, async () =>
        rig.call(attackShape, { group, name, ...more }, { program: hostile(), deadlineMs }),
      );

    // Trusted mode limits V8's heap only; memory outside it is the sandbox's business.
    const inHeap = ["arrayFill", "arrayPush", "stringSplit", "arrayConcat", "maps"];
    const outOfHeap = ["buffers", "stringGrowth", "wasm", "sharedBuffers", "progress"];
    for (const name of claims ? [...inHeap, ...outOfHeap] : inHeap) {
      it(`a memory bomb: ${name}`, async () => {
        const { outcome, peakMb } = await attack("memory", name, AMPLE_MS);
        assertReason(outcome, ["memory", "crash", "thrown", "protocol"]);
        assert.ok(peakMb < MEMORY_MAX_MB, `a guest held ${Math.round(peakMb)} MB`);
      });
    }

    const endless = [
      "sync",
      "microtasks",
      "immediates",
      "nextTicks",
      "regularExpression",
      "never",
      "stopped",
      "sharedMemory",
      "ignoringSignals",
    ];
    for (const name of endless) {
      it(`something that does not end: ${name}`, async () => {
        const { outcome, tookMs } = await attack("loops", name, 300);
        assertReason(outcome, ["timeout"]);
        assert.ok(tookMs < AMPLE_MS, `it took ${tookMs} ms`);
      });
    }

    const broken = ["garbage", "null", "number", "text", "emptyLine", "binary", "unknownKind", "noKind"];
    const wrong = ["noNewline", "hugeFrame", "deepNesting", "deepObjects", "wrongResult", "noResult", "badBytes"];
    for (const name of [...broken, ...wrong]) {
      it(`what is no frame: ${name}`, async () => {
        const { outcome } = await attack("pipe", name, AMPLE_MS);
        const message = assertReason(outcome, ["protocol"]);
        assert.match(message, /^its process wrote /);
      });
    }

    for (const name of ["progress", "logs", "strays", "emptyFrames", "requests"]) {
      it(`a flood of ${name}`, async () => {
        const { outcome } = await attack("floods", name, 1_500);
        assertReason(outcome, ["protocol", "timeout", "memory"]);
      });
    }
    it("a flood on stderr", async () => {
      const { outcome } = await attack("floods", "stderr", 500);
      assertReason(outcome, ["timeout", "thrown"]);
    });

    const ends: Record<string, RegExp> = {
      exit: /exit code 0/,
      exitWithCode: /exit code 7/,
      abort: /SIGABRT/,
      reallyExit: /exit code 3/,
      killSelf: /was killed/,
      segfault: /SIGSEGV/,
      closedPipe: /./,
    };
    for (const [name, expected] of Object.entries(ends)) {
      it(`a process that ends itself: ${name}`, async () => {
        const { outcome } = await attack("ends", name, AMPLE_MS);
        assert.match(assertReason(outcome, ["crash"]), expected);
      });
    }
    it("a stack overflow, which is the function's own error", async () => {
      const { outcome } = await attack("ends", "stackOverflow", AMPLE_MS);
      assert.match(assertReason(outcome, ["thrown"]), /Maximum call stack/);
    });

    it("processes and workers that nobody may start", async () => {
      for (const name of ["spawn", "fork", "forkBomb", "binding"]) {
        const { outcome } = await attack("reach", name, AMPLE_MS);
        assert.match(
          assertReason(outcome, ["thrown"]),
          /may not start other programs|restricted|may not|No such module/,
          name,
        );
      }
      const { outcome } = await attack("reach", "workerBomb", AMPLE_MS);
      assert.match(assertReason(outcome, ["thrown"]), /may not start worker threads/);
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

    it("files and the environment of the host stay out of reach", async () => {
      const folder = mkdtempSync(join(tmpdir(), "berth-outside-"));
      try {
        writeFileSync(join(folder, "secret"), "a secret");
        process.env["BERTH_TEST_SECRET"] = "in the environment";
        const paths = [
          "/etc/passwd",
          "/proc/self/environ",
          "/proc/1/environ",
          join(folder, "secret"),
          import.meta.filename,
        ];
        for (const path of paths) {
          const { outcome } = await attack("reach", "file", AMPLE_MS, { path });
          assertReason(outcome, ["thrown"]);
        }
        for (const path of ["/", "/home", folder]) {
          assertReason((await attack("reach", "folder", AMPLE_MS, { path })).outcome, ["thrown"]);
        }
        for (const path of [join(folder, "new"), "/berth-escaped", "/sbx/guest/runner.mjs"]) {
          assertReason((await attack("reach", "write", AMPLE_MS, { path })).outcome, ["thrown"]);
        }
        // In the sandbox this is its own folder.
        await attack("reach", "write", AMPLE_MS, { path: "/tmp/berth-escaped" });
        assert.ok(
          !existsSync(join(folder, "new")) && !existsSync("/tmp/berth-escaped") && !existsSync("/berth-escaped"),
        );
        const { outcome } = await attack("reach", "environment", AMPLE_MS);
        const names = Object.keys(valueOf(outcome) as JsonObject).filter((name) => name !== "PWD");
        assert.deepEqual(names.sort(), ["HOME", "LANG", "TMPDIR", "TZ"]);
      } finally {
        delete process.env["BERTH_TEST_SECRET"];
        rmSync(folder, { recursive: true, force: true });
      }
    });

    it("the inspector stays closed", async () => {
      const { outcome } = await attack("reach", "inspector", AMPLE_MS);
      assertReason(outcome, ["thrown"]);
    });

    it("a scratch folder that fills up, with bytes or with files", async () => {
      const program = programOf("friendly");
      for (const name of ["fill", "oneLong", "files"]) {
        const { outcome } = await attack("scratch", name, AMPLE_MS);
        const message = assertReason(outcome, ["memory", "thrown"]);
        assert.match(
          message,
          /ENOSPC|scratch folder \(os\.tmpdir\(\)\) is full|more than (?:\d+ MB|\d+ files and folders) into its scratch folder/,
          name,
        );
        if (name === "files") assert.match(message, /files and folders/);
        assert.equal(await rig.value(shape("echo", ["message"]), { message: "here" }, { program }), "here");
      }
    });

    it("ways out of the scratch folder, none of which leads to a file of the host", async () => {
      const folder = mkdtempSync(join(tmpdir(), "berth-outside-"));
      const path = join(folder, "secret");
      try {
        writeFileSync(path, "a secret");
        const ways = ["link", "linkedFolder", "hardLink", "upwards", "race", "copyAll", "watch", "moveHere"];
        const codes = ["addon", "dlopen", "bindingOfFiles", "requireFile", "requireProgram", "throughVm"];
        const others = ["elsewhere", "runner", "worker", "openInspector"];
        for (const name of [...ways, ...codes, ...others]) {
          assertReason((await attack("scratch", name, AMPLE_MS, { path })).outcome, ["thrown"]);
        }
        await attack("scratch", "linkedWrite", AMPLE_MS, { path: join(folder, "written") });
        assert.deepEqual(readdirSync(folder), ["secret"]);
        const names = ["environ", "maps", "mem", "fd/3", "root/etc/passwd", "cwd/../../etc/passwd"];
        const devices = ["/dev/zero", "/dev/mem", "/dev/kmsg", "/sys/kernel/notes"];
        for (const each of [...names.map((name) => `/proc/self/${name}`), "/proc/1/environ", ...devices]) {
          assertReason((await attack("reach", "file", AMPLE_MS, { path: each })).outcome, ["thrown"]);
        }
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    });

    it("a name that is looked up at a server that does not answer", async () => {
      assertReason((await attack("scratch", "resolveSlowly", 500)).outcome, ["thrown", "timeout"]);
    });

    it("files of one guest, which no other finds and which go with it", async () => {
      const folders: string[] = [];
      for (const program of [hostile(), hostile()]) {
        const call = { group: "scratch", name: "own" };
        const own = (await rig.value(attackShape, call, { program })) as Record<string, string>;
        assert.deepEqual(own, { cwd: own["cwd"], home: own["cwd"], tmp: own["cwd"], read: "here" });
        const listed = await rig.value(attackShape, { group: "reach", name: "folder", path: own["cwd"]! }, { program });
        assert.equal(listed, "relative");
        folders.push(own["cwd"]!);
        await rig.call(attackShape, { group: "ends", name: "exit" }, { program });
      }
      assert.equal(new Set(folders).size, claims ? 1 : 2);
      if (!claims) await until(() => !folders.some((folder) => existsSync(folder)), "their folders are gone");
    });

    if (!claims) return;

    it("the network stays out of reach", async () => {
      const folder = mkdtempSync(join(tmpdir(), "berth-socket-"));
      let connections = 0;
      const server = createServer((socket) => {
        connections++;
        socket.destroy();
      });
      const local = createServer(() => connections++);
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const path = join(folder, "socket");
      await new Promise<void>((resolve) => local.listen(path, resolve));
      try {
        const { port } = server.address() as { port: number };
        const tries: [string, JsonObject][] = [
          ["connect", { host: "127.0.0.1", port }],
          ["connect", { host: "::1", port }],
          ["connect", { host: "1.1.1.1", port: 53 }],
          ["get", { url: `http://localhost:${port}/` }],
          ["unixSocket", { path }],
          ["unixSocket", { path: "\0abstract" }],
          ["lookup", { host: "example.org" }],
        ];
        for (const [name, args] of tries) {
          const { outcome } = await attack("reach", name, 8_000, args);
          assertReason(outcome, ["thrown", "timeout"]);
        }
        assert.equal(connections, 0);
        assert.equal(valueOf((await attack("reach", "interfaces", AMPLE_MS)).outcome), 0);
      } finally {
        server.close();
        local.close();
        rmSync(folder, { recursive: true, force: true });
      }
    });

    it("other processes stay out of reach of its signals", async () => {
      const neighbours = descendants().length;
      for (const name of ["signalParent", "signalAll"]) await attack("reach", name, AMPLE_MS);
      const { outcome } = await attack("reach", "signalPid", AMPLE_MS, { pid: process.pid });
      assert.match(assertReason(outcome, ["thrown"]), /ESRCH|EPERM/);
      assert.ok(neighbours > 0);
    });

    it("it is nobody, and knows nothing of the host", async () => {
      assert.equal(valueOf((await attack("reach", "user", AMPLE_MS)).outcome), "65534:65534");
      assertReason((await attack("reach", "setUser", AMPLE_MS)).outcome, ["thrown"]);
      assertReason((await attack("reach", "hostname", AMPLE_MS)).outcome, ["thrown"]);
      const argv = valueOf((await attack("reach", "argv", AMPLE_MS)).outcome) as string;
      assert.ok(!argv.includes(process.cwd()), argv);
    });

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

    it("two tenants never share a process", async () => {
      const rig = await openRig(mode);
      const mine = programOf("friendly", "one");
      const theirs = { ...mine, tenant: "two" };
      const pid = (program: GuestProgram): Promise<Json> => rig.value(shape("pid"), {}, { program });
      await pid(mine);
      await pid(theirs);
      assert.equal(rig.executor.stats().programs, 2);
      await rig.close();
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
