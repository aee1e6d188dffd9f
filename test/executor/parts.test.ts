import { strict as assert } from "node:assert";
import { execFileSync, spawn, type ChildProcessByStdio } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { after, describe, it } from "node:test";
import { defaultLimits } from "../../src/limits/limits.ts";
import { Backoff } from "../../src/executor/pool.ts";
import { failure } from "../../src/executor/failures.ts";
import { Collected } from "../../src/host/calls/run.ts";
import { FrameReader } from "../../src/executor/guest-process.ts";
import { toHost } from "../../src/executor/guest/wire.mts";
import { BoundedQueue } from "../../src/executor/guest-executor.ts";
import type { ExecutorLog } from "../../src/executor/guest-log.ts";
import { openExecutor } from "../../src/executor/open.ts";
import { ReadingTime } from "../../src/lib/reading-time.ts";
import { FairSemaphore } from "../../src/lib/fair-semaphore.ts";
import type { GuestOutcome } from "../../src/executor/executor.ts";
import { MessageRooms, unfinishedGuest } from "../../src/lib/message-room.ts";
import { assertNothingLeft, failureOf } from "../support/executor.ts";
import { descendants, isAlive } from "../support/processes.ts";
import { until } from "../support/until.ts";

after(assertNothingLeft);

describe("frames", () => {
  const read = (chunks: readonly (string | Buffer)[], frameBytes = 1000): { frames: unknown[]; faults: string[] } => {
    const frames: unknown[] = [];
    const faults: string[] = [];
    const reader = new FrameReader(
      { ...defaultLimits, guestFrameBytes: frameBytes },
      {
        onFrame: (frame) => frames.push(frame),
        onFault: (message) => faults.push(message),
      },
    );
    for (const chunk of chunks) reader.push(Buffer.from(chunk));
    return { frames, faults };
  };

  it("come out the same wherever the pipe cuts them", () => {
    const frames = [[1, "äöü😀"], [2, { a: ["\n"] }], [3]];
    const bytes = Buffer.from(frames.map((frame) => `${JSON.stringify(frame)}\n`).join(""));
    for (let cut = 0; cut <= bytes.length; cut++) {
      for (const second of [cut, Math.min(cut + 1, bytes.length), Math.min(cut + 7, bytes.length)]) {
        const chunks = [bytes.subarray(0, cut), bytes.subarray(cut, second), bytes.subarray(second)];
        assert.deepEqual(read(chunks), { frames, faults: [] }, `cut at ${cut} and ${second}`);
      }
    }
    assert.deepEqual(read(Array.from(bytes, (byte) => Buffer.from([byte]))), { frames, faults: [] });
  });

  it("up to the limit are read, one byte more is a fault", () => {
    const line = JSON.stringify(["x".repeat(100 - 4)]);
    assert.equal(read([line, "\n"], 100).frames.length, 1);
    assert.equal(read([`${line}\n`], 100).frames.length, 1);
    for (const chunks of [[`${line}\n`], [line, "\n"], [line], [line.slice(0, 50), `${line.slice(50)}\n`]]) {
      assert.deepEqual(read(chunks, 99), { frames: [], faults: ["wrote a frame of more than 99 bytes"] });
    }
  });

  it("that are never ended have bounded room together: where it is full, the one that was begun first ends", () => {
    const unfinished = new MessageRooms(unfinishedGuest, {
      unfinishedGuestBytes: 1e9,
      unfinishedGuestBytesPerTenant: 200_000,
    });
    const faults: string[] = [];
    const [first, second, other] = ["first", "second", "other"].map((name) => {
      const onFault = (why: string): void => void faults.push(`${name} ${why}`);
      const reader = new FrameReader(defaultLimits, { onFrame: () => {}, onFault });
      reader.room = unfinished.of(name === "other" ? "two" : "one");
      return reader;
    });
    const bytes = (length: number): Buffer => Buffer.from("x".repeat(length));
    // Ended frames count no more.
    for (let frames = 0; frames < 5; frames++) {
      for (const text of ["[", `"${"x".repeat(150_000)}`, '"]\n']) first!.push(Buffer.from(text));
    }
    for (const reader of [first!, other!, second!]) reader.push(bytes(120_000));
    const why =
      "was in the midst of a frame when more than 200000 bytes of frames of its tenant's guests were not whole (BERTH_UNFINISHED_GUEST_BYTES_PER_TENANT)";
    assert.deepEqual(faults, [`first ${why}`]);
    second!.push(bytes(70_000));
    assert.equal(faults.length, 1, "what was given up counts no more");
    second!.push(bytes(20_000));
    assert.deepEqual(faults[1], `second ${why}`);
  });

  it("that are long results are handed on as bytes, and decoded by nobody here", () => {
    const long: [number, Uint8Array][] = [];
    const reader = new FrameReader(defaultLimits, {
      onFrame: () => assert.fail("it was read"),
      onFault: assert.fail,
      onLongResult: (call, frame) => long.push([call, frame]) > 0,
    });
    const lines = ["é", "€"].map((text, at) => Buffer.from(JSON.stringify([toHost.text, at, text.repeat(100_000)])));
    const written = Buffer.concat(lines.flatMap((line) => [line, Buffer.from("\n")]));
    for (let at = 0; at < written.length; at += 50_000) reader.push(written.subarray(at, at + 50_000));
    assert.deepEqual(
      long.map(([call, frame]) => [call, Buffer.from(frame)]),
      lines.map((line, at) => [at, line]),
    );
    assert.ok(long.every(([, frame]) => frame instanceof Uint8Array));
  });

  it("stop at the first fault", () => {
    for (const wrong of ["{}", "null", "1", '"a"', "", "[1", "nothing", "[1]]"]) {
      const { frames, faults } = read([`[1]\n${wrong}\n[2]\n`, "[3]\n"]);
      assert.deepEqual(frames, [[1]], wrong);
      assert.equal(faults.length, 1, wrong);
    }
  });

  it("may nest 256 levels deep and no deeper", () => {
    const nested = (levels: number): string => `${"[".repeat(levels)}"${"x".repeat(1000)}"${"]".repeat(levels)}\n`;
    assert.equal(read([nested(256)], 10_000).frames.length, 1);
    assert.match(read([nested(257)], 10_000).faults[0]!, /more than 256 levels/);
    assert.match(read([nested(9_000)], 1_000_000).faults[0]!, /more than 256 levels/);
  });

  it("that are no results have at most 10,000 values, and are refused unread", () => {
    const list = (count: number): string => JSON.stringify(Array.from({ length: count }, () => 0));
    const all = (kind: number, count: number) => read([`[${kind},1,${list(count)}]\n`], 1_000_000);
    assert.equal(all(toHost.progress, 9_999).frames.length, 1);
    for (const kind of [toHost.progress, toHost.log, toHost.request]) {
      const { frames, faults } = all(kind, 11_000);
      assert.deepEqual([frames, faults], [[], ["wrote a message of more than 10000 values that is no result"]]);
    }
    assert.equal(all(toHost.json, 11_000).frames.length, 1);
    assert.equal(all(toHost.asks, 11_000).frames.length, 1);
  });
});

