import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { AuditedCall } from "./call-block.ts";
import { entryOf, SERVICE, type AuditLinks } from "./entry.ts";
import { Refusals, type Refusal } from "./refusals.ts";
import type { AuditFilter } from "./filter.ts";
import { searchLog, type FoundRecords } from "./search.ts";
import { AuditWriter, type WriterLimits } from "./writer.ts";

/** What a service that runs has recorded besides its changes, which the store records by itself. */
export interface Audit {
  /** Hears of each call that has ended; undefined where calls are not recorded. */
  readonly observer: ((call: AuditedCall) => void) | undefined;
  /** Somebody keeps a token in a browser. Rejects where that cannot be recorded. */
  signedIn(tenant: string, facts: { readonly principal: string; readonly from: string }): Promise<void>;
  /** Somebody was refused; of many, only how many they were. Without a tenant, where there is none such. */
  refused(tenant: string | undefined, refusal: Refusal): void;
  /** Records of a tenant, the newest first. Rejects with `invalid_params` for a cursor that leads nowhere. */
  search(tenant: string, query: TenantQuery): Promise<FoundRecords>;
  /** Calls that wait to be recorded, and that there was no room for. */
  stats(): { readonly queued: number; readonly dropped: number };
  close(): Promise<void>;
}

export interface TenantQuery extends AuditFilter {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

export interface AuditOptions {
  readonly links: AuditLinks;
  /** Whether calls are recorded. */
  readonly calls: boolean;
  readonly version: string;
  /** When a tenant was made: it sees nothing of one of the same name that was there before. */
  readonly madeAt: (tenant: string) => Promise<number>;
  readonly limits: WriterLimits & {
    /** Links that one search looks through. */
    readonly auditSearchLinks: number;
    readonly auditRefusalsPerMinute: number;
  };
  readonly log: Log;
}

/** Records that the service begins, and at `close` that it ends. */
export async function openAudit(options: AuditOptions): Promise<Audit> {
  const { links, calls, version, madeAt, limits, log } = options;
  const writer = new AuditWriter(links, limits, log);
  const refusals = new Refusals(limits.auditRefusalsPerMinute, (entry) => writer.note(entry));
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

/** How many links there are is how busy all tenants together are. */
function withoutPlaces<T extends { readonly [fact: string]: unknown }>(record: T): T {
  if (!("through" in record)) return record;
  const { through: _place, ...rest } = record;
  return rest as unknown as T;
}
