import { strict as assert } from "node:assert";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { seccompFilter } from "../../src/processes/seccomp.ts";
import { scriptRun, shape, useRig } from "../support/executor.ts";
import { descendants } from "../support/processes.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const KILL = 0x8000_0000;
const ALLOW = 0x7fff_0000;
const errno = (number: number): number => 0x0005_0000 + number;
/** The exit codes by which a shell reports these signals. */
const [SIGSEGV, SIGSYS] = [128 + 11, 128 + 31];
const [EPERM, EINVAL, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT] = [1, 22, 38, 93, 95, 97];
const NOTHING_DONE = 0;

/** The kernel's input for a filter: `struct seccomp_data`. */
function dataOf(audit: number, number: number, args: readonly number[] = []): Buffer {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(audit, 4);
  for (const [index, value] of args.entries()) data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), 16 + index * 8);
  return data;
}

/** The verdict of a filter, as `net/core/filter.c` runs it, for the instructions that it may consist of. */
function verdict(filter: Buffer, data: Buffer): number {
  let accumulator = 0;
  for (let at = 0; at * 8 < filter.length; at++) {
    const [code, ifSo, ifNot, value] = [
      filter.readUInt16LE(at * 8),
      filter.readUInt8(at * 8 + 2),
      filter.readUInt8(at * 8 + 3),
      filter.readUInt32LE(at * 8 + 4),
    ];
    const jump = (holds: boolean): void => void (at += holds ? ifSo : ifNot);
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else if (code === 0x15) jump(accumulator === value);
    else if (code === 0x25) jump(accumulator > value);
    else if (code === 0x35) jump(accumulator >= value);
    else if (code === 0x45) jump((accumulator & value) !== 0);
    else if (code === 0x54) accumulator &= value;
    else if (code === 0x06) return value;
    else assert.fail(`no such instruction: ${code}`);
  }
  return assert.fail("it ends without a verdict");
}

/** System call numbers in the `asm/unistd.h` of x86_64 and of aarch64. */
const numbers = {
  read: [0, 63],
  write: [1, 64],
  mmap: [9, 222],
  ioctl: [16, 29],
  shmget: [29, 194],
  socket: [41, 198],
  listen: [50, 201],
  socketpair: [53, 199],
  setsockopt: [54, 208],
  clone: [56, 220],
  execve: [59, 221],
  fcntl: [72, 25],
  ptrace: [101, 117],
  personality: [135, 92],
  prctl: [157, 167],
  mount: [165, 40],
  setxattr: [188, 5],
  lsetxattr: [189, 6],
  fsetxattr: [190, 7],
  futex: [202, 98],
  keyctl: [250, 219],
  unshare: [272, 97],
  perf_event_open: [298, 241],
  setns: [308, 268],
  process_vm_readv: [310, 270],
  seccomp: [317, 277],
  getrandom: [318, 278],
  memfd_create: [319, 279],
  bpf: [321, 280],
  userfaultfd: [323, 282],
  statx: [332, 291],
  rseq: [334, 293],
} as const;
const callsOf = (column: 0 | 1) =>
  Object.fromEntries(Object.entries(numbers).map(([name, row]) => [name, row[column]])) as Record<
    keyof typeof numbers,
    number
  >;
const machines = {
  x64: { audit: 0xc000_003e, foreign: [0x4000_0003, 0xc000_00b7, 0x4000_0028], calls: callsOf(0) },
  arm64: { audit: 0xc000_00b7, foreign: [0x4000_0028, 0xc000_003e, 0x4000_0003], calls: callsOf(1) },
};
const everywhere = {
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  move_mount: 429,
  clone3: 435,
  landlock_create_ruleset: 444,
  setxattrat: 463,
};
type Call = keyof typeof numbers | keyof typeof everywhere;

