import { checkTenantName } from "../../lib/tenant-name.ts";
import { newAlias } from "../aliases.ts";
import type { Tenants } from "../store.ts";
import { readTenantSnapshot } from "../tenant-snapshot.ts";
import { findTenant, hasAnything, listHosts, listTenants, TenantChanges } from "../tenants.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import type { Feed } from "./feed.ts";
import { tryRemoveAliasData, removeAliasData, runSteps } from "./steps.ts";
import { postgresTenantStaging } from "./tenant-staging.ts";

const LONG = { isLong: true } as const;

/** The registry of tenants in Postgres. Its changes are recorded in the history of names, under the kind `tenant`. */
export function postgresTenants(database: PostgresDatabase, feed: Feed, onDeleted: (name: string) => void): Tenants {
  const { run } = database;
  const listeners = new Set<(name: string) => void>();

  const changes = new TenantChanges(postgresDialect, (changed) => feed.record(changed));

  const notifying = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const result = await feed.notifyIfUncertain([{ tenant: name, kind: "tenant", name: "" }], work);
    for (const listener of listeners) listener(name);
    return result;
  };

  return {
    find: (name) => runSteps(run, findTenant(name)),
    list: () => runSteps(run, listTenants()),
    hosts: () => runSteps(run, listHosts()),

    async create(name, settings) {
      checkTenantName(name);
      const alias = newAlias();
      const { result } = await notifying(name, () =>
        database.change(name, (run) => runSteps(run, changes.create(name, settings, alias)), LONG),
      );
      await tryRemoveAliasData(database, alias);
      return result;
    },

    async change(name, settings) {
      const change = (run: RunSql) => runSteps(run, changes.change(name, settings));
      return (await notifying(name, () => database.change(name, change))).result;
    },

    async delete(name, by) {
      const alias = newAlias();
      const { result } = await notifying(name, async () => {
        const removed = await database.change(name, (run) => runSteps(run, changes.remove(name, by, alias)), LONG);
        onDeleted(name);
        return removed;
      });
      return { names: result, contents: await removeAliasData(database, alias), isErased: false };
    },

    snapshot: async (name) => readTenantSnapshot(postgresDialect, await database.snapshot(), name),

    async stage() {
      const staging = await postgresTenantStaging(database, changes);
      return {
        ...staging,
        async publish(name, settings) {
          checkTenantName(name);
          await notifying(name, async () => {
            await staging.publish(name, settings);
            onDeleted(name);
          });
        },
      };
    },

    hasAnything: (name) => runSteps(run, hasAnything(name)),

    onChange(listener) {
      const wrapper = (name: string): void => listener(name);
      listeners.add(wrapper);
      const stop = feed.listen((changed) => {
        for (const { tenant, kind } of changed) if (kind === "tenant") listener(tenant);
      });
      return () => {
        listeners.delete(wrapper);
        stop();
      };
    },
  };
}
