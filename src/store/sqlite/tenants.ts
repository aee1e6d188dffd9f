import type Database from "#better-sqlite3";
import { actorOf, entryOf } from "../../audit/audit-entry.ts";
import { BerthError } from "../../lib/errors.ts";
import { checkTenantName, DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { newAlias } from "../aliases.ts";
import { purge, removeClaims } from "../left-claims.ts";
import { checkHost, readTenant, takenHost, type Published, type TenantRow } from "../rules.ts";
import type { Tenant, Tenants, TenantSettings } from "../store.ts";
import { attempt, attemptAll } from "./attempt.ts";
import { appendAudit } from "./audit.ts";
import { storeNow } from "./clock.ts";
import { sqliteDialect } from "./dialect.ts";
import type { ForeignChanges } from "./foreign-changes.ts";
import { MUST_SCRUB } from "./scrub.ts";
import { runSteps, shortWrites } from "./steps.ts";
import { sqliteTenantSnapshot } from "./tenant-snapshot.ts";
import { hasAnything, removeLeftovers, sqliteTenantStaging } from "./tenant-staging.ts";
import type { WriteAheadLog } from "./write-ahead-log.ts";

/**
 * The registry of tenants in a SQLite file. Its changes are logged among the changed names, under the kind `tenant`.
 */
export function sqliteTenants(
  database: Database.Database,
  log: WriteAheadLog,
  foreignChanges: ForeignChanges,
  onDeleted: (name: string) => void,
  /** Overwrites what is left in the file; false where that has to be tried again. */
  erase: () => Promise<boolean>,
): Tenants {
  const statements = prepare(database);
  const listeners = new Set<(name: string) => void>();

  const read = (row: Row): Tenant => readTenant({ ...row, hosts: statements.hostsOf.all(row.name) });

  const setHosts = (name: string, hosts: readonly string[]): void => {
    statements.removeHosts.run(name);
    for (const host of new Set(hosts)) {
      checkHost(host);
      const owner = statements.ownerOf.get(host);
      if (owner !== undefined) throw takenHost(host, owner);
      statements.addHost.run(host, name);
    }
  };

  const recordChange = (name: string, at: number, by: string): number =>
    Number(statements.recordChange.run(name, at, by).lastInsertRowid);

  const apply = (name: string, action: "created" | "changed", settings: TenantSettings): number => {
    const { suspended, hosts, limits, oauth, by } = settings;
    if (suspended && name === DEFAULT_TENANT) {
      throw new BerthError("tenant_invalid", `"${name}" is always served; stop Berth to stop serving it`);
    }
    const now = storeNow();
    if (suspended === true) statements.suspend.run(now, name);
    if (suspended === false) statements.resume.run(name);
    if (limits) statements.setLimits.run(JSON.stringify(limits), name);
    if (oauth !== undefined) statements.setOauth.run(oauth && JSON.stringify(oauth), name);
    if (hosts) setHosts(name, hosts);
    const facts = {
      ...(suspended !== undefined && { suspended }),
      ...(hosts && { hosts: [...hosts] }),
      ...(limits && { limits }),
      ...(oauth !== undefined && { oauth }),
    };
    appendAudit(database, entryOf(name, "tenant", { action, ...actorOf(by), ...facts }));
    return recordChange(name, now, by);
  };

  const create = database.transaction((name: string, settings: TenantSettings, left: string) => {
    if (statements.tenant.get(name)) throw new BerthError("tenant_exists", `"${name}"`);
    // Left by the last calls of an earlier tenant of that name.
    runSteps(database, purge(sqliteDialect, name, left));
    statements.add.run(name, storeNow());
    return apply(name, "created", settings);
  });

  const change = database.transaction((name: string, settings: TenantSettings) => {
    if (!statements.tenant.get(name)) throw new BerthError("tenant_not_found", `"${name}"`);
    return apply(name, "changed", settings);
  });

  const remove = database.transaction((name: string, by: string, left: string) => {
    if (name === DEFAULT_TENANT) throw new BerthError("tenant_invalid", `"${name}" cannot be deleted`);
    if (!statements.tenant.get(name)) throw new BerthError("tenant_not_found", `"${name}"`);
    const names = runSteps(database, purge(sqliteDialect, name, left));
    statements.remove.run(name);
    statements.mustScrub.run();
    appendAudit(database, entryOf(name, "tenant", { action: "deleted", ...actorOf(by), names }));
    return { names, changeId: recordChange(name, storeNow(), by) };
  });

  const removeLeft = (alias: string): Promise<number> => removeClaims(shortWrites(database, log), sqliteDialect, alias);

  const tell = (name: string, changeId: number): void => {
    foreignChanges.add([changeId]);
    for (const listener of listeners) listener(name);
  };

  const commit = (name: string, changeId: number): Tenant => {
    tell(name, changeId);
    return read(statements.tenant.get(name)!);
  };

  return {
    async find(name) {
      const row = statements.tenant.get(name);
      return row && read(row);
    },
    list: async () => statements.tenants.all().map(read),
    hosts: async () => new Map(statements.hosts.all().map(({ host, tenant }) => [host, tenant])),
    async create(name, settings) {
      checkTenantName(name);
      const left = newAlias();
      const tenant = await log.keep(() => commit(name, create.immediate(name, settings, left)));
      await removeLeft(left);
      return tenant;
    },
    change: (name, settings) => log.keep(() => commit(name, change.immediate(name, settings))),
    delete: (name, by) =>
      attemptAll(async () => {
        await removeLeftovers(database, shortWrites(database, log));
        const left = newAlias();
        const names = await log.keep(() => {
          const removed = remove.immediate(name, by, left);
          onDeleted(name);
          tell(name, removed.changeId);
          return removed.names;
        });
        return { names, contents: await removeLeft(left), isErased: await erase() };
      }),

    async snapshot(name) {
      return attempt(() => sqliteTenantSnapshot(database.name, name));
    },

    async stage() {
      const record = (name: string, { by, limits, ...facts }: Published): number => {
        statements.mustScrub.run();
        appendAudit(database, entryOf(name, "tenant", { action: "imported", ...actorOf(by), ...facts, limits }));
        return recordChange(name, storeNow(), by);
      };
      const published = (name: string, changeId: number): void => {
        onDeleted(name);
        tell(name, changeId);
      };
      const staging = await attemptAll(() => sqliteTenantStaging(database, log, { record, published }));
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

    hasAnything: async (name) => hasAnything(database, name),

    onChange(listener) {
      const own = (name: string): void => listener(name);
      listeners.add(own);
      const stop = foreignChanges.listen((changed) => {
        for (const { tenant, kind } of changed) if (kind === "tenant") listener(tenant);
      });
      return () => {
        listeners.delete(own);
        stop();
      };
    },
  };
}

type Row = Omit<TenantRow, "hosts">;

const COLUMNS = "name, created_at AS createdAt, replaced_at AS replacedAt, suspended_at AS suspendedAt, limits, oauth";

function prepare(database: Database.Database) {
  return {
    tenant: database.prepare<[string], Row>(`SELECT ${COLUMNS} FROM tenant WHERE name = ?`),
    tenants: database.prepare<[], Row>(`SELECT ${COLUMNS} FROM tenant ORDER BY name`),
    add: database.prepare<[string, number]>("INSERT INTO tenant (name, created_at, limits) VALUES (?, ?, '{}')"),
    suspend: database.prepare<[number, string]>(
      "UPDATE tenant SET suspended_at = coalesce(suspended_at, ?) WHERE name = ?",
    ),
    resume: database.prepare<[string]>("UPDATE tenant SET suspended_at = NULL WHERE name = ?"),
    setLimits: database.prepare<[string, string]>("UPDATE tenant SET limits = ? WHERE name = ?"),
    setOauth: database.prepare<[string | null, string]>("UPDATE tenant SET oauth = ? WHERE name = ?"),
    hosts: database.prepare<[], { host: string; tenant: string }>("SELECT host, tenant FROM tenant_host"),
    hostsOf: database.prepare<[string], string>("SELECT host FROM tenant_host WHERE tenant = ? ORDER BY host").pluck(),
    ownerOf: database.prepare<[string], string>("SELECT tenant FROM tenant_host WHERE host = ?").pluck(),
    addHost: database.prepare<[string, string]>("INSERT INTO tenant_host (host, tenant) VALUES (?, ?)"),
    removeHosts: database.prepare<[string]>("DELETE FROM tenant_host WHERE tenant = ?"),
    remove: database.prepare<[string]>("DELETE FROM tenant WHERE name = ?"),
    mustScrub: database.prepare<[]>(`UPDATE scrubbed SET through = ${MUST_SCRUB}`),
    recordChange: database.prepare<[string, number, string]>(
      "INSERT INTO name_change (tenant, kind, name, cid, changed_at, changed_by) VALUES (?, 'tenant', '', NULL, ?, ?)",
    ),
  };
}