for (const [machine, { audit, foreign, calls }] of Object.entries(machines)) {
  const filter = seccompFilter(machine, "local")!;
  const askOf =
    (asked: Buffer) =>
    (name: Call, ...args: number[]): number =>
      verdict(asked, dataOf(audit, { ...calls, ...everywhere }[name], args));
  const ask = askOf(filter);

  describe(`the filter of system calls for ${machine}`, () => {
    it("kills who calls by another ABI, whatever the call", () => {
      for (const other of foreign) {
        for (const number of [0, 1, 20, 63, 102, 359]) assert.equal(verdict(filter, dataOf(other, number)), KILL);
      }
      if (machine !== "x64") return;
      for (const number of [0, 1, 41, 59, 512, 547]) {
        assert.equal(verdict(filter, dataOf(audit, 0x4000_0000 + number)), KILL, `x32 ${number}`);
      }
    });

    it("refuses what has no use, and allows what programs live on", () => {
      const refused =
        "shmget ptrace mount keyctl setns process_vm_readv memfd_create bpf userfaultfd perf_event_open io_uring_setup io_uring_enter io_uring_register move_mount";
      for (const name of refused.split(" ")) assert.equal(ask(name as Call), errno(EPERM), name);
      for (const name of "read write mmap futex execve getrandom statx rseq".split(" ")) {
        assert.equal(ask(name as Call), ALLOW, name);
      }
      assert.equal(ask("clone3"), errno(ENOSYS));
      for (const number of [470, 500, 0x3fff_ffff]) {
        assert.equal(verdict(filter, dataOf(audit, number)), errno(ENOSYS), `${number}`);
      }
    });

    it("lets sockets be of its own machine alone, and of no network", () => {
      const [DATAGRAM, STREAM] = [2, 1];
      for (const family of [1, 16]) assert.equal(ask("socket", family, DATAGRAM, 0), ALLOW, `${family}`);
      for (let family = 0; family < 64; family++) {
        if (![1, 16].includes(family)) assert.equal(ask("socket", family, STREAM, 0), errno(EAFNOSUPPORT));
        assert.equal(ask("socketpair", family, STREAM, 0), family === 1 ? ALLOW : errno(EAFNOSUPPORT));
      }
      // The kernel takes the lower half for the family, whatever stands above it.
      assert.equal(ask("socket", 2 ** 32 + 40, STREAM, 0), errno(EAFNOSUPPORT));
      for (const protocol of [4, 9, 12, 16]) assert.equal(ask("socket", 16, 3, protocol), errno(EPROTONOSUPPORT));
    });

    it("lets nobody who starts nothing have a socket to write to", () => {
      const askAlone = askOf(seccompFilter(machine, "none")!);
      for (let family = 0; family < 64; family++) {
        assert.equal(askAlone("socket", family, 1, 0), family === 16 ? ALLOW : errno(EAFNOSUPPORT));
        assert.equal(askAlone("socketpair", family, 1, 0), errno(EAFNOSUPPORT));
      }
      assert.equal(askAlone("setsockopt", 3, 1, 7), errno(NOTHING_DONE));
      assert.equal(askAlone("read"), ALLOW);
    });

    it("lets a guest connect to a local socket of others, and listen at none itself", () => {
      const askOut = askOf(seccompFilter(machine, "out")!);
      const [STREAM, DATAGRAM, SEQUENCE, FLAGS] = [1, 2, 5, 0o2004000];
      for (const kind of [STREAM, STREAM | FLAGS]) assert.equal(askOut("socket", 1, kind, 0), ALLOW);
      for (const kind of [DATAGRAM, DATAGRAM | FLAGS, SEQUENCE, 3, 0]) {
        assert.equal(askOut("socket", 1, kind, 0), errno(EPROTONOSUPPORT), `${kind}`);
      }
      for (let family = 2; family < 64; family++) {
        assert.equal(askOut("socket", family, STREAM, 0), family === 16 ? ALLOW : errno(EAFNOSUPPORT));
      }
      assert.equal(askOut("socketpair", 1, STREAM, 0), errno(EAFNOSUPPORT));
      assert.equal(askOut("listen", 3, 5), errno(EPERM));
      assert.equal(ask("listen", 3, 5), ALLOW);
    });

    it("lets a script with a network connect over TCP, and with folders do nothing else", () => {
      const [TCP, UDP, RAW, SCTP, MPTCP] = [6, 17, 255, 132, 262];
      const [STREAM, DATAGRAM, ANY, FLAGS] = [1, 2, 3, 0o2004000];
      const [askTcp, askBoth] = [
        askOf(seccompFilter(machine, "tcp")!),
        askOf(seccompFilter(machine, "local and tcp")!),
      ];
      for (const asked of [askTcp, askBoth]) {
        for (const family of [2, 10]) {
          for (const protocol of [0, TCP]) assert.equal(asked("socket", family, STREAM | FLAGS, protocol), ALLOW);
          for (const protocol of [SCTP, MPTCP, UDP])
            assert.equal(asked("socket", family, STREAM, protocol), errno(EPROTONOSUPPORT), `${protocol}`);
          for (const kind of [DATAGRAM, DATAGRAM | FLAGS, ANY, 0, 5])
            for (const protocol of [0, TCP, UDP, RAW])
              assert.equal(asked("socket", family, kind, protocol), errno(EPROTONOSUPPORT), `${kind} ${protocol}`);
          assert.equal(asked("socketpair", family, STREAM, 0), errno(EAFNOSUPPORT));
        }
        for (let family = 3; family < 64; family++) {
          if (![10, 16].includes(family)) assert.equal(asked("socket", family, STREAM, 0), errno(EAFNOSUPPORT));
        }
        assert.equal(asked("setsockopt", 3, TCP, 31), errno(EPERM), "no protocol above TCP in the kernel");
      }
      for (const call of ["socket", "socketpair"] as const) {
        assert.equal(askTcp(call, 1, STREAM, 0), errno(EAFNOSUPPORT));
        assert.equal(askBoth(call, 1, DATAGRAM, 0), ALLOW);
      }
      assert.equal(askTcp("listen", 3, 5), errno(EPERM));
      assert.equal(askBoth("listen", 3, 5), ALLOW);
    });

    it("leaves a socket the length that the system gives it, whatever is wished", () => {
      const [SOL_SOCKET, SOL_TCP] = [1, 6];
      for (const option of [7, 8, 32, 33]) {
        assert.equal(ask("setsockopt", 3, SOL_SOCKET, option), errno(NOTHING_DONE), `${option}`);
        assert.equal(ask("setsockopt", 3, 2 ** 32 + SOL_SOCKET, 2 ** 32 + option), errno(NOTHING_DONE));
        assert.equal(ask("setsockopt", 3, SOL_TCP, option), ALLOW);
      }
      for (const option of [2, 9, 20, 21]) assert.equal(ask("setsockopt", 3, SOL_SOCKET, option), ALLOW);
    });

    it("lets threads and processes be made, and no namespaces", () => {
      const thread = 0x003d_0f00;
      assert.equal(ask("clone", thread), ALLOW);
      assert.equal(ask("clone", 0x11), ALLOW);
      for (const space of [0x2_0000, 0x200_0000, 0x400_0000, 0x800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000]) {
        assert.equal(ask("clone", thread | space), errno(EPERM));
        assert.equal(ask("unshare", space), errno(EPERM));
      }
      assert.equal(ask("unshare", 0x80), errno(EPERM));
      assert.equal(ask("unshare", 0x400), ALLOW);
    });

    it("refuses memory that counts to no process", () => {
      const [SHARED, PRIVATE, VALIDATED, ANONYMOUS, HUGE] = [1, 2, 3, 0x20, 0x4_0000];
      const mmap = (flags: number): number => ask("mmap", 0, 4_096, 3, flags);
      for (const shared of [SHARED, VALIDATED]) assert.equal(mmap(shared | ANONYMOUS), errno(EPERM));
      for (const kind of [SHARED, PRIVATE]) assert.equal(mmap(kind | HUGE), errno(EPERM));
      for (const flags of [SHARED, PRIVATE, PRIVATE | ANONYMOUS]) assert.equal(mmap(flags), ALLOW);
      for (const option of [22, 2 ** 32 + 22]) assert.equal(ask("prctl", option), errno(EPERM));
      for (const option of [67, 78, 0x5356_4d41]) assert.equal(ask("prctl", option), errno(EINVAL));
      for (const option of [1, 15, 38, 66]) assert.equal(ask("prctl", option), ALLOW);
      for (const command of [37, 38]) assert.equal(ask("fcntl", 3, command), errno(EINVAL));
      for (const command of [1, 2, 6, 7]) assert.equal(ask("fcntl", 3, command), ALLOW);
      for (const name of ["setxattr", "lsetxattr", "fsetxattr", "setxattrat"] as const)
        assert.equal(ask(name), errno(EOPNOTSUPP), name);
      for (const name of ["seccomp", "landlock_create_ruleset"] as const) assert.equal(ask(name), errno(EPERM), name);
    });

    it("lets nobody type into a terminal or take another personality", () => {
      for (const request of [0x5412, 0x541c, 2 ** 32 + 0x5412]) assert.equal(ask("ioctl", 0, request), errno(EPERM));
      assert.equal(ask("ioctl", 0, 0x5401), ALLOW);
      assert.equal(ask("personality", 0xffff_ffff), ALLOW);
      assert.equal(ask("personality", 0), ALLOW);
      for (const other of [0x8, 0x4_0000, 0x40_0000]) assert.equal(ask("personality", other), errno(EPERM));
    });
  });
}