describe("what a stream yields for a caller that takes none", () => {
  it("is counted as it is written, so that very many short texts are too long", () => {
    const collected = new Collected(100_000);
    const addAll = (): void => {
      for (let at = 0; at < 10_000; at++) collected.add("");
    };
    assert.throws(addAll, /its stream is too long/);
    const short = new Collected(100_000);
    for (let at = 0; at < 1_000; at++) short.add("line");
    const outcome = short.outcomeOf({ ok: true, value: { kind: "none" } });
    assert.equal(outcome.ok && outcome.value.kind === "json" && (outcome.value.value as unknown[]).length, 1_000);
  });
});

describe("a bounded queue", () => {
  it("starts so many at once and the others in their order", () => {
    const started: string[] = [];
    const queue = new BoundedQueue<string>({ running: 2, queued: 2 }, (job) => started.push(job));
    assert.deepEqual(
      ["a", "b", "c", "d", "e"].map((job) => queue.enter(job)),
      [true, true, true, true, false],
    );
    assert.deepEqual(started, ["a", "b"]);
    assert.equal(queue.remove("c"), true);
    assert.equal(queue.remove("a"), false);
    queue.leave();
    assert.deepEqual(started, ["a", "b", "d"]);
    assert.equal(queue.idle, false);
    queue.leave();
    queue.leave();
    assert.equal(queue.idle, true);
  });
});

