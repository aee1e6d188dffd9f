import type { Keep, ReadableLinks } from "../audit/audit-entry.ts";
import { faultText, verifyLog } from "../audit/verify.ts";
import { matches, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { copiedTables, type CopySource, type IntoStore } from "./copied.ts";

export interface CopiedStore {
  readonly contents: number;
  readonly bytes: number;
  /** The rows of all tables. */
  readonly rows: number;
  /** The ids of the keys that its secrets are sealed with. */
  readonly keyIds: readonly string[];
  /** Where the audit log does not fit, in the source as in the copy; undefined where it fits. */
  readonly logFault: string | undefined;
}

export interface CopySettings {
  /** The limits of the audit log, by which it is verified. */
  readonly keep: Keep;
  /** Called with each table that is begun. */
  readonly onTable?: (name: string) => void;
}

/**
 * Copies all that a store keeps into a new one, which then is there whole and verified, or not at all. The source is only
 * read. Rejects with `backup_failed` where it is damaged, or in use: what is changed meanwhile would be in one of them alone.
 */
export async function copyRows(
  source: CopySource,
  into: IntoStore,
  { keep, onTable }: CopySettings,
): Promise<CopiedStore> {
  if (source.nodes > 0) {
    const who = source.nodes === 1 ? "a process serves" : `${source.nodes} processes serve`;
    const detail = `${who} from the store that is to be copied; end all of them (a killed one counts for BERTH_NODE_LEASE_MS)`;
    throw new BerthError("backup_failed", detail);
  }
  return into(async (target) => {
    let [contents, bytes, rows] = [0, 0, 0];
    for (const table of copiedTables) {
      onTable?.(table.name);
      for await (const some of source.rows(table)) {
        if (table.name === "content") {
          checkContents(some as never);
          contents += some.length;
          bytes += (some as unknown as readonly ContentRow[]).reduce((sum, row) => sum + row.bytes.length, 0);
        }
        await target.write(table, some);
        rows += some.length;
      }
      const [there, here] = [await source.count(table), await target.count(table)];
      if (there !== here)
        throw new BerthError("backup_failed", `of the ${there} rows of ${table.name}, ${here} arrived`);
    }
    await target.continueAfter(source.latestChange);
    onTable?.("audit, which is verified");
    const logFault = await faultOf(target.audit, keep);
    if (logFault !== undefined && logFault !== (await faultOf(source.audit, keep)))
      throw new BerthError("backup_failed", `the audit log of the copy does not fit: ${logFault}`);
    if (await source.isChanged()) {
      const detail = "the store that is to be copied was changed meanwhile; end what uses it, and try again";
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

async function faultOf(log: ReadableLinks, keep: Keep): Promise<string | undefined> {
  const { fault } = await verifyLog(log, undefined, keep);
  return fault && faultText(fault);
}
