import { DEFAULT_TENANT, isTenantName } from "../lib/tenant-name.ts";
import { parseAllowedHost } from "./allow-list.ts";

/** A host with private addresses that the operator opens to entries that list this very host. */
export interface PrivateHost {
  /** As in URLs. */
  readonly name: string;
  /** Undefined for every port. */
  readonly port?: number;
  /** The only tenant that it is opened to; undefined for all. */
  readonly tenant?: string;
}

const ADVICE = `write "db.internal:5432", "db.internal" for every port, or "${DEFAULT_TENANT}@db.internal:5432" for one tenant`;

/** Reads `[tenant@]host[:port]`, separated by commas. Returns a text if something is wrong. */
export function parsePrivateHosts(text: string): readonly PrivateHost[] | string {
  const hosts: PrivateHost[] = [];
  for (const part of text.split(",").map((each) => each.trim())) {
    if (part === "") continue;
    const [, tenant, rest = ""] = /^(?:([^@]*)@)?(.*)$/.exec(part)!;
    if (tenant !== undefined && !isTenantName(tenant))
      return `"${part}": "${tenant}" is no name of a tenant; ${ADVICE}`;
    const host = parseAllowedHost(rest);
    if (typeof host === "string") return host;
    if (host.kind !== "host") return `"${part}" is not one host; ${ADVICE}`;
    const hasPort = /:[0-9]+$/.test(rest.replace(/^\[.*\]/, ""));
    hosts.push({ name: host.name, ...(hasPort && { port: host.port }), ...(tenant !== undefined && { tenant }) });
  }
  return hosts;
}

export function fitsPort({ port }: PrivateHost, wanted: number): boolean {
  return port === undefined || port === wanted;
}
