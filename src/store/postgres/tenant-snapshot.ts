import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { CHANGES_OF_PLACE, verifiedInTurns } from "../rules.ts";
import type { KeptState, NamedChange, TenantSnapshot } from "../store.ts";
import type { PostgresDatabase, Snapshot } from "./database.ts";

/** Rows in memory at once, of contents, of changes, and of state, whose values may be large. */
const CONTENTS_AT_ONCE = 500;
const CHANGES_AT_ONCE = 500;
const STATE_AT_ONCE = 50;
/** Bytes of contents that are read at once, where there is more than one content. */
const BYTES_AT_ONCE = 1024 * 1024;

/** Reads a tenant in one transaction on its own connection. */
export async function postgresTenantSnapshot(database: PostgresDatabase, tenant: string): Promise<TenantSnapshot> {
  const snapshot = await database.snapshot();
  try {
    return await read(snapshot, tenant);
  } catch (error) {
    await snapshot.close();
    throw error;
  }
}

async function read(snapshot: Snapshot, tenant: string): Promise<TenantSnapshot> {
  const ofNames = `FROM name_change WHERE tenant = $1 AND kind NOT IN ${CHANGES_OF_PLACE}`;
  const ofState = `FROM state_server AS place JOIN state ON server_id = place.id
    WHERE tenant = $1 AND (expires_at IS NULL OR expires_at > $2)`;
  const [clock] = await snapshot.run<{ now: number }>("SELECT berth_now() AS now");
  const [found] = await snapshot.run<{ limits: string; changedAt: number | null }>(
    `SELECT limits, (SELECT max(changed_at) ${ofNames}) AS "changedAt" FROM tenant WHERE name = $1`,
    [tenant],
  );
  if (!found) throw new BerthError("tenant_not_found", `"${tenant}"`);

  return {
    limits: JSON.parse(found.limits) as JsonObject,
    changedAt: found.changedAt,
    async *contents() {
      const claims = snapshot.parts<Claim>(
        `SELECT id, cid, octet_length(bytes) AS length
         FROM tenant_content JOIN content ON id = content_id WHERE tenant = $1 ORDER BY cid`,
        [tenant],
        CONTENTS_AT_ONCE,
      );
      for await (const part of claims) {
        for (const few of fewAtOnce(part)) {
          const rows = await snapshot.run<{ cid: Cid; bytes: Buffer }>(
            "SELECT cid, bytes FROM content WHERE id = ANY ($1) ORDER BY cid",
            [few.map(({ id }) => id)],
          );
          for (const { cid, bytes } of rows) yield { cid, bytes: await verifiedInTurns(cid, bytes) };
        }
      }
    },
    async *changes() {
      const changes = snapshot.parts<NamedChange>(
        `SELECT kind, name, cid, changed_at AS "changedAt", changed_by AS "by" ${ofNames} ORDER BY kind, name, id`,
        [tenant],
        CHANGES_AT_ONCE,
      );
      for await (const part of changes) yield* part;
    },
    async secrets() {
      const names = await snapshot.run<{ name: string }>("SELECT name FROM secret WHERE tenant = $1 ORDER BY name", [
        tenant,
      ]);
      return names.map(({ name }) => name);
    },
    async *state() {
      const kept = snapshot.parts<KeptState>(
        `SELECT server, key, value, is_json AS "isJson", state.version, changed_at AS "changedAt",
           expires_at AS "expiresAt" ${ofState} ORDER BY server, key`,
        [tenant, clock!.now],
        STATE_AT_ONCE,
      );
      for await (const part of kept) yield* part;
    },
    close: () => snapshot.close(),
  };
}

interface Claim {
  readonly id: number;
  readonly cid: Cid;
  readonly length: number;
}

/** Parts of a list that can be read at once. */
function* fewAtOnce(claims: readonly Claim[]): Generator<Claim[]> {
  let few: Claim[] = [];
  let bytes = 0;
  for (const claim of claims) {
    if (few.length > 0 && bytes + claim.length > BYTES_AT_ONCE) {
      yield few;
      [few, bytes] = [[], 0];
    }
    few.push(claim);
    bytes += claim.length;
  }
  if (few.length > 0) yield few;
}
