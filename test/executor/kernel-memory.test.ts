import { strict as assert } from "node:assert";
import { describe, it } from "node:test";
import type { ScriptOutcome } from "../../src/executor/executor.ts";
import { failureOf, scriptRun, useRig } from "../support/executor.ts";

/** System call numbers. */
const calls = {
  x64: { read: 0, mmap: 9, madvise: 28, prctl: 157, fsetxattr: 190, seccomp: 317 },
  arm64: { read: 63, mmap: 222, madvise: 233, prctl: 167, fsetxattr: 7, seccomp: 277 },
}[process.arch as "x64" | "arm64"];
const skip = process.platform !== "linux" || !calls ? "there is no filter here" : false;
const { read, mmap, madvise, prctl, fsetxattr, seccomp } = calls ?? ({} as NonNullable<typeof calls>);
/** `MAP_FIXED_NOREPLACE | MAP_ANONYMOUS | MAP_PRIVATE` */
const OWN_PAGE = 0x10_0022;

describe("the memory of the kernel that a sandboxed script takes", { skip }, () => {
  const rig = useRig("sandboxed", { guestSpareProcesses: 0, scriptMemoryMb: 64 });

  const perl = (code: string): Promise<ScriptOutcome> =>
    rig.executor.runScript(scriptRun(`exec perl -e '${code}'`, { deadlineMs: 120_000 }));

  /** Each holds what it took until it is ended. */
  const attacks = {
    "empty files": `for $n (1..150_000) { open($f, ">", "/tmp/$n") or die; close $f } sleep 600`,
    "links with long names": `$p = "y" x 240; for $n (1..60_000) { symlink("z" x 120, "/tmp/$p$n") or die } sleep 600`,
    "files while short processes come and go": `for $n (1..150_000) { open($f, ">", "/tmp/$n") or die; close $f;
      if ($n % 500 == 0) { fork or exit; 1 while waitpid(-1, 0) > 0 } } while (1) { fork or exit; wait }`,
    "page tables":
      `open($z, "<", "/dev/zero"); for $i (1..15_000) { $a = syscall(${mmap}, (1 << 40) + ($i << 30), 4096, 3, ${OWN_PAGE}, -1, 0);` +
      ` last if $a == -1; syscall(${read}, fileno($z), $a, 1); syscall(${madvise}, $a, 4096, 4) } sleep 600`,
    "mappings in many processes": `for (1..30) { fork and next;
      for $i (1..13_000) { syscall(${mmap}, (1 << 40) + ($i << 13), 4096, 3, ${OWN_PAGE}, -1, 0) } sleep 600 } sleep 600`,
  };
  for (const [what, code] of Object.entries(attacks)) {
    it(`counts to its limit: ${what}`, async () => {
      const { reason, message } = failureOf(await perl(code));
      assert.equal(reason, "memory", message);
      assert.match(message, /^it held \d+ MB of memory, more than the 64 MB that all its processes together may hold/);
    });
  }

  it("ends it where it holds more record locks than any program needs", async () => {
    const lock = (count: number): string =>
      `open($f, "+>", "/tmp/l"); for $i (1..${count}) { fcntl($f, 6, pack("s s x4 q q l x4", 1, 0, 2 * $i, 1, 0)) or die }`;
    assert.match(failureOf(await perl(`${lock(2_000)} sleep 600`)).message, /^it held more than 500 record locks/);
    assert.deepEqual(await perl(`${lock(100)} select undef, undef, undef, 0.5; print "ok"`), {
      ok: true,
      exitCode: 0,
      stdout: Buffer.from("ok"),
      stderr: "",
    });
  });

  it("is refused where it could not be counted", async () => {
    const code = `sub result { print $_[0] < 0 ? $! + 0 : "done", "\\n" }
      result(syscall(${mmap}, 0, 1 << 20, 3, 0x21, -1, 0));
      open($z, "+<", "/dev/zero"); result(syscall(${mmap}, 0, 1 << 20, 3, 1, fileno($z), 0));
      result(syscall(${prctl}, 78, 1, 1 << 20, 0, 0));
      result(syscall(${seccomp}, 2, 0, 0)); result(syscall(444, 0, 0, 1));
      open($f, ">", "/tmp/f"); $name = "user.a"; $value = "x"; result(syscall(${fsetxattr}, fileno($f), $name, $value, 1, 0));
      $acl = pack("L (S S L)*", 2, 1, 6, -1, 2, 6, 65534, 4, 6, -1, 16, 6, -1, 32, 6, -1);
      $name = "system.posix_acl_access"; result(syscall(${fsetxattr}, fileno($f), $name, $acl, length $acl, 0));`;
    const outcome = await perl(code);
    assert.ok(outcome.ok, JSON.stringify(outcome));
    const [EPERM, ENODEV, EINVAL, EOPNOTSUPP] = [1, 19, 22, 95];
    const expected = [EPERM, ENODEV, EINVAL, EPERM, EPERM, EOPNOTSUPP, EOPNOTSUPP];
    assert.equal(outcome.stdout.toString() + outcome.stderr, expected.map((each) => `${each}\n`).join(""));
  });

  it("leaves /dev/zero readable without end", async () => {
    assert.deepEqual(await perl(`open($z, "<", "/dev/zero"); read($z, $a, 1 << 20); print length $a, $a =~ tr/\\0//`), {
      ok: true,
      exitCode: 0,
      stdout: Buffer.from("10485761048576"),
      stderr: "",
    });
  });
});
