import type { TokenRecords } from "../store.ts";
import { listTokens, TokenChanges, tokenByHash, findActiveTokens } from "../tokens.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import type { Feed } from "./feed.ts";
import { runSteps } from "./steps.ts";

/** Tokens in Postgres. `runForUnknown` runs queries for callers with unknown tokens. */
export function postgresTokens(database: PostgresDatabase, runForUnknown: RunSql, feed: Feed): TokenRecords {
  const { run } = database;
  const changes = new TokenChanges(postgresDialect, (changed) => feed.record(changed));

  /** New tokens appear as changes as well. If the database does not respond, all tokens count as ended. */
  const findEnded = async (ids: readonly string[]): Promise<readonly string[]> => {
    if (ids.length === 0) return ids;
    try {
      const active = await runSteps(run, findActiveTokens(postgresDialect, ids));
      return ids.filter((id) => !active.has(id));
    } catch {
      return ids;
    }
  };

  return {
    byHash: (hash) => runSteps(runForUnknown, tokenByHash(hash)),
    list: (tenant, part) => runSteps(run, listTokens(tenant, part)),

    async add(token, by, tokensMax = Infinity) {
      const add = (run: RunSql) => runSteps(run, changes.add(token, by, tokensMax));
      return (await database.change(token.tenant, add)).result;
    },

    revoke: (tenant, id, by) =>
      feed.notifyIfUncertain([{ tenant, kind: "token", name: id }], async () => {
        const revoke = (run: RunSql) => runSteps(run, changes.revoke(tenant, id, by));
        return (await database.change(tenant, revoke)).result;
      }),

    onRevoke: (listener) =>
      feed.listen((changed) => {
        const ids = changed.filter(({ kind }) => kind === "token").map(({ name }) => name);
        void findEnded(ids).then((endedIds) => endedIds.forEach((id) => listener(id)));
      }),
  };
}
