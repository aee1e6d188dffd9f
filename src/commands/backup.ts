import { readConfig, type Config } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import { openKeyRing } from "../secrets/key-ring.ts";
import { backupStore, checkDatabase, hasStore, restoreStore } from "../store/open-store.ts";
import { environmentOf } from "./environment.ts";
import { noStore, type DataOptions } from "./with-store.ts";

/** `berth backup FILE`, while Berth serves or not; for a store in Postgres without a file. */
export async function backup(file: string | undefined, options: DataOptions & { force?: boolean }): Promise<number> {
  const config = readConfig(environmentOf(options));
  const { dataDir, database } = config;
  if (database !== undefined) return checkInstead(file, database, config);
  if (file === undefined) throw new BerthError("config_invalid", "name the file to write: berth backup FILE");
  const { backupDays } = config.limits;
  const deleteBy = backupDays > 0 ? Date.now() + backupDays * DAY_MS : undefined;
  const verified = await backupStore({ dataDir, file, replace: options.force ?? false, deleteBy });
  console.error(`${file} is a whole copy of the store in ${dataDir}: ${said(verified)}.`);
  const until = deleteBy === undefined ? "" : `: do so by ${dayOf(deleteBy)} (BERTH_BACKUP_DAYS), which it says, too`;
  console.error(`What is deleted from now on stays in it until you delete the file${until}.`);
  console.error(`It holds no key: keep seal.key and secret.key of ${dataDir}, too, in another place.`);
  return 0;
}

/** Postgres copies itself better than anybody else could: tells how, and what the copies would be worth. */
async function checkInstead(file = "berth.dump", database: string, config: Config): Promise<never> {
  if (!(await hasStore(config))) throw noStore(config);
  const { damaged, warnings, archivedAt, ...verified } = await checkDatabase(database);
  if (damaged.length > 0) {
    const some = damaged.slice(0, NAMED_MAX).join(", ");
    const detail = `${damaged.length} of ${verified.contents} contents in the database are damaged: ${some}`;
    throw new BerthError("backup_failed", `${detail}; restore the database from an earlier copy`);
  }
  console.error(`The database that BERTH_DATABASE names holds ${said(verified)}.`);
  console.error(
    archivedAt === undefined
      ? "Its change log is archived nowhere by Postgres itself: all that was saved after a copy would be lost with the disk."
      : `Its change log was last archived at ${new Date(archivedAt).toISOString()}.`,
  );
  for (const warning of warnings) console.error(`Postgres: ${warning}.`);
  console.error("It holds no key: keep those of BERTH_SEAL_KEY and BERTH_SECRET_KEY, too, in another place.");
  const how = `pg_dump --format=custom --file=${file} "$BERTH_DATABASE"`;
  throw new BerthError(
    "backup_failed",
    `the store is in Postgres, which copies itself: ${how}, while Berth serves; or pg_basebackup with an archive of the ` +
      "change log, for everything up to the last save",
  );
}

const NAMED_MAX = 5;

/** `berth restore FILE`: a running Berth serves the restored store by itself. */
export async function restore(file: string, options: DataOptions): Promise<number> {
  const { dataDir, database, secretKeys } = readConfig(environmentOf(options));
  if (database !== undefined) {
    throw new BerthError(
      "backup_failed",
      "the store is in Postgres, and nothing was changed: end all nodes, restore the database by its own means, such as " +
        `pg_restore --clean --if-exists --dbname="$BERTH_DATABASE" ${file}, and start them again`,
    );
  }
  const { kept, damage, keyIds, copy, broughtBack, hasChecksum, ...verified } = await restoreStore({ dataDir, file });
  console.error(`The store in ${dataDir} now holds what ${file} held: ${said(verified)}.`);
  if (!hasChecksum) {
    const unverified = "names, tokens, secrets, and state were not verified";
    console.error(`${file} has no checksum, because it is a plain copy of a database: ${unverified}.`);
  }
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

function said({ contents, bytes }: { readonly contents: number; readonly bytes: number }): string {
  return `${contents} contents, ${bytes} bytes, all of them verified`;
}
