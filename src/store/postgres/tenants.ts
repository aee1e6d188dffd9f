import { actorOf, entryOf } from "../../audit/audit-entry.ts";
import { BerthError } from "../../lib/errors.ts";
import { checkTenantName, DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { newAlias } from "../aliases.ts";
import { purge } from "../left-claims.ts";
import { checkHost, readTenant, takenHost, type TenantRow } from "../rules.ts";
import type { Tenant, Tenants, TenantSettings } from "../store.ts";
import { appendAudit } from "./audit.ts";
import type { PostgresDatabase, RunSql } from "./database.ts";
import { postgresDialect } from "./dialect.ts";
import type { Feed } from "./feed.ts";
import { removeLater, removeLeft, runSteps } from "./steps.ts";
import { postgresTenantSnapshot } from "./tenant-snapshot.ts";
import { hasAnything, postgresTenantStaging } from "./tenant-staging.ts";

const TENANT = `SELECT name, created_at AS "createdAt", replaced_at AS "replacedAt", suspended_at AS "suspendedAt", limits, oauth,
  ARRAY (SELECT host FROM tenant_host WHERE tenant = name ORDER BY host) AS hosts FROM tenant`;

const LONG = { isLong: true } as const;

/** The registry of tenants in Postgres. Its changes are logged among the changed names, under the kind `tenant`. */
export function postgresTenants(database: PostgresDatabase, feed: Feed, onDeleted: (name: string) => void): Tenants {
  const { run } = database;
  const listeners = new Set<(name: string) => void>();

  const find = async (run: RunSql, name: string): Promise<Tenant | undefined> => {
    const [row] = await run<TenantRow>(`${TENANT} WHERE name = $1`, [name]);
    return row && readTenant(row);
  };

  const told = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const result = await feed.telling([{ tenant: name, kind: "tenant", name: "" }], work);
    for (const listener of listeners) listener(name);
    return result;
  };

  return {
    find: (name) => find(run, name),

    list: async () => (await run<TenantRow>(`${TENANT} ORDER BY name`)).map(readTenant),

    async hosts() {
      const rows = await run<{ host: string; tenant: string }>("SELECT host, tenant FROM tenant_host");
      return new Map(rows.map(({ host, tenant }) => [host, tenant]));
    },

    async create(name, settings) {
      checkTenantName(name);
      const left = newAlias();
      const tenant = await told(name, () =>
        database.change(
          name,
          async (run) => {
            if (await find(run, name)) throw new BerthError("tenant_exists", `"${name}"`);
            // Left by the last calls of an earlier tenant of that name.
            await runSteps(run, purge(postgresDialect, name, left));
            await run("INSERT INTO tenant (name, created_at, limits) VALUES ($1, berth_now(), '{}')", [name]);
            await apply(run, feed, name, "created", settings);
            return (await find(run, name))!;
          },
          LONG,
        ),
      );
      await removeLater(database, left);
      return tenant;
    },

    change: (name, settings) =>
      told(name, () =>
        database.change(name, async (run) => {
          if (!(await find(run, name))) throw new BerthError("tenant_not_found", `"${name}"`);
          await apply(run, feed, name, "changed", settings);
          return (await find(run, name))!;
        }),
      ),

    async delete(name, by) {
      if (name === DEFAULT_TENANT) throw new BerthError("tenant_invalid", `"${name}" cannot be deleted`);
      const left = newAlias();
      const names = await told(name, async () => {
        const names = await database.change(
          name,
          async (run) => {
            if (!(await find(run, name))) throw new BerthError("tenant_not_found", `"${name}"`);
            const names = await runSteps(run, purge(postgresDialect, name, left));
            await run("DELETE FROM tenant WHERE name = $1", [name]);
            await appendAudit(run, entryOf(name, "tenant", { action: "deleted", ...actorOf(by), names }));
            await record(run, feed, name, by);
            return names;
          },
          LONG,
        );
        onDeleted(name);
        return names;
      });
      return { names, contents: await removeLeft(database, left), isErased: false };
    },

    snapshot: (name) => postgresTenantSnapshot(database, name),

    async stage() {
      const staging = await postgresTenantStaging(database, async (run, name, { by, limits, ...facts }) => {
        await appendAudit(run, entryOf(name, "tenant", { action: "imported", ...actorOf(by), ...facts, limits }));
        await record(run, feed, name, by);
      });
      return {
        ...staging,
        async publish(name, settings) {
          checkTenantName(name);
          await told(name, async () => {
            await staging.publish(name, settings);
            onDeleted(name);
          });
        },
      };
    },

    hasAnything: (name) => hasAnything(run, name),

    onChange(listener) {
      const own = (name: string): void => listener(name);
      listeners.add(own);
      const stop = feed.listen((changed) => {
        for (const { tenant, kind } of changed) if (kind === "tenant") listener(tenant);
      });
      return () => {
        listeners.delete(own);
        stop();
      };
    },
  };
}

async function apply(
  run: RunSql,
  feed: Feed,
  name: string,
  action: "created" | "changed",
  { suspended, hosts, limits, oauth, by }: TenantSettings,
): Promise<void> {
  if (suspended && name === DEFAULT_TENANT) {
    throw new BerthError("tenant_invalid", `"${name}" is always served; stop Berth to stop serving it`);
  }
  await run(
    `UPDATE tenant SET
       suspended_at = CASE WHEN $2 THEN coalesce(suspended_at, berth_now()) WHEN NOT $2 THEN NULL ELSE suspended_at END,
       limits = coalesce($3, limits), oauth = CASE WHEN $4 THEN $5 ELSE oauth END
     WHERE name = $1`,
    [name, suspended, limits && JSON.stringify(limits), oauth !== undefined, oauth && JSON.stringify(oauth)],
  );
  if (hosts) await setHosts(run, name, hosts);
  const facts = {
    ...(suspended !== undefined && { suspended }),
    ...(hosts && { hosts: [...hosts] }),
    ...(limits && { limits }),
    ...(oauth !== undefined && { oauth }),
  };
  await appendAudit(run, entryOf(name, "tenant", { action, ...actorOf(by), ...facts }));
  await record(run, feed, name, by);
}

async function setHosts(run: RunSql, name: string, hosts: readonly string[]): Promise<void> {
  for (const host of hosts) checkHost(host);
  await run("DELETE FROM tenant_host WHERE tenant = $1 AND host <> ALL ($2)", [name, hosts]);
  await run(
    `INSERT INTO tenant_host (host, tenant) SELECT DISTINCT host, $1 FROM unnest($2::text[]) AS host ORDER BY host
     ON CONFLICT DO NOTHING`,
    [name, hosts],
  );
  const [taken] = await run<{ host: string; tenant: string }>(
    "SELECT host, tenant FROM tenant_host WHERE host = ANY ($2) AND tenant <> $1 ORDER BY array_position($2, host)",
    [name, hosts],
  );
  if (taken) throw takenHost(taken.host, taken.tenant);
}

async function record(run: RunSql, feed: Feed, name: string, by: string): Promise<void> {
  const [clock] = await run<{ now: number }>("SELECT berth_now() AS now");
  await feed.record(run, [{ tenant: name, kind: "tenant", name: "", cid: null, changedAt: clock!.now, by }]);
}
