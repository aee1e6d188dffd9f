import { strict as assert } from "node:assert";
import { after, describe, it, type TestContext } from "node:test";
import type { GuestLog, GuestProgram, HostPort } from "../../src/executor/executor.ts";
import { traceBounds } from "../../src/executor/guest-process.ts";
import { GRACE_MS } from "../../src/executor/pending-call.ts";
import { clock } from "../../src/lib/clock.ts";
import type { Json } from "../../src/lib/json.ts";
import { readingBounds } from "../../src/lib/reading-bounds.ts";
import type { Limits } from "../../src/limits/limits.ts";
import { holdTimeouts, stopClock } from "./clock.ts";
import {
  type Mode,
  type Rig,
  assertNothingLeft,
  failureOf,
  latch,
  openRig,
  programOf,
  programWith,
  scriptRun,
  shape,
  useRig,
} from "./executor.ts";
import { lower } from "./lowered-limits.ts";
import { loopBegan } from "./processes.ts";
import { until } from "./until.ts";

/** The common behaviour of every engine: values, streams, cancellation, errors, and each limit of functions. */
export function executorContract(mode: Mode): void {
  describe(`a ${mode} executor carries values`, () => {
    const rig = useRig(mode);

    it("passes arguments as the function takes them: in order, as one object, or as a rest parameter", async () => {
      const echo = shape("echo", ["message", "times"]);
      const text = { kind: "text", text: "hähä" };
      assert.deepEqual(await rig.call(echo, { times: 2, message: "hä" }), { ok: true, value: text });
      assert.equal(await rig.value(echo, { message: "once" }), "once", "what is not given is left out");
      const args = { first: "a", second: 2 };
      assert.deepEqual(await rig.value(shape("named", ["first", "second"], { style: "object" }), args), args);
      const join = shape("join", ["separator", "parts"], { rest: true });
      assert.equal(await rig.value(join, { separator: "-", parts: ["a", "b", "c"] }), "a-b-c");
      assert.equal(await rig.value(join, { separator: "-" }), "");
      const inherited = shape("inherited", ["constructor", "toString"]);
      assert.equal(await rig.value(inherited), "undefined default", "what every object inherits is no argument");
    });

    it("brings every JSON value there and back unchanged", async () => {
      const values: Json[] = [
        null,
        true,
        0,
        -1.5,
        1e300,
        [],
        {},
        [[[]]],
        { a: { b: [null] } },
        { __proto__x: 1 },
        "😀\u2028\0",
      ];
      values.push(
        { "": "", "\n": "\ud800", long: "x".repeat(300_000) },
        Array.from({ length: 1000 }, (_, n) => n),
      );
      for (const value of values) assert.deepEqual(await rig.value(shape("same", ["value"]), { value }), value);
    });

    it("returns nothing for undefined, and fails for a function", async () => {
      assert.deepEqual(await rig.call(shape("nothing")), { ok: true, value: { kind: "none" } });
      const returned = failureOf(await rig.call(shape("unwritable", ["kind"]), { kind: "function" }));
      assert.deepEqual([returned.reason, returned.retriable], ["unwritable", false]);
      assert.match(returned.message, /^its result is a function, which JSON cannot represent/);
    });

    it("returns bytes as base64, nested ones too, with their media type", async () => {
      const bytes = shape("bytes", ["kind"]);
      for (const kind of ["array", "buffer", "array-buffer"]) {
        assert.deepEqual(await rig.call(bytes, { kind }), { ok: true, value: { kind: "bytes", base64: "AAH+/w==" } });
      }
      const blob = { kind: "bytes", base64: "AAH+/w==", mimeType: "image/png" };
      assert.deepEqual(await rig.call(bytes, { kind: "blob" }), { ok: true, value: blob });
      assert.equal(await rig.value(bytes, { kind: "text-blob" }), "hällo");
      const nested = await rig.value(bytes, { kind: "nested" });
      const own = '{"type":"Buffer","data":[97]}';
      assert.deepEqual(nested, { list: ["AAH+/w==", "AAH+/w=="], deep: { buffer: "AAH+/w==" }, own });
    });

    it("returns the target of a redirect, and fails for a failed response", async () => {
      const web = shape("web", ["status", "location"]);
      const redirect = { ok: true, value: { kind: "redirect", location: "/a?b" } };
      for (const status of [301, 302, 303, 307, 308]) {
        assert.deepEqual(await rig.call(web, { status, location: "/a?b" }), redirect);
      }
      const text = { kind: "text", text: "said", mimeType: "text/plain;charset=UTF-8" };
      assert.deepEqual(await rig.call(web, { status: 200, location: "/a" }), { ok: true, value: text });
      assert.deepEqual(await rig.call(web, { status: 204 }), { ok: true, value: { kind: "none" } });
      assert.equal(failureOf(await rig.call(web, { status: 500 })).message, "HTTP 500: said");
      assert.equal(failureOf(await rig.call(web, { status: 0 })).reason, "thrown");
      const long = failureOf(await rig.call(web, { status: 302, location: "a".repeat(8_193) }));
      assert.match(long.message, /longer than 8192/);
    });

    it("converts arguments to dates and URLs, nested ones too", async () => {
      const [a, b] = ["2026-01-01T00:00:00.000Z", "1999-12-31T23:59:59.999Z"] as const;
      const isDate = shape("isDate", ["when", "others", "record"], {
        dates: [["when"], ["others", "*"], ["record", "*", "at"]],
      });
      assert.deepEqual(await rig.value(isDate, { when: a, others: [b], record: { x: { at: a } } }), [a, b, a]);
      const some = shape("isDate", ["when", "others", "record"], {
        dates: [
          ["others", { from: 1 }],
          ["record", { match: "^at_", unless: "^at_x$|^\\*$" }, "at"],
        ],
      });
      const texts = { when: a, others: [a, b], record: { x: { at: a }, at_x: { at: a }, at_y: { at: b } } };
      assert.deepEqual(await rig.value(some, texts), [false, false, b, false, false, b]);
      const told = shape("isDate", ["when", "others", "record"], {
        dates: [
          ["when", { not: ["now"] }],
          ["record", "*", { property: "kind", is: ["d"] }, "at"],
        ],
      });
      const kinds = { x: { at: a, kind: "d" }, y: { at: a, kind: "t" } };
      assert.deepEqual(await rig.value(told, { when: "now", others: [], record: kinds }), [false, a, false]);
      assert.deepEqual(await rig.value(told, { when: b, others: [], record: {} }), [b]);
      const noDate = failureOf(await rig.call(isDate, { when: "soon", others: [], record: {} }));
      assert.match(noDate.message, /"soon" at when is not a date/);

      const urls = [["when"], ["record", "*", "at"]];
      const isUrl = shape("isUrl", ["when", "others", "record"], { urls, dates: [["others", "*"]] });
      const url = "https://example.com/a?b=c#d";
      const args = { when: url, others: [a], record: { x: { at: url }, y: { at: null } } };
      assert.deepEqual(await rig.value(isUrl, args), ["example.com", a, "example.com", null]);
      const noUrl = failureOf(await rig.call(isUrl, { when: "a b", others: [], record: {} }));
      assert.match(noUrl.message, /"a b" at when is not a URL/);
    });

    it("returns a list of what can be iterated, and no inherited value for an absent argument", async () => {
      for (const kind of ["set", "iterator", "array-like"])
        assert.deepEqual(await rig.value(shape("listed", ["kind"], { list: true }), { kind }), ["a"], kind);
      assert.equal(await rig.value(shape("careful", ["constructor"], { style: "object" }), {}), "all");
    });

    it("reports what JSON cannot represent", async () => {
      const unwritable = shape("unwritable", ["kind"]);
      assert.match(failureOf(await rig.call(unwritable, { kind: "bigint" })).message, /BigInt.*return it as a string/);
      assert.match(failureOf(await rig.call(unwritable, { kind: "cycle" })).message, /refers to itself/);
      const getter = failureOf(await rig.call(unwritable, { kind: "throwing getter" }));
      assert.equal(getter.message, "TypeError: failed at step 1");
    });

    it("provides Node.js's built-in modules and the time zone UTC", async () => {
      assert.equal(await rig.value(shape("builtins")), "zipped");
      assert.match((await rig.value(shape("zone"))) as string, /GMT\+0000/);
    });
  });

  describe(`a ${mode} executor streams`, () => {
    const rig = useRig(mode);
    const streaming = { streaming: true };
    const withContext = { context: true };

    it("delivers each yield, and returns the result of the generator", async () => {
      const seen: Json[] = [];
      const result = await rig.value(
        shape("count", ["to"], streaming),
        { to: 1000 },
        { onProgress: (n) => void seen.push(n) },
      );
      assert.equal(result, "counted to 1000");
      assert.deepEqual(
        seen,
        Array.from({ length: 1000 }, (_, n) => n + 1),
      );
    });

    it("applies backpressure to a generator", async () => {
      const reader = latch<void>();
      let seen = 0;
      const onProgress = (): Promise<void> => {
        seen++;
        return reader.promise;
      };
      const result = rig.value(shape("count", ["to"], streaming), { to: 100_000 }, { onProgress });
      await until(() => seen >= 64, "the window is full");
      for (let calls = 0; calls < 5; calls++) await rig.value(shape("nothing"));
      assert.ok(seen <= 128, `${seen} events came although none was consumed`);
      reader.open();
      assert.equal(await result, "counted to 100000");
      assert.equal(seen, 100_000);
    });

    it("ends the generator when the caller cancels, and keeps its process", async (t) => {
      t.after(stopClock());
      const program = programOf("friendly");
      const cleanedUp = (): Promise<Json> => rig.value(shape("cleanedUp"), {}, { program });
      const before = (await cleanedUp()) as number;
      const controller = new AbortController();
      const onProgress = (): void => controller.abort();
      const options = { program, onProgress, signal: controller.signal };
      assert.equal(failureOf(await rig.call(shape("endless", [], streaming), {}, options)).reason, "cancelled");
      // The caller does not wait for it.
      await until(async () => (await cleanedUp()) === before + 1, "the generator has ended");
    });

    it("delivers progress and logs of a call, with what is printed", async () => {
      const events: Json[] = [];
      const lines: GuestLog[] = [];
      const options = {
        onProgress: (event: Json) => void events.push(event),
        onLog: (line: GuestLog) => void lines.push(line),
      };
      assert.equal(await rig.value(shape("reports", [], withContext), {}, options), "reported");
      assert.deepEqual(events, [{ done: 1 }, "half"]);
      assert.deepEqual(lines, [
        { level: "notice", message: "noted" },
        { level: "info", message: "printed 7" },
        { level: "warning", message: "warned" },
        { level: "error", message: "shown" },
        { level: "debug", message: "{ nested: [ 1 ] }" },
      ]);
    });

    it("separates the logs of concurrent calls", async () => {
      const program = programOf("friendly");
      const lines: string[][] = [[], []];
      // A program's first output may come too early to be attributed; from then on its calls are followed.
      await rig.value(shape("reports", [], withContext), {}, { program });
      const both = lines.map((own) => {
        const onLog = (line: GuestLog): void => void own.push(line.level);
        return rig.value(shape("reports", [], withContext), {}, { program, onLog });
      });
      await Promise.all(both);
      for (const own of lines) assert.deepEqual(own, ["notice", "info", "warning", "error", "debug"]);
    });

    it("delivers progress of a busy function, and kills it when its call is cancelled", async () => {
      const controller = new AbortController();
      const options = {
        program: programOf("friendly"),
        onProgress: () => controller.abort(),
        signal: controller.signal,
      };
      const call = rig.call(shape("busy", ["ms"], withContext), { ms: 600_000 }, options);
      assert.equal(failureOf(await call).reason, "cancelled");
      await until(() => rig.executor.stats().callsInFlight === 0, "its place is free again");
    });

    it("answers requests to the host", async () => {
      const program = programOf("friendly");
      const context = { server: "s", answers: { a: 1 } };
      assert.deepEqual(await rig.value(shape("asks", [], withContext), {}, { program, context }), {
        data: ["s", { a: 1 }],
        variable: "variable greeting",
        missing: true,
        secret: "secret key",
        cid: "content",
        refused: "you may not read this",
      });
    });

    it("refuses requests to the host without a port", async () => {
      const { code } = programOf("friendly");
      const program = programWith(String(await code()));
      const failure = failureOf(await rig.call(shape("gate", [], withContext), {}, { program }));
      assert.match(failure.message, /may not ask the host \(variable\)/);
    });
  });

  describe(`a ${mode} executor reports errors`, () => {
    const rig = useRig(mode);
    const throws = shape("throws", ["kind"]);

    it("reports name and message to the caller, and a source-mapped stack to the operator", async () => {
      const failure = failureOf(await rig.call(throws, { kind: "type error" }));
      assert.equal(failure.reason, "thrown");
      assert.equal(failure.message, "TypeError: failed at step 2");
      assert.equal(failure.retriable, false);
      const lines = failure.stack!.split("\n");
      assert.equal(lines[0], "TypeError: failed at step 2");
      assert.match(lines[1]!, /failAt \(inner\.ts:4:9\)/);
      assert.match(lines[2]!, /throws \(friendly\.ts:\d+:\d+\)/);
      assert.match(lines[3]!, /^> 4 \| .*throw/);
      assert.match(lines[4]!, /^ +\| +\^$/);
      assert.equal(lines.length, 5, `host frames are left: ${failure.stack}`);
      assert.match(failureOf(await rig.call(shape("rejects"))).stack!, /inner\.ts:4:9\)\n.*friendly\.ts:\d+/);
    });

    it("reports whatever was thrown, and whether it is transient", async () => {
      const message = async (kind: string): Promise<string> => failureOf(await rig.call(throws, { kind })).message;
      assert.equal(await message("plain"), "plain");
      assert.equal(await message("text"), "only text");
      assert.equal(await message("object"), "like an error");
      assert.equal(await message("nothing"), "undefined");
      assert.equal(await message("proxy"), "the function threw something that cannot be shown");
      assert.equal((await message("long")).length, 8192);
      assert.equal(failureOf(await rig.call(throws, { kind: "transient" })).retriable, true);
    });

    it("names a function that the bundle does not export", async () => {
      const failure = failureOf(await rig.call(shape("toString")));
      assert.equal(failure.reason, "load");
      assert.match(failure.message, /exports no function "toString"/);
    });

    it("survives errors that no call caught, and logs them", async () => {
      const lines: Json[] = [];
      const onLog = (line: GuestLog): void => void lines.push(line.message);
      assert.equal(await rig.value(shape("forgets"), {}, { onLog }), "fine");
      const later = failureOf(await rig.call(shape("throwsLater"), {}, { onLog }));
      assert.equal(later.message, "TypeError: failed at step 6");
      assert.equal(await rig.value(shape("echo", ["message"]), { message: "alive" }), "alive");
    });

    const endingAtLoad: Record<string, [reason: string, message: RegExp]> = {
      "const a = 1;\nthrow new RangeError('not today');\nexport function f() {}": ["load", /RangeError: not today/],
      "process.exit(4);": ["crash", /exit code 4/],
      "export const = ;": ["load", /SyntaxError/],
      'import "lodash"; export function f() {}': ["load", /Cannot find package 'lodash' imported from the bundle$/],
    };
    for (const [code, [reason, message]] of Object.entries(endingAtLoad)) {
      it(`says how a bundle ends when it loads, and does not start it in a hot loop: ${code.split("\n").at(-1)}`, async () => {
        const program = programWith(code);
        const failure = failureOf(await rig.call(shape("f"), {}, { program }));
        assert.equal(failure.reason, reason);
        assert.match(failure.message, message);
        if (code.includes("not today")) assert.match(failure.stack!, /bundle:2:7/);
        const { started } = rig.executor.stats();
        for (let n = 0; n < 10; n++)
          assert.equal(failureOf(await rig.call(shape("f"), {}, { program })).reason, reason);
        const more = rig.executor.stats().started - started;
        assert.ok(more <= 3, `${more} processes were started for 10 calls of a program that does not load`);
      });
    }

    it("says that a bundle could not be read", async () => {
      const program = { ...programWith(""), code: () => Promise.reject(new Error("/host/path")) };
      const failure = failureOf(await rig.call(shape("f"), {}, { program }));
      assert.equal(failure.reason, "load");
      assert.doesNotMatch(failure.message, /host/);
    });

    it("resolves when the arguments nest deeper than JSON can be written", async () => {
      let value: Json = 1;
      for (let n = 0; n < 100_000; n++) value = [value];
      const failure = failureOf(await rig.call(shape("same", ["value"]), { value }));
      assert.match(failure.message, /arguments cannot be written/);
    });
  });

  describe(`a ${mode} executor keeps deadlines`, () => {
    const rig = useRig(mode);
    const wait = shape("wait", ["ms"], { context: true });
    const deaf = shape("deaf", ["ms"]);

    for (const [reason, error] of [
      ["timeout", "TimeoutError"],
      ["cancelled", "AbortError"],
    ] as const) {
      it(`tells a function by its signal that it is ${reason}, and keeps its process`, async (t) => {
        t.after(stopClock());
        const program = programOf("friendly");
        const before = await rig.value(shape("pid"), {}, { program });
        const controller = new AbortController();
        const lines: Json[] = [];
        const onLog = (line: GuestLog): void => void lines.push(line.message);
        const how = reason === "timeout" ? { deadlineMs: 100 } : { signal: controller.signal };
        const call = rig.call(wait, { ms: 60_000 }, { program, onLog, ...how });
        assert.equal(await rig.value(shape("pid"), {}, { program }), before);
        if (reason === "timeout") clock.leap(100);
        else controller.abort();
        const failure = failureOf(await call);
        assert.equal(failure.reason, reason);
        if (reason === "timeout") assert.match(failure.message, /deadline of 100 ms/);
        assert.deepEqual(lines, [`stopped by ${error}`]);
        assert.equal(await rig.value(shape("pid"), {}, { program }), before);
      });
    }

    it("ends the process of a function that does not stop, and lets its siblings be repeated", async () => {
      const program = programOf("friendly");
      // A process that ended before it was loaded is not started again at once.
      await rig.value(shape("pid"), {}, { program });
      const started = rig.executor.stats().killed;
      const sibling = rig.call(wait, { ms: 600_000 }, { program });
      assert.equal(failureOf(await rig.call(deaf, { ms: 600_000 }, { program, deadlineMs: 100 })).reason, "timeout");
      const hurt = failureOf(await sibling);
      assert.deepEqual([hurt.reason, hurt.retriable], ["evicted", true]);
      assert.match(hurt.message, /another call of the same program overran its deadline/);
      assert.equal(rig.executor.stats().killed, started + 1);
      assert.equal(await rig.value(shape("echo", ["message"]), { message: "again" }, { program }), "again");
    });

    it("tells the operator where an endless loop was stopped", async (t) => {
      t.after(holdTimeouts(traceBounds.traceMs, readingBounds.checkMs));
      const program = programOf("friendly");
      await rig.value(shape("pid"), {}, { program });
      const call = rig.call(shape("spins"), {}, { program, deadlineMs: 60_000 });
      await loopBegan();
      clock.leap(60_000);
      const failure = failureOf(await call);
      assert.equal(failure.reason, "timeout");
      assert.match(failure.stack ?? "", /^ {4}at friendly\.ts:(\d+):\d+\n> \1 \| {3}for \(;;\);\n +\| +\^$/);
    });

    it("takes nothing from a stack that a stopped guest makes up", async () => {
      const fake = "KEYBOARD_INTERRUPT: \\n    at SECRET (file:///berth-bundle.mjs:99999:1)";
      const code = `export function f() {
        process.on("SIGINT", () => {});
        for (;;) process._rawDebug("${fake}".replace("SECRET", process.env.SECRET));
      }`;
      const program = { ...programWith(code), env: async () => ({ SECRET: "hunter2" }) };
      await rig.call(shape("nothing"), {}, { program });
      const failure = failureOf(await rig.call(shape("f"), {}, { program, deadlineMs: 100 }));
      assert.deepEqual(failure, {
        reason: "timeout",
        message: "it took longer than its deadline of 100 ms",
        retriable: false,
      });
    });

    it("does not wait for a cancelled function that continues, and keeps its siblings", async (t) => {
      t.after(stopClock());
      const program = programOf("friendly");
      const controller = new AbortController();
      const call = rig.call(deaf, { ms: 300 }, { program, signal: controller.signal });
      const sibling = rig.value(deaf, { ms: 150 }, { program });
      const before = await rig.value(shape("pid"), {}, { program });
      controller.abort();
      clock.leap(GRACE_MS);
      assert.equal(failureOf(await call).reason, "cancelled");
      assert.equal(await sibling, "done anyway");
      assert.equal(await rig.value(shape("pid"), {}, { program }), before);
      await until(() => rig.executor.stats().callsInFlight === 0, "the cancelled function has ended");
    });

    it("keeps a process that reacts late to a cancellation", async (t) => {
      t.after(stopClock());
      const program = programOf("friendly");
      const before = await rig.value(shape("pid"), {}, { program });
      const controller = new AbortController();
      const onProgress = (): void => {
        if (controller.signal.aborted) return;
        controller.abort();
        clock.leap(GRACE_MS);
      };
      const options = { program, onProgress, signal: controller.signal };
      const call = rig.call(shape("busy", ["ms"], { context: true }), { ms: 300 }, options);
      assert.equal(failureOf(await call).reason, "cancelled");
      assert.equal(await rig.value(shape("pid"), {}, { program }), before);
    });

    it("starts nothing for a signal that was aborted before", async () => {
      const { started } = rig.executor.stats();
      const options = { program: programOf("friendly"), signal: AbortSignal.abort() };
      assert.equal(failureOf(await rig.call(wait, { ms: 1 }, options)).reason, "cancelled");
      assert.equal(rig.executor.stats().started, started);
    });

    it("stops a call whose listener throws, and lives on", async () => {
      const onProgress = (): never => {
        throw new Error("the reader is broken");
      };
      const failure = failureOf(await rig.call(shape("endless", [], { streaming: true }), {}, { onProgress }));
      assert.equal(failure.reason, "cancelled");
    });

    it("counts the time that a bundle takes to load", async () => {
      const program = programWith("await new Promise(() => {}); export function f() {}");
      assert.equal(failureOf(await rig.call(shape("f"), {}, { program, deadlineMs: 150 })).reason, "timeout");
    });
  });

  describe(`a ${mode} executor keeps every limit`, () => {
    after(assertNothingLeft);
    const same = shape("same", ["value"]);
    const gate = shape("gate", [], { context: true });

    const rigFor = async (t: TestContext, limits: Partial<Limits>): Promise<Rig> => {
      const rig = await openRig(mode, limits);
      t.after(() => rig.close());
      return rig;
    };

    /** A program whose function `gate` returns when the gate is opened, and the number of its calls so far. */
    const gated = (): {
      program: GuestProgram;
      open: () => void;
      arrived: () => number;
    } => {
      const { promise, open } = latch<Json>();
      let arrived = 0;
      const program = programOf("friendly", "default", {
        request() {
          arrived++;
          return promise;
        },
      });
      return { program, open: () => open("opened"), arrived: () => arrived };
    };
    const attack = shape("attack", ["group", "name", "data"], { style: "object", context: true });

    it("outputBytes: a larger result is a failure, and the process lives on", async (t) => {
      const rig = await rigFor(t, { outputBytes: 10_000 });
      const echo = shape("echo", ["message", "times"]);
      assert.equal(((await rig.value(echo, { message: "x", times: 10_000 })) as string).length, 10_000);
      for (const [call, args] of [
        [echo, { message: "x", times: 10_001 }],
        [echo, { message: "ä", times: 5_001 }],
        [same, { value: Array.from({ length: 5_001 }, () => 1) }],
      ] as const) {
        const failure = failureOf(await rig.call(call, args));
        assert.equal(failure.reason, "output");
        assert.match(failure.message, /larger than 10000 bytes \(BERTH_OUTPUT_BYTES\)/);
      }
      assert.equal(rig.executor.stats().killed, 0);
    });

    it("guestFrameBytes: a result that fits no frame is a failure, and the process lives on", async (t) => {
      const rig = await rigFor(t, { guestFrameBytes: 10_000 });
      const failure = failureOf(await rig.call(shape("echo", ["message", "times"]), { message: "x", times: 10_001 }));
      assert.equal(failure.reason, "output");
      assert.equal(rig.executor.stats().killed, 0);
    });

    it("unfinishedGuestBytesPerTenant: ends guests whose incomplete frames exceed it", async (t) => {
      const rig = await rigFor(t, { unfinishedGuestBytesPerTenant: 200_000 });
      const args = { group: "pipe", name: "hugeFrame" };
      const failure = failureOf(await rig.call(attack, args, { program: programOf("hostile") }));
      assert.equal(failure.reason, "protocol", failure.message);
      assert.match(
        failure.message,
        /its process was in the middle of a frame .* 200000 bytes of frames of its tenant's guests/,
      );
    });

    describe("by default", () => {
      const rig = useRig(mode);

      it("guestBacklogBytes and guestStalledMs: ends a guest that reads no answers", async (t) => {
        t.after(lower({ guestBacklogBytes: 1_000_000, guestStalledMs: 300 }));
        let answers = 0;
        const port: HostPort = { request: () => Promise.resolve(`${++answers}`.padEnd(100_000)) };
        const program = programOf("hostile", "default", port);
        const failure = failureOf(await rig.call(attack, { group: "floods", name: "unread" }, { program }));
        assert.equal(failure.reason, "protocol", failure.message);
        assert.match(failure.message, /1000000 bytes .* 300 ms/);
        // The answers that fit, those in the pipe, and as many as may be requested at once.
        assert.ok(answers < 100, `${answers} answers of 100,000 bytes were made`);
      });

      it("guestBacklogBytes: delivers any number of answers to a guest that reads them", async (t) => {
        t.after(lower({ guestBacklogBytes: 100_000 }));
        const port: HostPort = { request: () => Promise.resolve("x".repeat(90_000)) };
        const program = programOf("friendly", "default", port);
        const ask = shape("asksOften", ["times"], { context: true });
        assert.equal(await rig.value(ask, { times: 60 }, { program }), 60 * 90_000);
      });

      it("guestEventsPerCall: one event more ends the process", async (t) => {
        t.after(lower({ guestEventsPerCall: 100 }));
        const count = shape("count", ["to"], { streaming: true });
        assert.equal(await rig.value(count, { to: 100 }), "counted to 100");
        const failure = failureOf(await rig.call(count, { to: 101 }));
        assert.equal(failure.reason, "protocol");
        assert.match(failure.message, /more than 100 events/);
      });

      it("ends a guest that answers a call without reading it", async () => {
        const program = programOf("hostile");
        const { killed } = rig.executor.stats();
        const deaf = { group: "floods", name: "deaf" };
        assert.equal(await rig.value(attack, deaf, { program }), "deaf");
        const failure = failureOf(await rig.call(attack, { ...deaf, data: "x".repeat(4_000_000) }, { program }));
        assert.equal(failure.reason, "protocol", failure.message);
        assert.match(failure.message, /answered a call before reading it/);
        assert.equal(rig.executor.stats().killed, killed + 1);
      });

      it("answers long and short calls of one turn in order", async () => {
        const echo = shape("echo", ["message", "times"]);
        const lengths = [1, 70_000, 65_530, 3, 65_536, 1_000_000, 2, 40_000, 40_000, 5];
        const texts = lengths.map((length) => "ä€x".repeat(length).slice(0, length));
        const calls = texts.map((message) => rig.value(echo, { message, times: 1 }));
        assert.deepEqual(await Promise.all(calls), texts);
      });

      it("answers each of many concurrent calls", async () => {
        const numbers = Array.from({ length: 500 }, (_, n) => n);
        assert.deepEqual(await Promise.all(numbers.map((value) => rig.value(same, { value }))), numbers);
      });
    });

    it("callsPerTenant and queuedCallsPerTenant: queues calls, with deadline and cancellation, and refuses the rest", async (t) => {
      const rig = await rigFor(t, { callsPerTenant: 1, queuedCallsPerTenant: 2 });
      const { program, open, arrived } = gated();
      const controller = new AbortController();
      const running = rig.value(gate, {}, { program });
      const waiting = rig.value(gate, {}, { program });
      const cancelled = rig.call(gate, {}, { program, signal: controller.signal });
      const refused = failureOf(await rig.call(gate, {}, { program }));
      assert.deepEqual([refused.reason, refused.retriable], ["busy", true]);
      controller.abort();
      assert.equal(failureOf(await cancelled).reason, "cancelled");
      const late = failureOf(await rig.call(gate, {}, { program, deadlineMs: 60 }));
      assert.deepEqual([late.reason, late.retriable], ["timeout", true]);
      await until(() => arrived() === 1, "one call runs");
      assert.equal(rig.executor.stats().callsInFlight, 2);
      open();
      assert.deepEqual(await Promise.all([running, waiting]), ["opened", "opened"]);
      assert.deepEqual([arrived(), rig.executor.stats().callsInFlight], [2, 0]);
    });

    it("guestProcesses: waits for a busy process, and evicts the one that was idle longest", async (t) => {
      const rig = await rigFor(t, { guestProcesses: 2 });
      const [first, second, third] = [gated(), gated(), gated()];
      const calls = [first, second, third].map(({ program }) => rig.value(gate, {}, { program }));
      const late = failureOf(await rig.call(gate, {}, { program: programOf("friendly"), deadlineMs: 80 }));
      assert.deepEqual([late.reason, late.retriable], ["timeout", true]);
      await until(() => first.arrived() + second.arrived() === 2, "two programs run");
      assert.equal(third.arrived(), 0);
      assert.equal(rig.executor.stats().programs, 2);
      first.open();
      await until(() => third.arrived() === 1, "the third has its process");
      assert.equal(rig.executor.stats().programs, 2);
      second.open();
      third.open();
      assert.deepEqual(await Promise.all(calls), ["opened", "opened", "opened"]);

      const programs = [programOf("friendly"), programOf("friendly"), programOf("friendly")] as const;
      const mark = (index: 0 | 1 | 2): Promise<Json> => rig.value(shape("mark"), {}, { program: programs[index] });
      const marks = [await mark(0), await mark(1)];
      assert.equal(await mark(0), marks[0]);
      await mark(2);
      assert.equal(await mark(0), marks[0], "the one used last was kept");
      assert.equal(rig.executor.stats().programs, 2);
    });

    it("guestIdleMs: an idle process is ended and started again when needed", async (t) => {
      const rig = await rigFor(t, { guestIdleMs: 50, guestSpareProcesses: 0 });
      const echo = shape("echo", ["message"]);
      await rig.value(echo, { message: "a" });
      await until(() => rig.executor.stats().programs === 0, "the idle process is ended");
      assert.equal(await rig.value(echo, { message: "b" }), "b");
    });

    it("guestSpareProcesses: keeps that many spare processes", async (t) => {
      const rig = await rigFor(t, { guestSpareProcesses: 2 });
      await until(() => rig.executor.stats().spares === 2, "two spares");
      await rig.value(shape("pid"));
      await until(() => rig.executor.stats().spares === 2, "two spares again");
      assert.deepEqual([rig.executor.stats().programs, rig.executor.stats().started], [1, 3]);
    });

    it("guestMemoryMb: limits the heap and the memory outside it", async (t) => {
      const rig = await rigFor(t, { guestMemoryMb: 32 });
      const fill = (megabytes: number): string =>
        `export function fill() { const all = []; for (let n = 0; n < ${megabytes}; n++) all.push(new Array(131072).fill(n + 0.5)); return all.length; }`;
      assert.equal(await rig.value(shape("fill"), {}, { program: programWith(fill(8)) }), 8);
      const inHeap = failureOf(await rig.call(shape("fill"), {}, { program: programWith(fill(200)) }));
      assert.equal(inHeap.reason, "memory", inHeap.message);
      const program = programWith(`
          const held = [];
          export const hold = () => new Promise(() => {
            for (let n = 0; n < 30; n++) held.push(Buffer.alloc(10 << 20, 1));
            setInterval(() => Buffer.alloc(1 << 20, 1), 10);
          });`);
      const outside = failureOf(await rig.call(shape("hold"), {}, { program }));
      assert.equal(outside.reason, "memory");
      assert.match(
        outside.message,
        /^it held \d+ MB of memory, more than the 192 MB that BERTH_GUEST_MEMORY_MB=32 leaves/,
      );
    });

    it("suspend ends and refuses all calls of a tenant until resume", async (t) => {
      const rig = await rigFor(t, { callsPerTenant: 1 });
      const { program } = gated();
      const calls = [rig.call(gate, {}, { program }), rig.call(gate, {}, { program })];
      const script = scriptRun("sleep 30");
      const run = rig.executor.runScript(script);
      await until(() => rig.executor.stats().programs === 1, "one runs");
      await rig.executor.suspend("default");
      calls.push(rig.call(gate, {}, { program }));
      for (const call of [...calls, run, rig.executor.runScript(script)]) {
        const { reason, retriable } = failureOf(await call);
        assert.deepEqual([reason, retriable], ["evicted", false]);
      }
      await until(() => rig.executor.stats().programs === 0, "its process is gone");
      rig.executor.resume("default");
      assert.equal(await rig.value(same, { value: 1 }), 1);
    });

    it("close ends running, queued and later calls and scripts", async (t) => {
      const rig = await rigFor(t, { callsPerTenant: 1, scriptProcesses: 1 });
      const { program } = gated();
      const both = () => [rig.call(gate, {}, { program }), rig.executor.runScript(scriptRun("sleep 100"))];
      const calls = [...both(), ...both()];
      await until(() => rig.executor.stats().programs === 1, "one runs");
      await Promise.all([rig.close(), rig.close()]);
      for (const call of [...calls, ...both()]) {
        const { reason, retriable } = failureOf(await call);
        assert.deepEqual([reason, retriable], ["evicted", true]);
      }
      assert.deepEqual([rig.executor.stats().programs, rig.executor.stats().spares], [0, 0]);
    });
  });
}
