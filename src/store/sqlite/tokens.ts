import type Database from "#better-sqlite3";
import type { Steps } from "../steps.ts";
import type { TokenRecords } from "../store.ts";
import type { Changed } from "../tenants.ts";
import { listTokens, TokenChanges, tokenByHash, findActiveTokens } from "../tokens.ts";
import { attempt } from "./attempt.ts";
import { sqliteDialect } from "./dialect.ts";
import { recordChanges, type ForeignChanges } from "./foreign-changes.ts";
import { inTransaction, runSteps } from "./steps.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

export function sqliteTokens(
  database: Database.Database,
  log: WriteAheadLog,
  foreignChanges: ForeignChanges,
): TokenRecords {
  const changes = new TokenChanges(sqliteDialect, recordChanges);
  const read = async <T>(steps: Steps<T>): Promise<T> => attempt(() => runSteps(database, steps));
  const runChange = <T>(work: () => Steps<Changed<T>>): Promise<T> =>
    log.writeDurably(() => {
      const { result, changes: ids } = inTransaction(database, work);
      foreignChanges.add(ids);
      return result;
    });
  return {
    byHash: (hash) => read(tokenByHash(hash)),
    list: (tenant, part) => read(listTokens(tenant, part)),
    add: (token, by, tokensMax = Infinity) => runChange(() => changes.add(token, by, tokensMax)),
    revoke: (tenant, id, by) =>
      foreignChanges.notifyIfUncertain(
        [{ tenant, kind: "token", name: id }],
        runChange(() => changes.revoke(tenant, id, by)),
      ),
    onRevoke: (listener) =>
      foreignChanges.listen((changed) => {
        const ids = changed.flatMap(({ kind, name }) => (kind === "token" ? [name] : []));
        if (ids.length === 0) return;
        // New tokens appear as changes as well.
        const active = runSteps(database, findActiveTokens(sqliteDialect, ids));
        for (const id of ids) if (!active.has(id)) listener(id);
      }),
  };
}
