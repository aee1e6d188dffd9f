import type { Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Dialect } from "./dialect.ts";
import { toIds } from "./leftover-claims.ts";
import { INSTALLATION_CHANGES, verifyLongBytes } from "./rules.ts";
import type { NamedChange, ServerValue, TenantSnapshot } from "./store.ts";

/** The maximum number of rows in memory at once. Values may be large. */
const CONTENTS_AT_ONCE = 500;
const CHANGES_AT_ONCE = 500;
const VALUES_AT_ONCE = 50;
/** The maximum size of contents read at once, except for a single larger one. */
const BYTES_AT_ONCE = 1024 * 1024;

/** A read-only transaction on a connection of its own. The first read determines its moment. */
export interface ReadTransaction {
  run<Row extends object>(sql: string, values: readonly unknown[]): Promise<Row[]>;
  /** The same with at most `atOnce` rows in memory at a time. */
  parts<Row extends object>(sql: string, values: readonly unknown[], atOnce: number): AsyncIterable<Row[]>;
  close(): Promise<void>;
}

/** Reads a tenant. Closes the transaction on failure. */
export async function readTenantSnapshot(
  dialect: Dialect,
  transaction: ReadTransaction,
  tenant: string,
): Promise<TenantSnapshot> {
  const nameChanges = `FROM name_change WHERE tenant = $1 AND kind NOT IN ${INSTALLATION_CHANGES}`;
  try {
    const [tenantRow] = await transaction.run<{ limits: string; changedAt: number | null; now: number }>(
      `SELECT limits, (SELECT max(changed_at) ${nameChanges}) AS "changedAt", berth_now() AS now FROM tenant WHERE name = $1`,
      [tenant],
    );
    if (!tenantRow) throw new BerthError("tenant_not_found", `"${tenant}"`);
    return {
      limits: JSON.parse(tenantRow.limits) as JsonObject,
      changedAt: tenantRow.changedAt,
      async *contents() {
        const claims = transaction.parts<Claim>(
          `SELECT id, cid, octet_length(bytes) AS length
           FROM tenant_content JOIN content ON id = content_id WHERE tenant = $1 ORDER BY cid`,
          [tenant],
          CONTENTS_AT_ONCE,
        );
        for await (const part of claims) {
          for (const batch of batchesBySize(part)) {
            const contents = await transaction.run<{ cid: Cid; bytes: Buffer }>(
              `SELECT cid, bytes FROM content WHERE ${dialect.oneOf("id", "$1")} ORDER BY cid`,
              [toIds(batch)],
            );
            for (const { cid, bytes } of contents) yield { cid, bytes: await verifyLongBytes(cid, bytes) };
          }
        }
      },
      async *changes() {
        const changes = transaction.parts<NamedChange>(
          `SELECT kind, name, cid, changed_at AS "changedAt", changed_by AS "by" ${nameChanges} ORDER BY kind, name, id`,
          [tenant],
          CHANGES_AT_ONCE,
        );
        for await (const part of changes) yield* part;
      },
      async secrets() {
        const sql = "SELECT name FROM secret WHERE tenant = $1 ORDER BY name";
        return (await transaction.run<{ name: string }>(sql, [tenant])).map(({ name }) => name);
      },
      async *values() {
        const values = transaction.parts<Omit<ServerValue, "isJson"> & { readonly isJson: boolean | number }>(
          `SELECT kind, server, key, value, is_json AS "isJson", server_value.version, changed_at AS "changedAt",
             expires_at AS "expiresAt" FROM server_data AS owner JOIN server_value ON server_id = owner.id
           WHERE tenant = $1 AND (expires_at IS NULL OR expires_at > $2) ORDER BY kind, server, key`,
          [tenant, tenantRow.now],
          VALUES_AT_ONCE,
        );
        for await (const part of values) for (const row of part) yield { ...row, isJson: Boolean(row.isJson) };
      },
      close: () => transaction.close(),
    };
  } catch (error) {
    await transaction.close();
    throw error;
  }
}

interface Claim {
  readonly id: number;
  readonly cid: Cid;
  readonly length: number;
}

/** Splits a list into parts to read at once. */
function* batchesBySize(claims: readonly Claim[]): Generator<Claim[]> {
  let batch: Claim[] = [];
  let bytes = 0;
  for (const claim of claims) {
    if (batch.length > 0 && bytes + claim.length > BYTES_AT_ONCE) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(claim);
    bytes += claim.length;
  }
  if (batch.length > 0) yield batch;
}
