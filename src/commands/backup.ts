import { readConfig } from "../config.ts";
import { openKeyRing } from "../secrets/key-ring.ts";
import { backupStore, restoreStore } from "../store/open-store.ts";
import { environmentOf } from "./environment.ts";

export interface BackupCommandOptions {
  readonly data?: string;
}

/** `berth backup FILE`, while Berth serves or not. */
export async function backup(file: string, options: BackupCommandOptions & { force?: boolean }): Promise<number> {
  const { dataDir, limits } = readConfig(environmentOf(options));
  const { backupDays } = limits;
  const deleteBy = backupDays > 0 ? Date.now() + backupDays * DAY_MS : undefined;
  const verified = await backupStore({ dataDir, file, replace: options.force ?? false, deleteBy });
  console.error(`${file} is a whole copy of the store in ${dataDir}: ${said(verified)}.`);
  const until = deleteBy === undefined ? "" : `: do so by ${dayOf(deleteBy)} (BERTH_BACKUP_DAYS), which it says, too`;
  console.error(`What is deleted from now on stays in it until you delete the file${until}.`);
  console.error(`It holds no key: keep seal.key and secret.key of ${dataDir}, too, in another place.`);
  return 0;
}

/** `berth restore FILE`: a running Berth serves the restored store by itself. */
export async function restore(file: string, options: BackupCommandOptions): Promise<number> {
  const { dataDir, secretKeys } = readConfig(environmentOf(options));
  const { kept, damage, keyIds, copy, broughtBack, ...verified } = await restoreStore({ dataDir, file });
  console.error(`The store in ${dataDir} now holds what ${file} held: ${said(verified)}.`);
  if (copy?.deleteBy !== undefined && copy.deleteBy < Date.now())
    console.error(`It was made on ${dayOf(copy.madeAt)} and was to be deleted by ${dayOf(copy.deleteBy)}.`);
  if (broughtBack.length > 0) {
    const again = broughtBack.map((name) => `berth tenant delete ${name}`).join("; ");
    console.error(
      `It brought back tenants that were not here any more. Delete them again if they are to be gone: ${again}`,
    );
  }
  if (kept !== undefined) console.error(`What it held before is in ${kept}.`);
  if (damage !== undefined)
    console.error(`Those are its files as they were, because they cannot be backed up: ${damage}`);
  const ring = openKeyRing(dataDir, secretKeys);
  const known = new Set(ring.keys().map(({ id }) => id));
  const missing = keyIds.filter((id) => !known.has(id));
  if (missing.length === 0) return 0;
  console.error(
    `Its secrets are sealed with the key ${missing.join(", ")}, which is not in ${ring.source}: put it there.`,
  );
  return 1;
}

const DAY_MS = 86_400_000;

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function said({ contents, bytes }: Awaited<ReturnType<typeof backupStore>>): string {
  return `${contents} contents, ${bytes} bytes, all of them verified`;
}