describe("a turn queue", () => {
  it("serves the tenants that wait in turn", async () => {
    const turns = new FairSemaphore(1, 3, () => 1);
    const served: string[] = [];
    const enter = (tenant: string, name: string): void => {
      void turns.enter(tenant, () => {})?.then(() => served.push(name));
    };
    for (const name of ["a1", "a2", "a3", "a4"]) enter("a", name);
    enter("b", "b1");
    assert.equal(
      turns.enter("a", () => {}),
      undefined,
      "no more of this tenant may wait",
    );
    for (const tenant of ["a", "a", "b", "a"]) {
      await new Promise((resolve) => setImmediate(resolve));
      turns.leave(tenant);
    }
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(served, ["a1", "a2", "b1", "a3", "a4"]);
  });

  it("C8 scriptProcesses: leaves room for others that one tenant may not take", async () => {
    const turns = new FairSemaphore(3, 3, () => 2);
    const served: string[] = [];
    const enter = (tenant: string, name: string): void => {
      void turns.enter(tenant, () => {})?.then(() => served.push(name));
    };
    for (const name of ["a1", "a2", "a3"]) enter("a", name);
    for (const name of ["b1", "b2"]) enter("b", name);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(served, ["a1", "a2", "b1"]);
    turns.leave("b");
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(served, ["a1", "a2", "b1", "b2"], "the one that waits longer is at its limit");
    turns.leave("a");
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(served, ["a1", "a2", "b1", "b2", "a3"]);
  });
});

describe("backoff", () => {
  const error = failure("crash", "it ended");

  it("doubles the pause after each failure to load, up to a bound", () => {
    const backoff = new Backoff();
    const pauses: number[] = [];
    for (let now = 1000, n = 0; n < 12; n++) {
      backoff.onEnded("key", now, error, false);
      let pause = 0;
      while (backoff.refusal("key", now + pause)) pause += 50;
      pauses.push(pause);
      now += pause;
    }
    assert.deepEqual(pauses.slice(0, 4), [100, 200, 400, 800]);
    assert.equal(pauses.at(-1), 30_000);
    assert.equal(backoff.refusal("another", 0), undefined);
  });

  it("lets a process that ended at work be replaced at once, but not again and again", () => {
    const backoff = new Backoff();
    for (let n = 0; n < 8; n++) {
      assert.equal(backoff.refusal("key", 1000), undefined, `start ${n}`);
      backoff.onEnded("key", 1000, error, true);
    }
    backoff.onEnded("key", 1000, error, true);
    assert.deepEqual(backoff.refusal("key", 1000), {
      reason: "crash",
      message: "it ended; it is not started again for 500 ms",
      retriable: true,
    });
    assert.equal(backoff.refusal("key", 1500), undefined);
  });
});

describe("the share of the host's time", () => {
  it("is given at once, then by and by", () => {
    const time = new ReadingTime();
    const now = performance.now();
    assert.equal(time.spend(200, now), 0);
    const restMs = time.spend(150, now);
    assert.ok(restMs > 390 && restMs <= 400, `${restMs}`);
    assert.equal(time.spend(20, now + 500), 0);
    assert.ok(time.spend(20, now + 500) > 0);
  });
});

