import { isIP } from "node:net";
import type { RequestedGrant } from "../../discover/discovery.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { EnvironmentValue } from "../../entry/environment-fields.ts";
import { describeRequest } from "../../entry/grant-requests.ts";
import type { Problem } from "../../lib/problem.ts";
import { isPublicAddress } from "../../network/addresses.ts";
import { parseAllowedHost, type AllowedHost } from "../../network/allow-list.ts";
import { nameFault } from "../../secrets/secret-rules.ts";

/**
 * Grants in `berth dev`, where operators run their own files: a definition gets what its tags request, except for
 * private addresses, which must be allowed by option.
 */
export interface OperatorGrants {
  /** Hosts for every server. */
  readonly network: readonly AllowedHost[];
  /** The value of a secret; takes precedence over a stored one. */
  value(name: string): string | undefined;
  /** A value that is too short to be redacted, so it is not treated as a secret. */
  plainValue(name: string): string | undefined;
  /** How to set a secret, as the end of a sentence. */
  howToSet(name: string): string;
}

/** Adds the operator's grants to an entry. */
export function withOperatorGrants(
  entry: ServerEntry,
  requested: readonly RequestedGrant[],
  operator: OperatorGrants,
): ServerEntry {
  const env = Object.entries(entry.env).map(([name, value]) => [name, useOperatorValues(value, operator)] as const);
  const secrets = [
    ...entry.secrets,
    ...requested.flatMap(({ field, value }) => (field === "secrets" && !nameFault(value) ? [value] : [])),
    ...env.flatMap(([, value]) => value.secrets),
  ];
  const hosts = requested.flatMap((request) => {
    const host = requestedHost(request);
    return host && !isPrivate(host) ? [host] : [];
  });
  const network = [...entry.network, ...operator.network, ...hosts];
  return {
    ...entry,
    secrets: [...new Set(secrets)].sort(),
    env: Object.fromEntries(env),
    network: network.filter((host, index) => !includesHost(network.slice(0, index), host)),
  };
}

/** Treats each value that the operator sets as a secret if possible, whatever the entry declares. */
function useOperatorValues({ text, secrets, variables }: EnvironmentValue, operator: OperatorGrants): EnvironmentValue {
  const secretNames = variables.filter((name) => operator.value(name) !== undefined);
  const filled = text.replaceAll(/\$\$\{|\$\{(\w+)(?::-([^}]*))?\}/g, (all, name?: string, fallback = "") => {
    const plain = name !== undefined && variables.includes(name) ? operator.plainValue(name) : undefined;
    return plain === undefined ? all : (plain || fallback).replaceAll("${", () => "$${");
  });
  const remaining = variables.filter((name) => !secretNames.includes(name) && operator.plainValue(name) === undefined);
  return { text: filled, secrets: [...secrets, ...secretNames], variables: remaining };
}

/** A warning for each requested private host that is not allowed. */
export function privateRequests(
  requested: readonly RequestedGrant[],
  { network }: Pick<OperatorGrants, "network">,
): Problem[] {
  return requested.flatMap((request): Problem[] => {
    const host = requestedHost(request);
    if (!host || !isPrivate(host) || includesHost(network, host)) return [];
    const { value, file, line, column } = request;
    const message = `${describeRequest(request)}, which is a private host. Tags cannot grant private hosts: start berth dev with --allow-net ${value}`;
    return [{ code: "network-requested", message, severity: "warning", file, line, column }];
  });
}

function requestedHost({ field, value }: RequestedGrant): AllowedHost | undefined {
  const host = field === "network" ? parseAllowedHost(value) : undefined;
  return typeof host === "string" ? undefined : host;
}

function includesHost(list: readonly AllowedHost[], { kind, name, port }: AllowedHost): boolean {
  return list.some((listed) => listed.kind === kind && listed.name === name && listed.port === port);
}

/** Other names may still resolve to private addresses; that is checked on connection. */
function isPrivate({ kind, name }: AllowedHost): boolean {
  if (kind !== "host") return false;
  return isIP(name) === 0 ? /^(?:.*\.)?localhost$/.test(name) : !isPublicAddress(name);
}
