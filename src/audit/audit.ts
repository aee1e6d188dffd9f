import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { AuditedCall } from "./call-block.ts";
import { entryOf, SERVICE, type AuditLinks } from "./audit-entry.ts";
import { RecordedRefusals, type Refusal } from "./refusals.ts";
import type { AuditFilter } from "./filter.ts";
import { searchLog, type FoundRecords } from "./search.ts";
import { AuditWriter, type WriterLimits } from "./writer.ts";

/** Records what a running service does, apart from changes, which the store records itself. */
export interface Audit {
  /** Called for each call that has ended; undefined if calls are not recorded. */
  readonly observer: ((call: AuditedCall) => void) | undefined;
  /** A browser keeps a token from now on. Rejects if that cannot be recorded. */
  signedIn(tenant: string, facts: { readonly principal: string; readonly from: string }): Promise<void>;
  /** A request was refused; many refusals are only counted. `tenant` is undefined if it does not exist. */
  refused(tenant: string | undefined, refusal: Refusal): void;
  /** Records of a tenant, newest first. Rejects with `invalid_params` for a cursor that leads nowhere. */
  search(tenant: string, query: TenantQuery): Promise<FoundRecords>;
  /** The calls that wait to be recorded, and those that found no room. */
  stats(): { readonly queued: number; readonly dropped: number };
  close(): Promise<void>;
}

export interface TenantQuery extends AuditFilter {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

export interface AuditOptions {
  readonly links: AuditLinks;
  /** True when calls are recorded. */
  readonly calls: boolean;
  readonly version: string;
  /** When a tenant was created: it sees no records of an earlier tenant of its name. */
  readonly madeAt: (tenant: string) => Promise<number>;
  readonly limits: WriterLimits & {
    /** The number of links that one search looks through. */
    readonly auditSearchLinks: number;
    readonly auditRefusalsPerMinute: number;
  };
  readonly log: Log;
}

/** Records the start of the service, and its end at `close`. */
export async function openAudit(options: AuditOptions): Promise<Audit> {
  const { links, calls, version, madeAt, limits, log } = options;
  const writer = new AuditWriter(links, limits, log);
  const refusals = new RecordedRefusals(limits.auditRefusalsPerMinute, (entry) => writer.note(entry));
  const lifetime = { process: process.pid, startedAt: new Date(performance.timeOrigin).toISOString() };
  writer.note(entryOf(SERVICE, "service", { action: "started", ...lifetime, version, calls }));
  await writer.write(true);

  return {
    observer: calls ? (call) => writer.call(call) : undefined,
    signedIn: (tenant, facts) =>
      links.append([entryOf(tenant, "login", { outcome: "ok", ...facts })], { patient: true }),
    refused: (tenant, refusal) => refusals.add(tenant ?? SERVICE, refusal),
    async search(tenant, query) {
      const since = Math.max(query.since ?? 0, await madeAt(tenant));
      const found = await searchLog(links, { ...query, tenant, since, linksMax: limits.auditSearchLinks });
      if (!found) throw new BerthError("invalid_params", "the cursor is none that an earlier answer gave");
      return { ...found, records: found.records.map(withoutPlaces) };
    },
    stats: () => ({ queued: writer.queued, dropped: writer.dropped }),
    async close() {
      refusals.close();
      writer.note(entryOf(SERVICE, "service", { action: "stopped", ...lifetime }));
      await writer.close();
    },
  };
}

/** Leaves out the number of links, which tells how busy all tenants are together. */
function withoutPlaces<T extends { readonly [fact: string]: unknown }>(record: T): T {
  if (!("through" in record)) return record;
  const { through: _place, ...rest } = record;
  return rest as unknown as T;
}