describe("opening an executor", () => {
  const open = async (
    mode: "auto" | "sandboxed",
    path: string,
    more: { sandboxTrialMs?: number; log?: ExecutorLog } = {},
  ): ReturnType<typeof openExecutor> => {
    const { sandboxTrialMs = defaultLimits.sandboxTrialMs, log } = more;
    const before = process.env["PATH"];
    process.env["PATH"] = path;
    try {
      const limits = { ...defaultLimits, guestSpareProcesses: 0, sandboxTrialMs };
      return await openExecutor({ mode, limits, ...(log && { log }) });
    } finally {
      process.env["PATH"] = before;
    }
  };

  /** A folder of programs with these names, each a script with this text. */
  const withPrograms = async (
    programs: Record<string, string>,
    use: (folder: string) => Promise<void>,
  ): Promise<void> => {
    const folder = mkdtempSync(join(tmpdir(), "berth-path-"));
    try {
      for (const [name, script] of Object.entries(programs)) {
        writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`);
        chmodSync(join(folder, name), 0o755);
      }
      await use(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };

  const reason = process.platform === "linux" ? /bwrap is not installed.*setup\.mjs/ : /needs Linux/;

  it("in the mode `auto` falls back to `trusted` and says why", () =>
    withPrograms({}, async (folder) => {
      const executor = await open("auto", folder);
      assert.equal(executor.isolation, "trusted");
      assert.match(executor.reason!, reason);
      await executor.close();
    }));

  it("in the mode `sandboxed` refuses and says why", () =>
    withPrograms({}, async (folder) => {
      await assert.rejects(open("sandboxed", folder), { code: "sandbox_unavailable", message: reason });
    }));

  it("finds out that the programs are there but do not work", () =>
    withPrograms(
      { bwrap: "exit 1", prlimit: 'echo "bwrap: No permissions to create new namespace" >&2; exit 1' },
      async (folder) => {
        const expected = process.platform === "linux" ? /does not start here \(bwrap: No permissions/ : reason;
        await assert.rejects(open("sandboxed", folder), { code: "sandbox_unavailable", message: expected });
      },
    ));

  describe("where the sandbox fails for a moment", { skip: process.platform !== "linux" && "needs Linux" }, () => {
    const bwrap = execFileSync("/bin/sh", ["-c", "command -v bwrap"], { encoding: "utf8" }).trim();
    /** A `bwrap` that does `how` for its first `times` starts, and its work from then on. */
    const failing = (times: number, how: string): string =>
      `n=$(cat "$0.n" 2>/dev/null || echo 0); echo $((n + 1)) > "$0.n"; chmod 666 "$0.n" 2>/dev/null
       if [ "$n" -lt ${times} ]; then ${how}; fi
       exec ${bwrap} "$@"`;
    const openWith = (
      text: string,
      mode: "auto" | "sandboxed",
      use: (opening: ReturnType<typeof openExecutor>, warned: object[]) => Promise<void>,
      sandboxTrialMs?: number,
    ): Promise<void> =>
      withPrograms({ bwrap: text }, async (folder) => {
        // The user that guests have outside counts there, too.
        chmodSync(folder, 0o777);
        const warned: object[] = [];
        const log = { debug() {}, info() {}, warn: (data: object) => void warned.push(data) };
        const path = `${folder}:${process.env["PATH"]}`;
        await use(open(mode, path, { log, ...(sandboxTrialMs !== undefined && { sandboxTrialMs }) }), warned);
      });

    const passing = {
      "processes are short":
        'echo "bwrap: Creating new namespace failed: Resource temporarily unavailable" >&2; exit 1',
      "memory is short": 'echo "bwrap: fork: Cannot allocate memory" >&2; exit 1',
      "there are too many namespaces":
        'echo "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)" >&2; exit 1',
      "the kernel ended it": "kill -KILL $$",
    };
    for (const [what, how] of Object.entries(passing)) {
      it(`it is tried again when ${what}, and no guest is trusted meanwhile`, () =>
        openWith(failing(3, how), "auto", async (opening, warned) => {
          const executor = await opening;
          assert.equal(executor.isolation, "sandboxed");
          assert.equal(executor.reason, undefined);
          assert.equal(warned.length, 3);
          await executor.close();
        }));
    }

    it("it is tried again when a guest was not ready in time", () =>
      openWith(failing(1, "exec sleep 1000"), "auto", async (opening, [...warned]) => {
        const executor = await opening;
        assert.equal(executor.isolation, "sandboxed");
        assert.deepEqual(warned, []);
        await executor.close();
      }));

    it("sandboxTrialMs: nothing is served where that does not pass, in no mode, and it is said what to do", async () => {
      for (const mode of ["auto", "sandboxed"] as const) {
        await openWith(
          failing(1_000, passing["processes are short"]),
          mode,
          async (opening) => {
            const message = /for now \(bwrap: Creating .*unavailable\), and has not for 300 ms: .*BERTH_GUESTS=trusted/;
            await assert.rejects(opening, { code: "sandbox_unavailable", message });
          },
          300,
        );
      }
    });

    it("what is forbidden is not tried again", () =>
      openWith(
        failing(1_000, 'echo "bwrap: setting up uid map: Permission denied" >&2; exit 1'),
        "auto",
        async (opening, warned) => {
          const executor = await opening;
          assert.equal(executor.isolation, "trusted");
          assert.match(executor.reason!, /does not start here \(bwrap: setting up uid map: Permission denied\)/);
          assert.deepEqual(warned, []);
          await executor.close();
        },
      ));
  });

  it("and losing the service by SIGKILL leaves no process behind", async () => {
    const service = startService(`
      void call("never");
      await call("one");
      console.log("ready");
    `);
    await new Promise((resolve, reject) => {
      service.stdout.once("data", resolve);
      service.once("exit", (code) => reject(new Error(`the service ended with ${code} before it was ready`)));
    });
    const guests = descendants(service.pid);
    assert.ok(guests.length > 0 || process.platform !== "linux");
    service.kill("SIGKILL");
    await until(() => guests.every((pid) => !isAlive(pid)), "its guests are gone");
  });

  it("and having no file descriptor left fails calls, not the service", async () => {
    const service = startService(
      `
      const taken = [];
      try { for (;;) taken.push(openSync("/dev/null")); } catch {}
      const outcomes = [await call("one"), await executor.runScript({ tenant: "default", script: "echo 1", argv: [], env: {}, deadlineMs: 60_000 })];
      for (const descriptor of taken) closeSync(descriptor);
      await new Promise((resolve) => setTimeout(resolve, 500));
      outcomes.push(await call("one"));
      await executor.close();
      console.log(JSON.stringify(outcomes));
    `,
      "ulimit -n 40; ",
    );
    const chunks: Buffer[] = [];
    service.stdout.on("data", (chunk: Buffer) => chunks.push(chunk));
    await new Promise((resolve) => service.once("close", resolve));
    const [call, script, later] = JSON.parse(Buffer.concat(chunks).toString()) as GuestOutcome[];
    for (const outcome of [call!, script!]) {
      const { reason, message, retriable } = failureOf(outcome);
      assert.deepEqual([reason, retriable], ["descriptors", true]);
      assert.match(message, /could not be started \(E(MFILE|NFILE|AGAIN|BADF)\)/);
    }
    assert.deepEqual(later, { ok: true, value: { kind: "json", value: 1 } });
  });
});

/**
 * A process with an executor of its own; `body` may use `executor` and `call(name)` of a program with `one` and
 * `never`.
 */
function startService(body: string, setup = ""): ChildProcessByStdio<null, Readable, null> {
  const program = `
    import { closeSync, openSync } from "node:fs";
    import { openExecutor } from ${JSON.stringify(new URL("../../src/executor/open.js", import.meta.url).href)};
    const executor = await openExecutor({ mode: "auto", limits: ${JSON.stringify({ ...defaultLimits, guestSpareProcesses: 0 })} });
    const code = () => Promise.resolve("export const never = () => new Promise((r) => setTimeout(r, 1e6)); export const one = () => 1");
    const program = { tenant: "default", bundle: "b", code };
    const call = (name) =>
      executor.call(program, { shape: { export: name, style: "positional", params: [] }, args: {}, deadlineMs: 60_000 });
    ${body}`;
  const script = `${setup}exec "$0" --input-type=module -e "$1"`;
  return spawn("sh", ["-c", script, process.execPath, program], { stdio: ["ignore", "pipe", "inherit"] });
}
