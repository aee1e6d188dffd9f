import { DEFAULT_TENANT, isTenantName } from "../lib/tenant-name.ts";
import { parseAllowedHost } from "./allow-list.ts";

/** A host with private addresses that the operator opens to entries that list exactly this host. */
export interface PrivateHost {
  readonly name: string;
  /** By default every port. */
  readonly port?: number;
  /** The only tenant that it is opened to; undefined for all. */
  readonly tenant?: string;
}

const ADVICE = `write "db.internal:5432", "db.internal" for every port, or "${DEFAULT_TENANT}@db.internal:5432" for one tenant`;

/** Parses `[tenant@]host[:port]`, separated by commas. Returns an error message for an invalid list. */
export function parsePrivateHosts(text: string): readonly PrivateHost[] | string {
  const hosts: PrivateHost[] = [];
  for (const part of text.split(",").map((each) => each.trim())) {
    if (part === "") continue;
    const [, tenant, rest = ""] = /^(?:([^@]*)@)?(.*)$/.exec(part)!;
    if (tenant !== undefined && !isTenantName(tenant)) return `"${part}": "${tenant}" is not a tenant name; ${ADVICE}`;
    const host = parseAllowedHost(rest);
    if (typeof host === "string") return host;
    if (host.kind !== "host") return `"${part}" is not one host; ${ADVICE}`;
    const hasPort = /:[0-9]+$/.test(rest.replace(/^\[.*\]/, ""));
    hosts.push({ name: host.name, ...(hasPort && { port: host.port }), ...(tenant !== undefined && { tenant }) });
  }
  return hosts;
}

export function matchesPort({ port }: PrivateHost, requested: number): boolean {
  return port === undefined || port === requested;
}
