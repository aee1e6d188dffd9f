import { BerthError } from "../lib/errors.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { AUDIT_KINDS, type AuditKind } from "./audit-entry.ts";

/** The criteria of a search. Omitted ones match everything. */
export interface AuditFilter {
  readonly kind?: AuditKind | undefined;
  readonly server?: string | undefined;
  readonly tool?: string | undefined;
  readonly principal?: string | undefined;
  readonly outcome?: string | undefined;
  /** Milliseconds since the epoch, both inclusive. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** The facts of a record that filters read. */
type AuditedFacts = JsonObject & { readonly at: string };

/** A cheap test before parsing: bodies are long, and most do not contain the text. */
export function mayMatch(body: string, { server, tool, principal, outcome }: AuditFilter): boolean {
  return [server, tool, principal, outcome].every((text) => text === undefined || body.includes(JSON.stringify(text)));
}

export function matchesFilter(record: AuditedFacts, filter: AuditFilter): boolean {
  const { server, tool, principal, outcome, since, until } = filter;
  if (tool !== undefined && record["tool"] !== tool) return false;
  if (principal !== undefined && record["principal"] !== principal) return false;
  if (outcome !== undefined && record["outcome"] !== outcome) return false;
  if (server !== undefined && !isAbout(record, server)) return false;
  const at = Date.parse(record.at);
  return (since === undefined || at >= since) && (until === undefined || at <= until);
}

/** True if the server was called or changed, by its name or as the subject of an edit. */
function isAbout(record: AuditedFacts, server: string): boolean {
  if (record["server"] === server) return true;
  const about = [record["subject"], ...(Array.isArray(record["names"]) ? record["names"] : [])];
  return about.some((each) => isServer(each, server));
}

function isServer(about: Json | undefined, server: string): boolean {
  const { kind, name } = (about ?? {}) as { kind?: unknown; name?: unknown };
  return name === server && kind !== "variable";
}

/** A search as text, from a URL, a form, or the command line. An empty text counts as omitted. */
export const FILTER_FIELDS = ["kind", "server", "tool", "principal", "outcome", "since", "until", "limit"] as const;

export type FilterTexts = Partial<Record<(typeof FILTER_FIELDS)[number], string | undefined>>;

const PAGE_RECORDS = 50;
const PAGE_RECORDS_MAX = 1_000;
const NAME_CHARACTERS_MAX = 256;
export const OUTCOMES: readonly string[] = ["ok", "error", "invalid", "asked", "granted", "declined", "refused"];

/** Throws `invalid_params` with all problems. */
export function parseFilter(texts: FilterTexts, now: number = Date.now()): AuditFilter & { readonly limit: number } {
  const problems: string[] = [];
  const readText = (field: keyof FilterTexts): string | undefined => texts[field]?.trim() || undefined;
  const oneOf = (field: "kind" | "outcome", allowed: readonly string[]): string | undefined => {
    const text = readText(field);
    if (text !== undefined && !allowed.includes(text)) problems.push(`${field} must be one of ${allowed.join(", ")}`);
    return text;
  };
  const name = (field: "server" | "tool" | "principal"): string | undefined => {
    const text = readText(field);
    if (text !== undefined && text.length > NAME_CHARACTERS_MAX) {
      problems.push(`${field} has at most ${NAME_CHARACTERS_MAX} characters`);
    }
    return text;
  };
  const time = (field: "since" | "until"): number | undefined => {
    const text = readText(field);
    const ms = text === undefined ? undefined : parseTime(text, now);
    if (text !== undefined && ms === undefined) {
      problems.push(`${field} must be a time such as 2026-11-22T08:00Z, or a span before now such as 30m, 12h or 7d`);
    }
    return ms;
  };
  const limit = readText("limit") ?? String(PAGE_RECORDS);
  const isValid = /^[1-9]\d{0,5}$/.test(limit) && Number(limit) <= PAGE_RECORDS_MAX;
  if (!isValid) problems.push(`limit must be a whole number from 1 to ${PAGE_RECORDS_MAX}`);
  const filter = {
    kind: oneOf("kind", AUDIT_KINDS) as AuditKind | undefined,
    server: name("server"),
    tool: name("tool"),
    principal: name("principal"),
    outcome: oneOf("outcome", OUTCOMES),
    since: time("since"),
    until: time("until"),
    limit: Number(limit),
  };
  if (problems.length > 0) throw new BerthError("invalid_params", problems.join("; "));
  return filter;
}

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };
const TIMESTAMP = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?)?$/;

/** Parses a time (UTC by default) or a span before `now` into milliseconds since the epoch; undefined if invalid. */
export function parseTime(text: string, now: number): number | undefined {
  const [, count, unit = ""] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  if (count !== undefined) return now - Number(count) * UNIT_MS[unit]!;
  const [whole, zone] = TIMESTAMP.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const ms = Date.parse(zone === undefined && whole.length > 10 ? `${whole}Z` : whole);
  return Number.isNaN(ms) ? undefined : ms;
}
