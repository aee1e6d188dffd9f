import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import { fixed } from "../limits/fixed.ts";
import {
  auditEntry,
  SERVICE,
  type AuditLinks,
  type AuditEntry,
  type AuditKind,
  type AuditRetentionLimits,
} from "./audit-entry.ts";
import type { AuditedCall } from "./call-block.ts";
import type { AuditFilter } from "./filter.ts";
import { searchLog, type FoundRecords } from "./search.ts";
import { AuditWriter } from "./writer.ts";

const bounds = fixed({
  /** Rejected attempts per tenant that are recorded individually; further ones are only counted. */
  auditRefusalsPerMinute: 20,
  /** The same for consents that were requested, declined or refused. Granted ones are always recorded. */
  auditConsentsPerMinute: 120,
});
/** The number of links that one page of a search reads. */
const SEARCH_LINKS = 1_000;

/** Records events of a running service. Changes are recorded by the store itself. */
export interface Audit {
  /** Takes each finished call; undefined if calls are not recorded. */
  readonly observer: ((call: AuditedCall) => void) | undefined;
  /** Records that a browser signed in with a token. Rejects if that fails. */
  signedIn(tenant: string, facts: { readonly principal: string; readonly from: string }): Promise<void>;
  /** Records a rejected request; many of them are only counted. `tenant` is undefined if it does not exist. */
  refused(tenant: string | undefined, refusal: Refusal): void;
  /**
   * Records what happened to a user's consent. Rejects if a granted one cannot be recorded; many others are counted.
   */
  consent(tenant: string, facts: JsonObject): Promise<void>;
  /** Returns records of a tenant, newest first. Rejects with `invalid_params` for an invalid cursor. */
  search(tenant: string, query: TenantQuery): Promise<FoundRecords>;
  /** The number of calls that wait to be recorded, and of those that exceeded the queue. */
  stats(): { readonly queued: number; readonly dropped: number };
  close(): Promise<void>;
}

export interface TenantQuery extends AuditFilter {
  readonly cursor?: string | undefined;
  readonly limit: number;
}

interface AuditOptions {
  readonly links: AuditLinks;
  readonly calls: boolean;
  readonly version: string;
  /** When a tenant was created. It does not see records of an earlier tenant with the same name. */
  readonly madeAt: (tenant: string) => Promise<number>;
  /** True if this is the process of the cluster that enforces retention. By default, it is. */
  readonly mayRetain?: () => Promise<boolean>;
  readonly limits: AuditRetentionLimits;
  readonly log: Log;
}

/** Records the start of the service, and its end on `close`. */
export async function openAudit(options: AuditOptions): Promise<Audit> {
  const { links, calls, version, madeAt, mayRetain, limits, log } = options;
  const writer = new AuditWriter(links, limits, log, mayRetain);
  const appendEntry = (entry: AuditEntry): void => writer.note(entry);
  const refusals = new RateLimitedRecords(bounds.auditRefusalsPerMinute, appendEntry, "login", { outcome: "refused" });
  const consents = new RateLimitedRecords(bounds.auditConsentsPerMinute, appendEntry, "consent", {});
  const lifetime = { process: process.pid, startedAt: new Date(performance.timeOrigin).toISOString() };
  writer.note(auditEntry(SERVICE, "service", { action: "started", ...lifetime, version, calls }));
  await writer.write(true);

  return {
    observer: calls ? (call) => writer.call(call) : undefined,
    signedIn: (tenant, facts) =>
      links.append([auditEntry(tenant, "login", { outcome: "ok", ...facts })], { patient: true }),
    refused: (tenant, refusal) => refusals.add(tenant ?? SERVICE, refusalFacts(refusal)),
    async consent(tenant, facts) {
      if (facts["outcome"] !== "granted") return consents.add(tenant, facts);
      await links.append([auditEntry(tenant, "consent", facts)], { patient: true });
    },
    async search(tenant, query) {
      const since = Math.max(query.since ?? 0, await madeAt(tenant));
      const page = await searchLog(links, { ...query, tenant, since, linksMax: SEARCH_LINKS });
      if (!page) throw new BerthError("invalid_params", "the cursor is invalid");
      return { ...page, records: page.records.map(withoutLinkCount) };
    },
    stats: () => ({ queued: writer.queued, dropped: writer.dropped }),
    async close() {
      refusals.close();
      consents.close();
      writer.note(auditEntry(SERVICE, "service", { action: "stopped", ...lifetime }));
      await writer.close();
    },
  };
}

/** Omits the number of links, which would reveal how busy all tenants are together. */
function withoutLinkCount<T extends { readonly [fact: string]: unknown }>(record: T): T {
  if (!("through" in record)) return record;
  const { through: _linkCount, ...rest } = record;
  return rest as unknown as T;
}

/** A rejected request: its principal, if known, and the reason, but nothing of its token. */
interface Refusal {
  readonly code: string;
  readonly reason: string;
  /** The principal of a token that is valid for something else. */
  readonly principal?: string | undefined;
  /** Address of the connecting host, which may be a proxy. */
  readonly from: string;
  readonly path: string;
  readonly requestId: string;
}

const WINDOW_MS = 60_000;
const TEXT_CHARACTERS_MAX = 200;

interface RecordWindow {
  recorded: number;
  more: number;
}

function refusalFacts({ code, reason, principal, from, path, requestId }: Refusal): JsonObject {
  return {
    ...(principal !== undefined && { principal }),
    code,
    reason: truncate(reason),
    from,
    path: truncate(path),
    requestId,
  };
}

/** Records that callers can cause without limit. Per tenant and minute, some are recorded and the rest counted. */
class RateLimitedRecords {
  readonly #perMinute: number;
  readonly #appendEntry: (entry: AuditEntry) => void;
  readonly #kind: AuditKind;
  readonly #common: JsonObject;
  readonly #windows = new Map<string, RecordWindow>();
  #timer: NodeJS.Timeout | undefined;

  constructor(perMinute: number, appendEntry: (entry: AuditEntry) => void, kind: AuditKind, common: JsonObject) {
    this.#perMinute = perMinute;
    this.#appendEntry = appendEntry;
    this.#kind = kind;
    this.#common = common;
  }

  add(tenant: string, facts: JsonObject): void {
    this.#timer ??= setTimeout(() => this.#startWindow(), WINDOW_MS).unref();
    let window = this.#windows.get(tenant);
    if (!window) this.#windows.set(tenant, (window = { recorded: 0, more: 0 }));
    if (window.recorded >= this.#perMinute) {
      window.more += 1;
      return;
    }
    window.recorded += 1;
    this.#appendEntry(auditEntry(tenant, this.#kind, { ...this.#common, ...facts }));
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#startWindow();
  }

  #startWindow(): void {
    this.#timer = undefined;
    for (const [tenant, { more }] of this.#windows) {
      if (more > 0) this.#appendEntry(auditEntry(tenant, this.#kind, { ...this.#common, more }));
    }
    this.#windows.clear();
  }
}

function truncate(text: string): string {
  return text.slice(0, TEXT_CHARACTERS_MAX);
}