it("there is no filter of system calls for other machines, and none is made up", () => {
  for (const machine of ["ia32", "arm", "ppc64", "riscv64", "s390x"]) {
    for (const sockets of ["none", "out", "local", "tcp", "local and tcp"] as const) {
      assert.equal(seccompFilter(machine, sockets), undefined, machine);
    }
  }
});

const calls = machines[process.arch as keyof typeof machines]?.calls;
const skip = process.platform !== "linux" || !calls ? "there is no filter here" : false;

describe("in the sandbox", { skip }, () => {
  const rig = useRig("sandboxed");

  const run = async (script: string) => {
    const outcome = await rig.executor.runScript(scriptRun(script));
    assert.ok(outcome.ok, JSON.stringify(outcome));
    return { ...outcome, said: outcome.stdout.toString() + outcome.stderr };
  };

  it("a program that calls by another ABI is killed", { skip: process.arch !== "x64" && "needs x86_64" }, async (t) => {
    // mov eax, 1; mov ebx, 7; int 0x80: `exit(7)` for a 32-bit program.
    const i386 = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    // mov eax, 0x4000003c; mov edi, 7; syscall: `exit(7)` of x32; then `exit(8)` where the kernel has no x32.
    const x32 = [0xb8, 0x3c, 0, 0, 0x40, 0xbf, 7, 0, 0, 0, 0x0f, 5, 0xb8, 0x3c, 0, 0, 0, 0xbf, 8, 0, 0, 0, 0x0f, 5];
    const native = [0xb8, 0x3c, 0, 0, 0, 0xbf, 9, 0, 0, 0, 0x0f, 5];
    const folder = temporaryFolder(t);
    const statuses = async (code: readonly number[]): Promise<unknown[]> => {
      const script = `echo ${elf(code).toString("base64")} | base64 -d > a; chmod +x a; ./a; exit $?\n`;
      const { status } = spawnSync("sh", ["-c", script], { cwd: folder, stdio: "ignore" });
      return [status, (await run(`#!/bin/sh\n${script}`)).exitCode];
    };
    assert.deepEqual(await statuses(native), [9, 9]);
    assert.deepEqual((await statuses(x32))[1], SIGSYS);
    // Some kernels kill such a program before any filter sees its calls.
    const [unfiltered, filtered] = await statuses(i386);
    assert.equal(filtered, unfiltered === SIGSEGV ? SIGSEGV : SIGSYS);
  });

  it("ordinary programs run", async () => {
    const { said } = await run(`#!/bin/bash
set -e
seq 3 | sort -r | head -n 1
echo '{"a":[1,2]}' > x.json; cp x.json y.json; cat y.json | tr -d ' '
tar cf t.tar x.json && tar tf t.tar
date -u -d @0 +%Y; uname -s; timeout 5 true; mktemp -d | cut -c1-5
(sleep 0.01 & wait); : "$(getconf PAGESIZE)"; find . -name 'x*' | xargs -n1 basename
[ ! -x /usr/bin/jq ] || [ "$(jq -c '.a|add' x.json)" = 3 ]
[ ! -x /usr/bin/python3 ] || /usr/bin/python3 -c 'import threading, socket, subprocess
t = threading.Thread(target=lambda: None); t.start(); t.join()
socket.socketpair(); subprocess.run(["true"], check=True)'
echo end
`);
    assert.equal(said, '3\n{"a":[1,2]}\nx.json\n1970\nLinux\n/tmp/\nx.json\nend\n');
  });

  it("a script that hides what it holds in sockets is ended like any that holds too much", async () => {
    const script = `#!/bin/sh
exec perl -e 'use Socket; use Fcntl; my @kept;
for (1..8) { my $p = fork(); next if $p; while (1) {
  socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or last;
  for my $end ($a, $b) { setsockopt($end, SOL_SOCKET, SO_SNDBUF, pack("l", 1 << 30));
    fcntl($end, F_SETFL, fcntl($end, F_GETFL, 0) | O_NONBLOCK); while (defined syswrite($end, "x" x 65536)) {} push @kept, $end } }
  while (1) { my $n = 0; $n++ for 1..1000000 } } wait()'
`;
    const outcome = await rig.executor.runScript(scriptRun(script));
    assert.ok(!outcome.ok);
    assert.match(outcome.error.message, /memory/, JSON.stringify(outcome));
  });

  it("guests run behind the filter", async () => {
    assert.equal(await rig.value(shape("echo", ["text"]), { text: "said" }), "said");
    const filtered = descendants().filter((pid) => /^Name:\s+node$/m.test(statusOf(pid)));
    assert.ok(filtered.length > 0);
    for (const pid of filtered) assert.match(statusOf(pid), /^Seccomp:\s+2$/m);
  });
});

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return "";
  }
}

/** A 64-bit program with only this code. */
function elf(code: readonly number[]): Buffer {
  const base = 0x40_0000;
  const head = Buffer.alloc(120);
  head.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  head.writeUInt16LE(2, 16);
  head.writeUInt16LE(62, 18);
  head.writeUInt32LE(1, 20);
  head.writeBigUInt64LE(BigInt(base + 120), 24);
  head.writeBigUInt64LE(64n, 32);
  head.writeUInt16LE(64, 52);
  head.writeUInt16LE(56, 54);
  head.writeUInt16LE(1, 56);
  head.writeUInt32LE(1, 64);
  head.writeUInt32LE(5, 68);
  head.writeBigUInt64LE(BigInt(base), 80);
  head.writeBigUInt64LE(BigInt(base), 88);
  head.writeBigUInt64LE(BigInt(120 + code.length), 96);
  head.writeBigUInt64LE(BigInt(120 + code.length), 104);
  head.writeBigUInt64LE(0x1000n, 112);
  return Buffer.concat([head, Buffer.from(code)]);
}
