import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** The longest freeze, whatever becomes of the test. */
const FREEZE_S_MAX = 120;

/** A disk of its own that can be frozen: the kernel then blocks each write to it, however long. */
export interface FreezableDisk {
  readonly folder: string;
  /** Has something done at the end of the test, when it is thawed and still there. */
  after(work: () => Promise<void>): void;
  /** Resolves with what thaws it again, and fails if something else did: the end of this process, or the longest freeze. */
  freeze(): Promise<() => Promise<void>>;
}

/** Undefined, with the test skipped, where this user may not mount one. */
export function freezableDisk(t: TestContext): FreezableDisk | undefined {
  const place = mkdtempSync(join(tmpdir(), "berth-frozen-"));
  const [image, folder] = [join(place, "image"), join(place, "disk")];
  let end = async (): Promise<void> => {};
  const works: (() => Promise<void>)[] = [];
  t.after(async () => {
    // Unmounted before, it would stay frozen.
    await end();
    for (const work of works) await work();
    spawnSync("umount", ["-l", folder]);
    rmSync(place, { recursive: true, force: true });
  });
  mkdirSync(folder);
  const reason =
    failure("truncate", "--size=256M", image) ??
    failure("mkfs.ext4", "-q", image) ??
    failure("mount", "-o", "loop", image, folder) ??
    failure("fsfreeze", "--freeze", folder) ??
    failure("fsfreeze", "--unfreeze", folder);
  if (reason !== undefined) {
    t.skip(`no disk can be frozen here, which root can with a loop device, ext4, and fsfreeze(8): ${reason}`);
    return undefined;
  }
  return {
    folder,
    after: (work) => void works.push(work),
    async freeze() {
      const script = `fsfreeze --freeze "$0" && echo frozen
        timeout ${FREEZE_S_MAX} cat; code=$?; fsfreeze --unfreeze "$0"; exit $code`;
      // In a process group of its own, which a signal to that of the tests does not reach.
      const guard = spawn("sh", ["-c", script, folder], { detached: true, stdio: ["pipe", "pipe", "inherit"] });
      const thawed = once(guard, "exit");
      end = async () => {
        guard.stdin.end();
        await thawed;
      };
      await once(guard.stdout, "data");
      return async () => {
        await end();
        assert.equal(guard.exitCode, 0, `it was frozen until now, and not thawed after ${FREEZE_S_MAX} s`);
      };
    },
  };
}

function failure(command: string, ...args: string[]): string | undefined {
  const { status, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  return status === 0 ? undefined : `${command}: ${error?.message ?? stderr.trim()}`;
}
