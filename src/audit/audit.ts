import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import { fixed } from "../limits/fixed.ts";
import { entryOf, SERVICE, type AuditLinks, type AuditEntry, type AuditKind, type Keep } from "./audit-entry.ts";
import type { AuditedCall } from "./call-block.ts";
import type { AuditFilter } from "./filter.ts";
import { searchLog, type FoundRecords } from "./search.ts";
import { AuditWriter } from "./writer.ts";

const bounds = fixed({
  /** Refused attempts on one tenant that are recorded individually; further ones are only counted. */
  auditRefusalsPerMinute: 20,
  /** The same for consents that were requested, declined or refused; each granted one is recorded. */
  auditConsentsPerMinute: 120,
});
/** Links of the audit log that one page of a search examines. */
const SEARCH_LINKS = 1_000;

/** Records what a running service does, apart from changes, which the store records itself. */
export interface Audit {
  /** Takes each finished call; undefined if calls are not recorded. */
  readonly observer: ((call: AuditedCall) => void) | undefined;
  /** A browser keeps a token from now on. Rejects if that cannot be recorded. */
  signedIn(tenant: string, facts: { readonly principal: string; readonly from: string }): Promise<void>;
  /** A request was refused; many refusals are only counted. `tenant` is undefined if it does not exist. */
  refused(tenant: string | undefined, refusal: Refusal): void;
  /**
   * Something happened to a user's consent to a call. Rejects if a granted one cannot be recorded; of everything else, many
   * are only counted.
   */
  consent(tenant: string, facts: JsonObject): Promise<void>;
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

interface AuditOptions {
  readonly links: AuditLinks;
  /** True when calls are recorded. */
  readonly calls: boolean;
  readonly version: string;
  /** When a tenant was created: it sees no records of an earlier tenant of its name. */
  readonly madeAt: (tenant: string) => Promise<number>;
  /** Tells if this process is the one of several that removes what is too old or too much. Default: it is. */
  readonly mayRetain?: () => Promise<boolean>;
  readonly limits: Keep;
  readonly log: Log;
}

/** Records the start of the service, and its end at `close`. */
export async function openAudit(options: AuditOptions): Promise<Audit> {
  const { links, calls, version, madeAt, mayRetain, limits, log } = options;
  const writer = new AuditWriter(links, limits, log, mayRetain);
  const note = (entry: AuditEntry): void => writer.note(entry);
  const refusals = new SomeRecords(bounds.auditRefusalsPerMinute, note, "login", { outcome: "refused" });
  const consents = new SomeRecords(bounds.auditConsentsPerMinute, note, "consent", {});
  const lifetime = { process: process.pid, startedAt: new Date(performance.timeOrigin).toISOString() };
  writer.note(entryOf(SERVICE, "service", { action: "started", ...lifetime, version, calls }));
  await writer.write(true);

  return {
    observer: calls ? (call) => writer.call(call) : undefined,
    signedIn: (tenant, facts) =>
      links.append([entryOf(tenant, "login", { outcome: "ok", ...facts })], { patient: true }),
    refused: (tenant, refusal) => refusals.add(tenant ?? SERVICE, factsOf(refusal)),
    async consent(tenant, facts) {
      if (facts["outcome"] !== "granted") return consents.add(tenant, facts);
      await links.append([entryOf(tenant, "consent", facts)], { patient: true });
    },
    async search(tenant, query) {
      const since = Math.max(query.since ?? 0, await madeAt(tenant));
      const found = await searchLog(links, { ...query, tenant, since, linksMax: SEARCH_LINKS });
      if (!found) throw new BerthError("invalid_params", "the cursor is not from an earlier answer");
      return { ...found, records: found.records.map(withoutPlaces) };
    },
    stats: () => ({ queued: writer.queued, dropped: writer.dropped }),
    async close() {
      refusals.close();
      consents.close();
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

/** A refused request: its principal, if known, and the reason. Nothing of the token that it showed. */
interface Refusal {
  /** From the table of errors. */
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

interface Window {
  recorded: number;
  more: number;
}

function factsOf({ code, reason, principal, from, path, requestId }: Refusal): JsonObject {
  return { ...(principal !== undefined && { principal }), code, reason: cut(reason), from, path: cut(path), requestId };
}

/** Records that others can cause without limit: for each tenant some are recorded in a minute, and the rest counted. */
class SomeRecords {
  readonly #perMinute: number;
  readonly #note: (entry: AuditEntry) => void;
  readonly #kind: AuditKind;
  /** The facts that all of them have. */
  readonly #common: JsonObject;
  readonly #windows = new Map<string, Window>();
  #timer: NodeJS.Timeout | undefined;

  constructor(perMinute: number, note: (entry: AuditEntry) => void, kind: AuditKind, common: JsonObject) {
    this.#perMinute = perMinute;
    this.#note = note;
    this.#kind = kind;
    this.#common = common;
  }

  add(tenant: string, facts: JsonObject): void {
    this.#timer ??= setTimeout(() => this.#next(), WINDOW_MS).unref();
    let window = this.#windows.get(tenant);
    if (!window) this.#windows.set(tenant, (window = { recorded: 0, more: 0 }));
    if (window.recorded >= this.#perMinute) {
      window.more += 1;
      return;
    }
    window.recorded += 1;
    this.#note(entryOf(tenant, this.#kind, { ...this.#common, ...facts }));
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#next();
  }

  #next(): void {
    this.#timer = undefined;
    for (const [tenant, { more }] of this.#windows) {
      if (more > 0) this.#note(entryOf(tenant, this.#kind, { ...this.#common, more }));
    }
    this.#windows.clear();
  }
}

function cut(text: string): string {
  return text.slice(0, TEXT_CHARACTERS_MAX);
}
