import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import type { Cid } from "../lib/cid.ts";

/** The most locks that are remembered: one for each state of an image. */
const LOCKS_MAX = 200;

/**
 * The locks that Berth itself wrote for this user. A lock stands beside the image, and anyone who changes the image
 * could write it; so only a lock that is remembered here, outside all projects, is trusted.
 */
export class OwnLocks {
  readonly #folder: string;

  constructor(env: NodeJS.ProcessEnv) {
    const [cache, home] = [env["XDG_CACHE_HOME"], env["HOME"]].map((path) =>
      isAbsolute(path ?? "") ? path : undefined,
    );
    this.#folder = join(cache ?? join(home ?? homedir(), ".cache"), "berth", "locks");
  }

  has(lock: Cid): boolean {
    return existsSync(join(this.#folder, lock));
  }

  /** Remembers a lock. If that fails, its results are compiled again. */
  add(lock: Cid): void {
    try {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      writeFileSync(join(this.#folder, lock), "");
      this.#forgetOldest();
    } catch {
      // There is no folder of the user's own, or the disk is full.
    }
  }

  #forgetOldest(): void {
    const locks = readdirSync(this.#folder);
    if (locks.length <= LOCKS_MAX) return;
    const age = new Map(locks.map((lock) => [lock, statSync(join(this.#folder, lock)).mtimeMs]));
    locks.sort((one, other) => age.get(one)! - age.get(other)!);
    for (const lock of locks.slice(0, locks.length - LOCKS_MAX)) rmSync(join(this.#folder, lock), { force: true });
  }
}
