import type Database from "better-sqlite3";
import { BerthError } from "../errors.ts";
import type { JsonObject } from "../json.ts";
import { checkTenantName, DEFAULT_TENANT } from "../tenant-name.ts";
import type { ForeignChanges } from "./foreign-changes.ts";
import type { Tenant, Tenants, TenantSettings } from "./tenants.ts";

/** The registry of tenants in a SQLite file. Its changes stand in the log of changed names, under the kind `tenant`. */
export function sqliteTenants(database: Database.Database, foreignChanges: ForeignChanges): Tenants {
  const statements = prepare(database);
  const listeners = new Set<(name: string) => void>();

  const read = (row: TenantRow): Tenant => ({
    name: row.name,
    createdAt: row.createdAt,
    suspendedAt: row.suspendedAt,
    hosts: statements.hostsOf.all(row.name),
    limits: JSON.parse(row.limits) as JsonObject,
  });

  const setHosts = (name: string, hosts: readonly string[]): void => {
    statements.removeHosts.run(name);
    for (const host of new Set(hosts)) {
      checkHost(host);
      const owner = statements.ownerOf.get(host);
      if (owner !== undefined) throw new BerthError("tenant_invalid", `the host ${host} stands for "${owner}" already`);
      statements.addHost.run(host, name);
    }
  };

  const apply = (name: string, { suspended, hosts, limits, by }: TenantSettings): number => {
    if (suspended && name === DEFAULT_TENANT) {
      throw new BerthError("tenant_invalid", `"${name}" is always served; stop Berth to stop serving it`);
    }
    const now = Date.now();
    if (suspended === true) statements.suspend.run(now, name);
    if (suspended === false) statements.resume.run(name);
    if (limits) statements.setLimits.run(JSON.stringify(limits), name);
    if (hosts) setHosts(name, hosts);
    return Number(statements.recordChange.run(name, now, by).lastInsertRowid);
  };

  const create = database.transaction((name: string, settings: TenantSettings) => {
    if (statements.tenant.get(name)) throw new BerthError("tenant_exists", `"${name}"`);
    statements.add.run(name, Date.now());
    return apply(name, settings);
  });

  const change = database.transaction((name: string, settings: TenantSettings) => {
    if (!statements.tenant.get(name)) throw new BerthError("tenant_not_found", `"${name}"`);
    return apply(name, settings);
  });

  const commit = (name: string, changeId: number): Tenant => {
    foreignChanges.add([changeId]);
    for (const listener of listeners) listener(name);
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
      return commit(name, create.immediate(name, settings));
    },
    change: async (name, settings) => commit(name, change.immediate(name, settings)),

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

/** A name as it stands in a Host header, or an address there; the port is no part of it. */
const HOST = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/;

function checkHost(host: string): void {
  if (HOST.test(host)) return;
  throw new BerthError("tenant_invalid", `"${host.slice(0, 260)}" is no host name: lower case, and without a port`);
}

interface TenantRow {
  readonly name: string;
  readonly createdAt: number;
  readonly suspendedAt: number | null;
  readonly limits: string;
}

const COLUMNS = "name, created_at AS createdAt, suspended_at AS suspendedAt, limits";

function prepare(database: Database.Database) {
  return {
    tenant: database.prepare<[string], TenantRow>(`SELECT ${COLUMNS} FROM tenant WHERE name = ?`),
    tenants: database.prepare<[], TenantRow>(`SELECT ${COLUMNS} FROM tenant ORDER BY name`),
    add: database.prepare<[string, number]>("INSERT INTO tenant (name, created_at, limits) VALUES (?, ?, '{}')"),
    suspend: database.prepare<[number, string]>(
      "UPDATE tenant SET suspended_at = coalesce(suspended_at, ?) WHERE name = ?",
    ),
    resume: database.prepare<[string]>("UPDATE tenant SET suspended_at = NULL WHERE name = ?"),
    setLimits: database.prepare<[string, string]>("UPDATE tenant SET limits = ? WHERE name = ?"),
    hosts: database.prepare<[], { host: string; tenant: string }>("SELECT host, tenant FROM tenant_host"),
    hostsOf: database.prepare<[string], string>("SELECT host FROM tenant_host WHERE tenant = ? ORDER BY host").pluck(),
    ownerOf: database.prepare<[string], string>("SELECT tenant FROM tenant_host WHERE host = ?").pluck(),
    addHost: database.prepare<[string, string]>("INSERT INTO tenant_host (host, tenant) VALUES (?, ?)"),
    removeHosts: database.prepare<[string]>("DELETE FROM tenant_host WHERE tenant = ?"),
    recordChange: database.prepare<[string, number, string]>(
      "INSERT INTO name_change (tenant, kind, name, cid, changed_at, changed_by) VALUES (?, 'tenant', '', NULL, ?, ?)",
    ),
  };
}
