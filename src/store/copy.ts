import type { AuditRetentionLimits, ReadableLinks } from "../audit/audit-entry.ts";
import { formatFault, verifyLog } from "../audit/verify.ts";
import { matches, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { copiedTables, type CopySource, type StoreCreator } from "./copied.ts";

export interface CopiedStore {
  readonly contents: number;
  readonly bytes: number;
  readonly rows: number;
  /** The ids of the keys with which its secrets are encrypted. */
  readonly keyIds: readonly string[];
  /** A fault of the audit log that exists in the source and in the copy; undefined if there is none. */
  readonly logFault: string | undefined;
}

export interface CopySettings {
  /** The limits of the audit log, for its verification. */
  readonly keep: AuditRetentionLimits;
  readonly onTable?: (name: string) => void;
}

/**
 * Copies everything in a store into a new one, which exists only once it is complete and verified. Only reads the
 * source. Rejects with `backup_failed` if the source is damaged or in use, as concurrent changes would be missing in
 * the copy.
 */
export async function copyRows(
  source: CopySource,
  into: StoreCreator,
  { keep: auditLimits, onTable }: CopySettings,
): Promise<CopiedStore> {
  if (source.nodes > 0) {
    const users = source.nodes === 1 ? "a process serves" : `${source.nodes} processes serve`;
    const detail = `${users} from the store to be copied; stop all of them (a killed one counts for BERTH_NODE_LEASE_MS)`;
    throw new BerthError("backup_failed", detail);
  }
  return into(async (target) => {
    let [contents, bytes, rows] = [0, 0, 0];
    for (const table of copiedTables) {
      onTable?.(table.name);
      for await (const batch of source.rows(table)) {
        if (table.name === "content") {
          checkContents(batch as never);
          contents += batch.length;
          bytes += (batch as unknown as readonly ContentRow[]).reduce((sum, row) => sum + row.bytes.length, 0);
        }
        await target.write(table, batch);
        rows += batch.length;
      }
      const [sourceCount, targetCount] = [await source.count(table), await target.count(table)];
      if (sourceCount !== targetCount)
        throw new BerthError(
          "backup_failed",
          `only ${targetCount} of ${sourceCount} rows of ${table.name} were copied`,
        );
    }
    await target.continueAfter(source.latestChange);
    onTable?.("audit, which is verified");
    const logFault = await findLogFault(target.audit, auditLimits);
    if (logFault !== undefined && logFault !== (await findLogFault(source.audit, auditLimits)))
      throw new BerthError("backup_failed", `the audit log of the copy is invalid: ${logFault}`);
    if (await source.isChanged()) {
      const detail = "the store was changed while it was copied; stop everything that uses it, and try again";
      throw new BerthError("backup_failed", detail);
    }
    return { contents, bytes, rows, keyIds: source.keyIds, logFault };
  });
}

interface ContentRow {
  readonly cid: Cid;
  readonly bytes: Uint8Array;
}

function checkContents(rows: readonly ContentRow[]): void {
  const damaged = rows.find(({ cid, bytes }) => !matches(cid, bytes));
  if (!damaged) return;
  const detail = `the store is damaged: the bytes of ${damaged.cid} do not match it; restore a backup, and try again`;
  throw new BerthError("backup_failed", detail);
}

async function findLogFault(log: ReadableLinks, keep: AuditRetentionLimits): Promise<string | undefined> {
  const { fault } = await verifyLog(log, undefined, keep);
  return fault && formatFault(fault);
}
