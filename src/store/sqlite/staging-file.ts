import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type Database from "#better-sqlite3";
import { BerthError } from "../../lib/errors.ts";
import { inLock, lockFile } from "../../lib/file-lock.ts";

/**
 * Files of tenants that are being assembled, beside the database. The process that made one holds a lock on it that the
 * system releases when the process ends, however it ends: so abandoned files are recognized.
 */
export interface StagingFile {
  readonly id: string;
  readonly database: Database.Database;
  /** Removes it. */
  close(): void;
}

const NAME = /^import-([0-9a-f]{16})\.sqlite$/;
const ATTEMPTS_MAX = 5;

export async function createStagingFile(dataDir: string): Promise<StagingFile> {
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const id = randomBytes(8).toString("hex");
    const file = fileOf(dataDir, id);
    // It may hold secrets of the tenant.
    await (await open(file, "wx", 0o600)).close();
    const database = lockFile(file);
    // A cleanup of leftovers may have removed the file in the moment before the lock.
    if (database && existsSync(file)) {
      return {
        id,
        database,
        close() {
          rmSync(file, { force: true });
          database.close();
        },
      };
    }
    database?.close();
  }
  throw new BerthError("store_failed", `no file could be made in ${dataDir}`);
}

/** True while a process works on the file. */
export function isStaging(dataDir: string, id: string): boolean {
  const file = fileOf(dataDir, id);
  return existsSync(file) && inLock(file, () => {}) === "busy";
}

/** The ids of all such files, in use or not. */
export function stagingIds(dataDir: string): string[] {
  return readdirSync(dataDir).flatMap((name) => NAME.exec(name)?.[1] ?? []);
}

/** Removes a file that nobody works on. */
export function removeStagingFile(dataDir: string, id: string): void {
  const file = fileOf(dataDir, id);
  if (existsSync(file) && inLock(file, () => rmSync(file, { force: true })) === "broken") rmSync(file, { force: true });
}

function fileOf(dataDir: string, id: string): string {
  return join(dataDir, `import-${id}.sqlite`);
}
