import { parseActor, auditEntry } from "../audit/audit-entry.ts";
import { BerthError } from "../lib/errors.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { appendLinks } from "./audit.ts";
import type { Dialect, RecordChanges } from "./dialect.ts";
import { moveClaims, moveRows, purge } from "./leftover-claims.ts";
import { INSTALLATION_CHANGES, checkHost, readTenant, hostTaken, type TenantRow } from "./rules.ts";
import { rows, type Steps } from "./steps.ts";
import type { PublishSettings, Tenant, TenantSettings } from "./store.ts";

/** The registry of tenants. Its changes are recorded in the history of names, under the kind `tenant`. */

/** The result of a transaction, and the numbers of the changes that it has recorded. */
export interface Changed<T> {
  readonly result: T;
  readonly changes: readonly number[];
}

type Row = Omit<TenantRow, "hosts"> & { readonly hosts: string | null };

const TENANT = `SELECT name, created_at AS "createdAt", replaced_at AS "replacedAt", suspended_at AS "suspendedAt", limits, oauth,
  (SELECT string_agg(host, ' ' ORDER BY host) FROM tenant_host WHERE tenant = name) AS hosts FROM tenant`;

const readRow = (row: Row): Tenant => readTenant({ ...row, hosts: row.hosts?.split(" ") ?? [] });

export function* findTenant(name: string): Steps<Tenant | undefined> {
  const [row] = yield* rows<Row>(`${TENANT} WHERE name = $1`, [name]);
  return row && readRow(row);
}

export function* listTenants(): Steps<Tenant[]> {
  return (yield* rows<Row>(`${TENANT} ORDER BY name`)).map(readRow);
}

export function* listHosts(): Steps<Map<string, string>> {
  const hosts = yield* rows<{ host: string; tenant: string }>("SELECT host, tenant FROM tenant_host");
  return new Map(hosts.map(({ host, tenant }) => [host, tenant]));
}

/** True if a tenant has content, a history of names, or values. */
export function* hasAnything(name: string): Steps<boolean> {
  const found = yield* rows(
    `SELECT 1 WHERE EXISTS (SELECT 1 FROM tenant_content WHERE tenant = $1)
       OR EXISTS (SELECT 1 FROM server_data WHERE tenant = $1 AND kind <> 'calls' AND items > 0)
       OR EXISTS (SELECT 1 FROM name_change WHERE tenant = $1 AND kind NOT IN ${INSTALLATION_CHANGES})`,
    [name],
  );
  return found.length > 0;
}

/** The transactions that change tenants. Each locks the tenant. */
export class TenantChanges {
  readonly #dialect: Dialect;
  readonly #recordChanges: RecordChanges;

  constructor(dialect: Dialect, recordChanges: RecordChanges) {
    this.#dialect = dialect;
    this.#recordChanges = recordChanges;
  }

