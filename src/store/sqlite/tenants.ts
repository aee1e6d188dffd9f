import type Database from "#better-sqlite3";
import { checkTenantName } from "../../lib/tenant-name.ts";
import { newAlias } from "../aliases.ts";
import type { Steps } from "../steps.ts";
import type { Tenants } from "../store.ts";
import { readTenantSnapshot } from "../tenant-snapshot.ts";
import { findTenant, hasAnything, listHosts, listTenants, TenantChanges, type Changed } from "../tenants.ts";
import { attempt, attemptAll } from "./attempt.ts";
import { sqliteDialect } from "./dialect.ts";
import { recordChanges, type ForeignChanges } from "./foreign-changes.ts";
import { inTransaction, openReadTransaction, removeAliasData, runSteps, shortWrites } from "./steps.ts";
import { removeLeftovers, sqliteTenantStaging } from "./tenant-staging.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/** The registry of tenants in SQLite. Its changes are recorded in the history of names, under the kind `tenant`. */
export function sqliteTenants(
  database: Database.Database,
  log: WriteAheadLog,
  foreignChanges: ForeignChanges,
  onDeleted: (name: string) => void,
  /** Overwrites what is left in the file. Resolves with false if that has to be repeated. */
  erase: () => Promise<boolean>,
): Tenants {
  const changes = new TenantChanges(sqliteDialect, recordChanges);
  const listeners = new Set<(name: string) => void>();
  const read = async <T>(steps: Steps<T>): Promise<T> => runSteps(database, steps);

  /** Runs a transaction and notifies this process of it. */
  const runChange = <T>(name: string, work: () => Steps<Changed<T>>, onCommitted = (): void => {}): Promise<T> =>
    log.writeDurably(() => {
      const { result, changes: ids } = inTransaction(database, work);
      onCommitted();
      foreignChanges.add(ids);
      for (const listener of listeners) listener(name);
      return result;
    });

  return {
    find: (name) => read(findTenant(name)),
    list: () => read(listTenants()),
    hosts: () => read(listHosts()),
    async create(name, settings) {
      checkTenantName(name);
      const alias = newAlias();
      const tenant = await runChange(name, () => changes.create(name, settings, alias));
      await removeAliasData(database, log, alias);
      return tenant;
    },
    change: (name, settings) => runChange(name, () => changes.change(name, settings)),
    delete: (name, by) =>
      attemptAll(async () => {
        await removeLeftovers(database, shortWrites(database, log));
        const alias = newAlias();
        const remove = (): Steps<Changed<number>> => changes.remove(name, by, alias);
        const names = await runChange(name, remove, () => onDeleted(name));
        return { names, contents: await removeAliasData(database, log, alias), isErased: await erase() };
      }),

    snapshot: (name) => attemptAll(() => readTenantSnapshot(sqliteDialect, openReadTransaction(database.name), name)),

    async stage() {
      const publish = (name: string, work: () => Steps<Changed<void>>): Promise<void> =>
        runChange(name, work, () => onDeleted(name));
      const staging = await attemptAll(() => sqliteTenantStaging(database, log, changes, publish));
      return {
        ...staging,
        put: (block) => attempt(() => staging.put(block)),
        add: (change) => attempt(() => staging.add(change)),
        async publish(name, settings) {
          checkTenantName(name);
          await attemptAll(() => staging.publish(name, settings));
        },
      };
    },

    hasAnything: (name) => read(hasAnything(name)),

    onChange(listener) {
      const wrapper = (name: string): void => listener(name);
      listeners.add(wrapper);
      const stop = foreignChanges.listen((changed) => {
        for (const { tenant, kind } of changed) if (kind === "tenant") listener(tenant);
      });
      return () => {
        listeners.delete(wrapper);
        stop();
      };
    },
  };
}
