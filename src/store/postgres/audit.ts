import type { AuditEntry, AuditLink, AuditLinks } from "../../audit/audit-entry.ts";
import type { BerthError } from "../../lib/errors.ts";
import {
  addAnchor,
  allLinks,
  anchorHead,
  appendLinks,
  chainHeads,
  isAnchorDue,
  isRetentionDue,
  newestLinks,
  retain,
  retentions,
  distinctTenants,
} from "../audit.ts";
import type { AddedLink } from "../dialect.ts";
import type { Steps } from "../steps.ts";
import type { PostgresDatabase, RunSql, Snapshot } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import { runSteps } from "./steps.ts";

const LINKS_AT_ONCE = 50;

const QUICK = { isDurable: false } as const;

/** Records an event in the transaction of its change. Call it after all locks on tenants and contents. */
export async function appendAudit(run: RunSql, entry: AuditEntry): Promise<void> {
  await runSteps(run, appendLinks(postgresDialect, [entry]));
}

interface AuditDatabase extends Pick<PostgresDatabase, "run" | "transaction"> {
  snapshot(): Promise<Pick<Snapshot, "parts" | "close">>;
}

/**
 * The audit log in Postgres. Its transactions never wait long for other processes, so `patient` makes no difference.
 */
export function postgresAuditLinks(database: AuditDatabase): AuditLinks {
  const read = <T>(steps: Steps<T>): Promise<T> => runSteps(database.run, steps);
  /** The first links of entries that may have been stored, because the connection was lost during the commit. */
  const uncertain = new WeakMap<readonly AuditEntry[], AddedLink>();
  return {
    async append(entries) {
      let first: AddedLink | undefined;
      try {
        await database.transaction(async (run) => {
          const maybeStored = uncertain.get(entries);
          if (maybeStored && (await isStored(run, maybeStored, entries))) return;
          [first] = await runSteps(run, appendLinks(postgresDialect, entries));
        }, QUICK);
      } catch (error) {
        if (first && (error as BerthError).code === "store_uncertain") uncertain.set(entries, first);
        throw error;
      }
    },

    newest: (query) => read(newestLinks(postgresDialect, query)),

    async *all() {
      const snapshot = await database.snapshot();
      try {
        const links = snapshot.parts<AuditLink>(allLinks(postgresDialect), [], LINKS_AT_ONCE);
        for await (const part of links) yield* part;
      } finally {
        await snapshot.close();
      }
    },

    retentions: () => read(retentions(postgresDialect)),
    heads: () => read(chainHeads(postgresDialect)),
    head: () => read(anchorHead(postgresDialect)),

    async anchor({ now = false } = {}) {
      // Check without the lock first, as there is usually nothing to do. The head may be saved elsewhere, so it must be
      // durable.
      if (await read(isAnchorDue(now)))
        await database.transaction((run) => runSteps(run, addAnchor(postgresDialect, now)));
      return read(anchorHead(postgresDialect));
    },

    async retain(keep) {
      if (!(await read(isRetentionDue(postgresDialect, keep)))) return false;
      return await database.transaction((run) => runSteps(run, retain(postgresDialect, keep)), QUICK);
    },
  };
}

/** Locks the chain, so that a transaction that appended the link has either committed or failed. */
async function isStored(run: RunSql, link: AddedLink, entries: readonly AuditEntry[]): Promise<boolean> {
  await runSteps(run, postgresDialect.lockChainEnds(distinctTenants(entries)));
  const { tenant, at, hash } = link;
  const [storedLink] = await run("SELECT 1 FROM audit WHERE tenant = $1 AND at = $2 AND hash = $3", [tenant, at, hash]);
  return storedLink !== undefined;
}