  *create(name: string, settings: TenantSettings, left: string): Steps<Changed<Tenant>> {
    if (yield* findTenant(name)) throw new BerthError("tenant_exists", `"${name}"`);
    // Data that the last calls of an earlier tenant with that name wrote.
    yield* purge(this.#dialect, name, left);
    yield* rows("INSERT INTO tenant (name, created_at, limits) VALUES ($1, berth_now(), '{}')", [name]);
    const changes = yield* this.#apply(name, "created", settings);
    return { result: (yield* findTenant(name))!, changes };
  }

  *change(name: string, settings: TenantSettings): Steps<Changed<Tenant>> {
    if (!(yield* findTenant(name))) throw new BerthError("tenant_not_found", `"${name}"`);
    const changes = yield* this.#apply(name, "changed", settings);
    return { result: (yield* findTenant(name))!, changes };
  }

  /** Moves data that takes long to remove to the alias `left`. Returns the number of names. */
  *remove(name: string, by: string, left: string): Steps<Changed<number>> {
    if (name === DEFAULT_TENANT) throw new BerthError("tenant_invalid", `"${name}" cannot be deleted`);
    if (!(yield* findTenant(name))) throw new BerthError("tenant_not_found", `"${name}"`);
    const names = yield* purge(this.#dialect, name, left);
    yield* rows("DELETE FROM tenant WHERE name = $1", [name]);
    if (this.#dialect.requestErasure !== undefined) yield* rows(this.#dialect.requestErasure);
    return { result: names, changes: yield* this.#recordChange(name, "deleted", by, { names }) };
  }

  /**
   * Gives a tenant everything that was assembled under the alias `coming`, and moves what an earlier tenant with that
   * name had to the alias `gone`. `moveChanges` moves its changes and names, and returns the number of changes.
   */
  *publish(
    name: string,
    { by, limits, replace }: PublishSettings,
    { coming, gone }: { readonly coming: string; readonly gone: string },
    moveChanges: () => Steps<number>,
  ): Steps<Changed<void>> {
    const replaced = (yield* rows("SELECT 1 FROM tenant WHERE name = $1", [name])).length > 0;
    if (!replaced) {
      yield* purge(this.#dialect, name, gone);
      yield* rows("INSERT INTO tenant (name, created_at, limits) VALUES ($1, berth_now(), $2)", [
        name,
        JSON.stringify(limits),
      ]);
    } else {
      if (!replace && (yield* hasAnything(name))) throw new BerthError("tenant_exists", `"${name}"`);
      yield* moveClaims(this.#dialect, name, gone);
      yield* moveRows("server_data", name, gone);
      yield* this.#dialect.removeTenantRows(name, `kind NOT IN ${INSTALLATION_CHANGES}`, true);
      // Other processes recognize by the new time that the tenant was replaced.
      yield* rows(
        `UPDATE tenant SET limits = $2,
           replaced_at = CASE WHEN replaced_at >= berth_now() THEN replaced_at + 1 ELSE berth_now() END
         WHERE name = $1`,
        [name, JSON.stringify(limits)],
      );
    }
    yield* moveClaims(this.#dialect, coming, name);
    yield* moveRows("server_data", coming, name);
    const changes = yield* moveChanges();
    if (this.#dialect.requestErasure !== undefined) yield* rows(this.#dialect.requestErasure);
    const facts = { replaced, changes, limits };
    return { result: undefined, changes: yield* this.#recordChange(name, "imported", by, facts) };
  }

  *#apply(name: string, action: "created" | "changed", settings: TenantSettings): Steps<number[]> {
    const { suspended, hosts, limits, oauth, by } = settings;
    if (suspended && name === DEFAULT_TENANT) {
      throw new BerthError("tenant_invalid", `"${name}" is always served; stop Berth to stop serving it`);
    }
    yield* rows(
      `UPDATE tenant SET
         suspended_at = CASE WHEN $2 THEN coalesce(suspended_at, berth_now()) WHEN NOT $2 THEN NULL ELSE suspended_at END,
         limits = coalesce($3, limits), oauth = CASE WHEN $4 THEN $5 ELSE oauth END
       WHERE name = $1`,
      [name, suspended, limits && JSON.stringify(limits), oauth !== undefined, oauth && JSON.stringify(oauth)],
    );
    if (hosts) yield* this.#setHosts(name, hosts);
    return yield* this.#recordChange(name, action, by, {
      ...(suspended !== undefined && { suspended }),
      ...(hosts && { hosts: [...hosts] }),
      ...(limits && { limits }),
      ...(oauth !== undefined && { oauth }),
    });
  }

  *#setHosts(name: string, hosts: readonly string[]): Steps<void> {
    const isOne = this.#dialect.oneOf("host", "$2");
    for (const host of hosts) checkHost(host);
    yield* rows(`DELETE FROM tenant_host WHERE tenant = $1 AND NOT (${isOne})`, [name, hosts]);
    yield* rows(
      `INSERT INTO tenant_host (host, tenant) SELECT DISTINCT value, $1 FROM ${this.#dialect.textTable("$2")}
       WHERE TRUE ORDER BY value ON CONFLICT DO NOTHING`,
      [name, hosts],
    );
    const conflicts = yield* rows<{ host: string; tenant: string }>(
      `SELECT host, tenant FROM tenant_host WHERE ${isOne} AND tenant <> $1`,
      [name, hosts],
    );
    const [first] = conflicts.sort((a, b) => hosts.indexOf(a.host) - hosts.indexOf(b.host));
    if (first) throw hostTaken(first.host, first.tenant);
  }

  /** Records the change in the audit log and in the history of names. */
  *#recordChange(name: string, action: string, by: string, facts: Parameters<typeof auditEntry>[2]): Steps<number[]> {
    yield* appendLinks(this.#dialect, [auditEntry(name, "tenant", { action, ...parseActor(by), ...facts })]);
    const [clock] = yield* rows<{ now: number }>("SELECT berth_now() AS now");
    return yield* this.#recordChanges([
      { tenant: name, kind: "tenant", name: "", cid: null, changedAt: clock!.now, by },
    ]);
  }
}
