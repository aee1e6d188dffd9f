import { strict as assert } from "node:assert";
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { ScriptOutcome, ScriptRun } from "../../src/executor/executor.ts";
import { failureOf, openRig, programOf, scriptRun, shape, useRig, type Mode } from "./executor.ts";
import { commandOf, descendants, statOf } from "./processes.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { until } from "./until.ts";

/** Shell definitions: the common behaviour of every engine, and the sandbox's own. */
export function scriptsContract(mode: Mode): void {
  describe(`a ${mode} executor runs scripts`, () => {
    const rig = useRig(mode, { guestSpareProcesses: 0, outputBytes: 100_000, scriptProcesses: 4 });

    const run = (script: string, more: Partial<ScriptRun> = {}): Promise<ScriptOutcome> =>
      rig.executor.runScript(scriptRun(script, more));
    const printed = async (script: string, more: Partial<ScriptRun> = {}): Promise<string> =>
      textOf(await run(script, more));

    /** Starts a command in a session of its own, which nothing but the sandbox finds. */
    const apart = mode === "sandboxed" ? "setsid" : "";

    it("returns stdout, the exit code or signal, and the end of stderr", async () => {
      const outcome = await run("echo out; echo err >&2; exit 3");
      assert.deepEqual(outcome, { ok: true, exitCode: 3, stdout: Buffer.from("out\n"), stderr: "err\n" });
      assert.deepEqual(await run("kill -SEGV $$"), { ok: true, exitCode: 139, stdout: Buffer.from(""), stderr: "" });
      const flood = await run("i=0; while [ $i -lt 20000 ]; do echo line $i >&2; i=$((i+1)); done");
      assert.ok(flood.ok && flood.stderr.length <= 16 * 1024);
      assert.match(flood.stderr, /line 19999\n$/);
    });

    it("hands over arguments as they are, never as script", async () => {
      const argv = ["a b", "$(id)", "`id`", "'; id; '", "-n", "*", "", "ü\n"];
      assert.equal(await printed('for a in "$@"; do printf "<%s>" "$a"; done', { argv }), `<${argv.join("><")}>`);
      assert.equal(await printed('printf %s "$name"', { env: { name: "$(id) `id`" } }), "$(id) `id`");
    });

    it("sets the documented environment, without that of the host", async () => {
      process.env["BERTH_TEST_SECRET"] = "in the environment";
      const names = (await printed("env", { env: { mine: "1" } })).split("\n").map((line) => line.split("=")[0]);
      delete process.env["BERTH_TEST_SECRET"];
      const expected = new Set(["HOME", "LANG", "PATH", "TMPDIR", "TZ", "mine"]);
      assert.deepEqual(
        new Set(names.filter((name) => name && !["PWD", "SHLVL", "_", "OLDPWD"].includes(name))),
        expected,
      );
    });

    it("runs a script with the interpreter and options of its first line, whatever its line ends", async () => {
      const version = 'echo "${BASH_VERSION:-none}"';
      assert.equal(await printed(`#!/bin/sh\n${version}`), await printed(version));
      const scripts: [script: string, printed: RegExp][] = [
        ["#!/bin/bash\na=(1 2); echo ${#a[@]}", /^2\n$/],
        ["#! /usr/bin/bash -eu \nfalse; echo on", /^$/],
        ["#!/usr/bin/env bash\necho $-", /^(?!.*e)\w+\n$/],
        ["#!/usr/bin/env -S bash -e -o pipefail\nfalse | true; echo on", /^$/],
        ["#!/usr/bin/env -S bash -c 'echo \"as one\"; cat $0'\necho here", /^as one\n#!.*\necho here$/],
        ["#!/bin/dash\necho ${BASH_VERSION:-none}", /^none\n$/],
        ["#!/usr/bin/perl -w -T\nprint ${^TAINT}", /^1$/],
        ["#!/usr/bin/env perl\nprint $^W", /^0$/],
        ["#!/usr/bin/env python3\nprint(1)", /^1\n$/],
        ["\uFEFF#!/bin/bash\r\nset -e\r\nif true; then\r\n  echo a\r\nfi\r\nfalse\r\necho on\r", /^a\n$/],
      ];
      for (const [script, expected] of scripts) assert.match(await printed(script), expected, script);
      const failure = failureOf(await run("#!/bin/bash -e -u\ntrue"));
      assert.deepEqual(
        [failure.reason, failure.message.split(";")[0]],
        ["load", `its first line gives "-e -u" to /bin/bash as one argument, as Linux does`],
      );
    });

    it("starts scripts, like guests, in sessions of their own, which have no terminal", async () => {
      const own = await openRig(mode, { guestSpareProcesses: 0 });
      await own.value(shape("nothing"), {}, { program: programOf("friendly") });
      const outcome = own.executor.runScript(scriptRun("sleep 100; true"));
      await until(() => descendants().some((pid) => commandOf(pid).startsWith("sleep 100")), "the script runs");
      const all = descendants();
      const leaders = all.filter((pid) => statOf(pid)!.parent === process.pid);
      assert.equal(leaders.length, 2, "one for the guest and one for the script");
      for (const pid of all) {
        const { session, terminal } = statOf(pid)!;
        assert.equal(terminal, 0, commandOf(pid));
        assert.ok(leaders.includes(session), `${commandOf(pid)}is in the session of ${session}`);
      }
      await own.close();
      failureOf(await outcome);
    });

    it("has an empty stdin and a working folder of its own, which is empty and writable", async () => {
      assert.equal(await printed("cat; ls -A; echo kept > file; cat file"), "kept\n");
      assert.equal(await printed("ls -A"), "");
    });

    it("takes a large script and large arguments, and refuses larger ones by name", async () => {
      const padding = `# ${"x".repeat(300_000)}\n`;
      assert.equal(await printed(`${padding}printf %s "$1" | wc -c`, { argv: ["x".repeat(100_000)] }), "100000\n");
      assert.match(failureOf(await run("true", { argv: ["x".repeat(200_000)] })).message, /too long/);
    });

    it("refuses names and texts that no environment can hold", async () => {
      assert.match(failureOf(await run("true", { env: { "a-b": "1" } })).message, /"a-b" cannot be the name/);
      assert.match(failureOf(await run("true", { env: { "A=B": "1" } })).message, /cannot be the name/);
      assert.match(failureOf(await run("true", { argv: ["a\0b"] })).message, /contains a NUL character/);
    });

    it("outputBytes: one byte more is a failure", async () => {
      assert.equal((await printed("head -c 100000 /dev/zero")).length, 100_000);
      const failure = failureOf(await run("head -c 100001 /dev/zero"));
      assert.deepEqual(
        [failure.reason, failure.message],
        ["output", "its result is larger than 100000 bytes (BERTH_OUTPUT_BYTES)"],
      );
      assert.equal(failureOf(await run("while :; do echo flood; done")).reason, "output");
    });

    it("ends at its deadline with everything it started", async () => {
      const daemon = `${apart} sh -c 'trap "" TERM; while :; do sleep 1; done' > /dev/null 2>&1 &`;
      const failure = failureOf(await run(`sleep 100 & ${daemon} sleep 101`, { deadlineMs: 200 }));
      assert.deepEqual([failure.reason, failure.message], ["timeout", "it took longer than its deadline of 200 ms"]);
      await until(() => descendants().length === 0, "nothing of it is alive");
      const stubborn = "trap '' TERM INT; while :; do :; done";
      assert.equal(failureOf(await run(stubborn, { deadlineMs: 200 })).reason, "timeout");
      assert.equal(failureOf(await run("kill -STOP $$", { deadlineMs: 200 })).reason, "timeout");
    });

    it("ends when it is cancelled", async () => {
      const controller = new AbortController();
      const outcome = run("sleep 100", { signal: controller.signal });
      await until(() => descendants().length > 0, "it runs");
      controller.abort();
      assert.equal(failureOf(await outcome).reason, "cancelled");
      assert.equal(failureOf(await run("true", { signal: controller.signal })).reason, "cancelled");
    });

    it("kills what a finished script left behind, in its process group or out of it", async () => {
      assert.equal(await printed(`sleep 100 & ${apart} sleep 100 & echo done`), "done\n");
      await until(() => descendants().length === 0, "nothing of it is alive");
    });

    it("scriptProcesses and queuedCallsPerTenant: queues runs, with deadline, and refuses the rest", async (t) => {
      const small = await openRig(mode, { guestSpareProcesses: 0, scriptProcesses: 1, queuedCallsPerTenant: 2 });
      t.after(() => small.close());
      const gate = temporaryFolder(t);
      // Root's guests are nobody.
      chmodSync(gate, 0o755);
      const order: string[] = [];
      const folders = [{ name: "gate", path: gate, writable: false }];
      const named = async (name: string, script: string, deadlineMs = 60_000): Promise<ScriptOutcome> => {
        const outcome = await small.executor.runScript(scriptRun(script, { folders, deadlineMs }));
        order.push(name);
        return outcome;
      };
      const first = named("first", 'until [ -e "$BERTH_FOLDER_gate/open" ]; do sleep 0.05; done');
      const second = named("second", "true");
      const impatient = named("impatient", "true", 50);
      const refused = failureOf(await named("refused", "true"));
      assert.deepEqual([refused.reason, refused.retriable], ["busy", true]);
      const late = failureOf(await impatient);
      assert.deepEqual([late.reason, late.retriable], ["timeout", true]);
      writeFileSync(join(gate, "open"), "");
      await Promise.all([first, second]);
      assert.deepEqual(order, ["refused", "impatient", "first", "second"]);
    });

    if (mode === "trusted") {
      it("refuses every tenant but the default one, and says why", async () => {
        assert.match(failureOf(await run("true", { tenant: "acme" })).message, /"acme".*only in the sandbox/);
      });
      return;
    }

    it("hides the files of the host", async () => {
      assert.equal(await printed("ls -A /home /root /work /etc/passwd /var /run /sys 2>/dev/null; echo end"), "end\n");
      assert.equal(await printed("ls /etc"), "alternatives\n");
      assert.match(await printed("touch /x /usr/x /sbx/x /dev/x /etc/x 2>&1"), /Read-only file system/);
      assert.equal(await printed("cat /proc/1/environ 2>/dev/null | grep -c BERTH"), "0\n");
      assert.ok(Number(await printed("ls /proc | grep -c '^[0-9]'")) < 10);
    });

    it("runs as nobody, and cannot change users", async () => {
      assert.equal(await printed("id -u; id -g"), "65534\n65534\n");
      assert.equal(await printed("unshare -Ur id 2>/dev/null || echo refused"), "refused\n");
      assert.match(await printed("grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status"), /0000\n.*0000\n.*1\n$/);
    });

    it("scriptTasks: no script has more tasks than that", async () => {
      // The subshell ends when it may start no more; its count so far is printed.
      const script = "(while :; do sleep 100 > /dev/null & echo started; done) 2> /dev/null | wc -l";
      const started = Number(await printed(script));
      assert.ok(started > 48 && started < 64, `${started} tasks were started`);
    });

    it("scriptMemoryMb: one process gets no more", async () => {
      const outcome = await run(`exec perl -e '$a = "x" x (1 << 30)'`);
      assert.ok(outcome.ok && outcome.exitCode !== 0);
      assert.match(outcome.stderr, /memory/i);
    });

    it("scriptMemoryMb: all processes of a run together get no more, whoever started them", async () => {
      // Each of them stays below the limit.
      const hold = `perl -e '$a = "x" x (30 << 20); sleep 600'`;
      const script = `#!/bin/bash\nfor n in 1 2 3 4 5 6; do (setsid ${hold} &) ; done\nsleep 600`;
      const failure = failureOf(await run(script));
      assert.equal(failure.reason, "memory");
      assert.match(
        failure.message,
        /^it held \d+ MB of memory, more than the 256 MB that all its processes together may hold \(BERTH_SCRIPT_MEMORY_MB\)/,
      );
      await until(() => descendants().length === 0, "nothing of it is alive");
    });

    it("scriptMemoryMb: counts shared memory once", async () => {
      const script = `perl -e '$a = "x" x (60 << 20); for (1..7) { if (!fork) { for (1..40) { select undef, undef, undef, 0.02 } exit } } 1 while wait > 0; print "done"'`;
      assert.equal(await printed(script), "done");
    });

    it("scriptDiskMb: the working folder is full at that size", async () => {
      const script = 'n=0; while head -c 8388608 /dev/zero > "f$n" 2>/dev/null; do n=$((n+1)); done; echo "$n"';
      assert.equal(await printed(script), "8\n");
    });
  });
}

function textOf(outcome: ScriptOutcome): string {
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return Buffer.from(outcome.stdout).toString();
}
