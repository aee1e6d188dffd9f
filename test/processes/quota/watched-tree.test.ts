import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { afterEach, describe, it } from "node:test";
import { WatchedTree, type MemoryLimit } from "../../../src/processes/quota/watched-tree.ts";

const USED_MS = 400;
/** Its first child uses processor time and rests; on a signal it ends that child and starts one that takes memory. */
const SUCCESSION = `
use Time::HiRes qw(clock);
$| = 1;
$SIG{CHLD} = $ARGV[0];
my $first = fork;
if (!$first) { 1 while clock() < ${USED_MS / 1_000}; print "used\\n"; sleep 1000; exit }
<STDIN>;
kill "KILL", $first;
waitpid $first, 0;
if (!fork) { my $bytes = 60 << 20; my $held = "x" x $bytes; 1 while clock() < 0.1; print "held\\n"; sleep 1000; exit }
sleep 1000;
`;

describe("a guest that may start processes", { skip: process.platform !== "linux" }, () => {
  let child: ChildProcess | undefined;
  afterEach(async () => {
    if (!child) return;
    const exit = once(child, "exit");
    process.kill(-child.pid!, "SIGKILL");
    await exit;
    child = undefined;
  });
  const start = (command: string, args: readonly string[]): ChildProcess =>
    (child = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"], detached: true }));
  const startIdle = async (): Promise<number> => {
    const { pid, stdout } = start("/bin/sh", ["-c", "echo started; exec sleep 1000"]);
    await once(stdout!, "data");
    return pid!;
  };
  const room = (onExceeded: (heldMb: number) => void): MemoryLimit => ({ megabytes: 50, processes: 8, onExceeded });
  const watch = (pid: number | undefined, onExceeded: (heldMb: number) => void): WatchedTree =>
    new WatchedTree("any", { pid }, false, room(onExceeded));

  const lookAfterSuccession = async (onChild: string): Promise<{ usedMs: number; heldMb: number[] }> => {
    const { pid, stdin, stdout } = start("perl", ["-e", SUCCESSION, onChild]);
    await once(stdout!, "data");
    const heldMb: number[] = [];
    const guest = watch(pid, (each) => heldMb.push(each));
    assert.deepEqual(heldMb, []);
    stdin!.write("\n");
    await once(stdout!, "data");
    return { usedMs: guest.poll(performance.now()).usedMs, heldMb };
  };

  it("cannot hide CPU time or memory in a child that it does not wait for", async () => {
    const { usedMs, heldMb } = await lookAfterSuccession("IGNORE");
    assert.equal(heldMb.length, 1);
    assert.ok(usedMs > 0);
  });

  it("is charged once for a child that it waits for", async () => {
    const { usedMs, heldMb } = await lookAfterSuccession("DEFAULT");
    assert.equal(heldMb.length, 1);
    assert.ok(usedMs < USED_MS, `${usedMs} ms`);
  });

  it("is not charged for Berth's sockets in a shared network namespace", async (t) => {
    // At the system's usual figure for each, they exceed the guest's limit.
    const servers = Array.from({ length: 300 }, () => createServer().listen(0, "127.0.0.1"));
    t.after(() => servers.forEach((server) => server.close()));
    await Promise.all(servers.map((server) => once(server, "listening")));
    const pid = await startIdle();
    const heldMb: number[] = [];
    const guest = watch(pid, (each) => heldMb.push(each));
    for (let look = 0; look < 12; look++) guest.poll(performance.now());
    assert.deepEqual(heldMb, []);
  });

  it("has its memory measured even if it is idle", async () => {
    const pid = await startIdle();
    let looks = 0;
    const counted = {
      ...room(() => {}),
      get megabytes() {
        return (looks++, 50);
      },
    };
    const guest = new WatchedTree("any", { pid }, false, counted);
    for (let look = 0; look < 8; look++) guest.poll(performance.now());
    const before = looks;
    for (let look = 0; look < 12; look++) guest.poll(performance.now());
    assert.ok(looks - before >= 2, `${looks - before} looks`);
  });
});
