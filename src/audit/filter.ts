import type { Json, JsonObject } from "../lib/json.ts";
import type { AuditKind } from "./audit-entry.ts";

/** The criteria of a search; absent ones match everything. */
export interface AuditFilter {
  readonly kind?: AuditKind | undefined;
  readonly server?: string | undefined;
  readonly tool?: string | undefined;
  readonly principal?: string | undefined;
  readonly outcome?: string | undefined;
  /** Milliseconds since the epoch, both included. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** The facts of a record that a filter looks at. */
type AuditedFacts = JsonObject & { readonly at: string };

/** Bodies are long, and most match nothing: a search for the text itself finds that without parsing the JSON. */
export function mayFit(body: string, { server, tool, principal, outcome }: AuditFilter): boolean {
  return [server, tool, principal, outcome].every((text) => text === undefined || body.includes(JSON.stringify(text)));
}

export function fits(record: AuditedFacts, filter: AuditFilter): boolean {
  const { server, tool, principal, outcome, since, until } = filter;
  if (tool !== undefined && record["tool"] !== tool) return false;
  if (principal !== undefined && record["principal"] !== principal) return false;
  if (outcome !== undefined && record["outcome"] !== outcome) return false;
  if (server !== undefined && !isAbout(record, server)) return false;
  const at = Date.parse(record.at);
  return (since === undefined || at >= since) && (until === undefined || at <= until);
}

/** True when the server was called or changed: by its names, or as the subject of an edit. */
function isAbout(record: AuditedFacts, server: string): boolean {
  if (record["server"] === server) return true;
  const about = [record["subject"], ...(Array.isArray(record["names"]) ? record["names"] : [])];
  return about.some((each) => isServer(each, server));
}

function isServer(about: Json | undefined, server: string): boolean {
  const { kind, name } = (about ?? {}) as { kind?: unknown; name?: unknown };
  return name === server && kind !== "variable";
}
