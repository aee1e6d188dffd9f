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
 * The grants of whoever runs Berth for their own files (`berth dev`): to run a definition grants what its tags request.
 * Private addresses are granted by name alone, never by a tag.
 */
export interface OperatorGrants {
  /** Hosts for every server. */
  readonly network: readonly AllowedHost[];
  /** The value of a secret, which comes before the stored one. */
  value(name: string): string | undefined;
  /** A value that is no secret, since it is too short to be hidden. */
  plainValue(name: string): string | undefined;
  /** How to give a secret a value, as the end of a sentence. */
  howToSet(name: string): string;
}

/** The entry with all that its server is granted. */
export function withOperatorGrants(
  entry: ServerEntry,
  requested: readonly RequestedGrant[],
  operator: OperatorGrants,
): ServerEntry {
  const env = Object.entries(entry.env).map(([name, value]) => [name, fromOperator(value, operator)] as const);
  const secrets = [
    ...entry.secrets,
    ...requested.flatMap(({ field, value }) => (field === "secrets" && !nameFault(value) ? [value] : [])),
    ...env.flatMap(([, value]) => value.secrets),
  ];
  const hosts = requested.flatMap((request) => {
    const host = hostOf(request);
    return host && !isPrivate(host) ? [host] : [];
  });
  const network = [...entry.network, ...operator.network, ...hosts];
  return {
    ...entry,
    secrets: [...new Set(secrets)].sort(),
    env: Object.fromEntries(env),
    network: network.filter((host, index) => !names(network.slice(0, index), host)),
  };
}

/** A value that is given counts as a secret where it can, whatever the entry takes it for. */
function fromOperator({ text, secrets, variables }: EnvironmentValue, operator: OperatorGrants): EnvironmentValue {
  const given = variables.filter((name) => operator.value(name) !== undefined);
  const filled = text.replaceAll(/\$\$\{|\$\{(\w+)(?::-([^}]*))?\}/g, (all, name?: string, fallback = "") => {
    const plain = name !== undefined && variables.includes(name) ? operator.plainValue(name) : undefined;
    return plain === undefined ? all : (plain || fallback).replaceAll("${", () => "$${");
  });
  const others = variables.filter((name) => !given.includes(name) && operator.plainValue(name) === undefined);
  return { text: filled, secrets: [...secrets, ...given], variables: others };
}

/** A warning for each request of a private host that nobody has named. */
export function privateRequests(
  requested: readonly RequestedGrant[],
  { network }: Pick<OperatorGrants, "network">,
): Problem[] {
  return requested.flatMap((request): Problem[] => {
    const host = hostOf(request);
    if (!host || !isPrivate(host) || names(network, host)) return [];
    const { value, file, line, column } = request;
    const message = `${describeRequest(request)}, which is a private one, and no tag grants these: start berth dev with --allow-net ${value}`;
    return [{ code: "network-requested", message, severity: "warning", file, line, column }];
  });
}

function hostOf({ field, value }: RequestedGrant): AllowedHost | undefined {
  const host = field === "network" ? parseAllowedHost(value) : undefined;
  return typeof host === "string" ? undefined : host;
}

function names(list: readonly AllowedHost[], { kind, name, port }: AllowedHost): boolean {
  return list.some((listed) => listed.kind === kind && listed.name === name && listed.port === port);
}

/** Other names turn out to be private when they are looked up. */
function isPrivate({ kind, name }: AllowedHost): boolean {
  if (kind !== "host") return false;
  return isIP(name) === 0 ? /^(?:.*\.)?localhost$/.test(name) : !isPublicAddress(name);
}
