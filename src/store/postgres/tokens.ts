import type { TokenRecords } from "../store.ts";
import { listTokens, TokenChanges, tokenByHash, tokensInForce } from "../tokens.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import type { Feed } from "./feed.ts";
import { runSteps } from "./steps.ts";

/** Tokens in Postgres. `ask` runs queries of clients whose token is not known. */
export function postgresTokens(database: PostgresDatabase, ask: RunSql, feed: Feed): TokenRecords {
  const { run } = database;
  const changes = new TokenChanges(postgresDialect, (changed) => feed.record(changed));

  /** A new token is a change, too. When the database does not answer, no token is trusted. */
  const ended = async (ids: readonly string[]): Promise<readonly string[]> => {
    if (ids.length === 0) return ids;
    try {
      const inForce = await runSteps(run, tokensInForce(postgresDialect, ids));
      return ids.filter((id) => !inForce.has(id));
    } catch {
      return ids;
    }
  };

  return {
    byHash: (hash) => runSteps(ask, tokenByHash(hash)),
    list: (tenant, part) => runSteps(run, listTokens(tenant, part)),

    async add(token, by, tokensMax = Infinity) {
      const add = (run: RunSql) => runSteps(run, changes.add(token, by, tokensMax));
      return (await database.change(token.tenant, add)).result;
    },

    revoke: (tenant, id, by) =>
      feed.telling([{ tenant, kind: "token", name: id }], async () => {
        const revoke = (run: RunSql) => runSteps(run, changes.revoke(tenant, id, by));
        return (await database.change(tenant, revoke)).result;
      }),

    onRevoke: (listener) =>
      feed.listen((changed) => {
        const ids = changed.filter(({ kind }) => kind === "token").map(({ name }) => name);
        void ended(ids).then((ends) => ends.forEach((id) => listener(id)));
      }),
  };
}
