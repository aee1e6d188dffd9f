import { isIP } from "node:net";
import type { RequestedGrant } from "../../discover/discovery.ts";
import { addProblem, inside, type ConfigPlace } from "../../entry/config-place.ts";
import { combineConsent } from "../../entry/consent-field.ts";
import { entryFieldList } from "../../entry/entry-fields.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import { describeRequest } from "../../entry/grant-requests.ts";
import type { Offered } from "../../entry/offer.ts";
import { DeferredAnswer, type GuestProgram, type HostAnswer, type HostPort } from "../../executor/executor.ts";
import { noFolders, type Folders, type CurrentFolders } from "../../folders/folders.ts";
import type { Cid } from "../../lib/cid.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { SECRET_NOT_SET, type Problem } from "../../lib/problem.ts";
import { tenantBasePath, DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { isPublicAddress } from "../../network/addresses.ts";
import { allowedByBoth, parseAllowedHost, type AllowedHost } from "../../network/allow-list.ts";
import { Fetches, type FetchLimits } from "../../network/fetches.ts";
import { matchesPort, type PrivateHost } from "../../network/private-hosts.ts";
import type { SocketGrant } from "../../network/relay-wire.ts";
import type { Grant, Grants } from "../../secrets/grants.ts";
import type { DirectoryEntry } from "../directory/directory.ts";
import { createEnvironment, type Environment } from "./environment.ts";
import type { OperatorGrants } from "./operator-grants.ts";

/** The access of a release according to its entry. */
export interface Granted {
  /** Its secrets; undefined without any. */
  readonly grant: Grant | undefined;
  /** Answers host requests of its code. */
  readonly port: HostPort;
  /** The same code for another server or with other grants runs in a separate process, because processes have state. */
  readonly realm: string;
  /** Its environment variables; undefined without any. */
  readonly environment: Environment | undefined;
  /** Resolves its folders; undefined without any. Rejects with a `FolderFault`. */
  readonly resolveFolders?: (() => Promise<CurrentFolders>) | undefined;
  /** Network access for sockets of its code. */
  readonly network: NonNullable<GuestProgram["network"]>;
}

export interface GrantDependencies {
  readonly grants?: Grants | undefined;
  readonly folders?: Folders | undefined;
  readonly network?: GrantedNetwork;
  /** The hosts in a server's current entry; none if the server is not served. Checked for each socket. */
  readonly currentNetwork?: (tenant: string, server: string) => readonly AllowedHost[];
  /** Only in `berth dev`. */
  readonly operatorGrants?: OperatorGrants | undefined;
  readonly log: Log;
  readonly limits: FetchLimits;
}

/** Network rules that do not depend on an entry. */
export interface GrantedNetwork {
  /** Private hosts that the operator allows a tenant. */
  readonly privateHostsOf: (tenant: string) => readonly PrivateHost[];
  /** The port that Berth itself listens on, if any. */
  readonly ownPort: number | undefined;
  /** Closes the connections of a server's guests, or of all of a tenant's guests. */
  readonly retire: (tenant: string, server?: string) => void;
}

/** True if processes started with one entry may have connections that the other does not allow. */
export function grantsDiffer(before: DirectoryEntry, now: DirectoryEntry | undefined): boolean {
  return serializeGrants(before) !== serializeGrants(now);
}

function serializeGrants(listed: DirectoryEntry | undefined): string {
  if (!listed || listed.refused || !listed.enabled) return "";
  const grants = entryFieldList.filter(([, { isGrant }]) => isGrant);
  return JSON.stringify(grants.map(([name]) => listed.entry[name as keyof ServerEntry]));
}

/**
 * Reduces the entry of an earlier release to grants that the current entry also has, so that revoking a grant revokes it
 * for all releases, and no release gains grants of a later entry. Consent is required where either entry requires it.
 */
export function reduceGrants(then: ServerEntry, { entry: now, refused }: DirectoryEntry): ServerEntry {
  // The grants of an invalid entry are unknown.
  if (refused) {
    const nothing = { secrets: [], network: [], folders: [], variables: [], retainCallsMs: undefined };
    return { ...then, ...nothing, consent: ["*"] };
  }
  // Without "variables", an upstream can read none and code can read all.
  const variables = intersect(then.variables, now.upstream === undefined ? now.variables : []);
  return {
    ...then,
    secrets: intersect(then.secrets, now.secrets) ?? [],
    network: allowedByBoth(then.network, now.network),
    folders: intersect(then.folders, now.folders) ?? [],
    consent: combineConsent(then, now),
    limits: now.limits,
    retainCallsMs: now.retainCallsMs,
    ...(variables && { variables }),
  };
}

/** Undefined means no restriction. */
function intersect(
  one: readonly string[] | undefined,
  other: readonly string[] | undefined,
): readonly string[] | undefined {
  if (!one || !other) return one ?? other;
  const others = new Set(other);
  return one.filter((name) => others.has(name));
}

/** `requested`: grants that the code requests and the entry lacks, for error messages. */
export async function createGrants(
  subject: { tenant: string; server: string; entry: ServerEntry; requested: readonly RequestedGrant[] },
  port: HostPort,
  dependencies: GrantDependencies,
): Promise<Granted> {
  const { tenant, server, entry, requested } = subject;
  const {
    grants,
    folders = noFolders,
    network: networkRules,
    currentNetwork,
    operatorGrants,
    limits,
    log,
  } = dependencies;
  const readsVariables = Object.values(entry.env).some(({ variables }) => variables.length > 0);
  const grant = grants?.of(tenant, server, entry.secrets, readsVariables);
  const environment = createEnvironment({ tenant, server, entry, grant, port, log });
  const allowsPrivate = tenant === DEFAULT_TENANT;
  const { privateHostsOf, ownPort }: typeof noNetworkRules = networkRules ?? noNetworkRules;
  const acceptance = describeAcceptance(tenant, server);
  const requestedHostList = requestedHosts(requested);
  const byOperator = operatorGrants !== undefined;
  const rules = {
    privateToo: allowsPrivate,
    privateHosts: privateHostsOf(tenant),
    server,
    ...(requestedHostList.length > 0 && { requested: { hosts: requestedHostList, acceptance } }),
    ...(byOperator && { byOperator }),
  };
  // Without allowed hosts, requests fail with a message that says how to allow the host.
  const hasFetches = entry.network.length > 0 || requestedHostList.length > 0 || byOperator;
  const fetches = hasFetches ? new Fetches(entry.network, limits, { ...rules, ownPort }) : undefined;
  const currentHosts = (): readonly AllowedHost[] =>
    byOperator ? entry.network : allowedByBoth(entry.network, currentNetwork?.(tenant, server) ?? []);
  const network = {
    server,
    ...(requestedHostList.length > 0 && { requested: `its code requests hosts: ${acceptance}` }),
    ...(byOperator && { byOperator }),
    grant: (): SocketGrant | undefined => {
      // The entry may have changed since the catalog was built.
      const hosts = currentHosts();
      return hosts.length > 0 ? { ...rules, tenant, hosts } : undefined;
    },
  };
  const isStillGranted = (): boolean => {
    const now = currentNetwork && !byOperator && new Set(currentHosts());
    return !now || entry.network.every((host) => now.has(host));
  };
  const { variables } = entry;
  const resolveFolders = entry.folders.length > 0 ? () => folders.now(tenant, entry.folders) : undefined;
  const common = { environment, resolveFolders, network };
  if (!grant && !fetches && !variables && !environment && requested.length === 0) {
    return { grant, port, realm: server, ...common };
  }
  // A process may retain a value, so a changed value gets a new process.
  const inputs = [server, grant?.names, await grant?.version(), entry.network, variables];
  const realm = JSON.stringify(environment ? [...inputs, entry.env] : inputs);
  const refusal = (name: string): string | undefined => secretRefusal(name, subject, operatorGrants);
  return {
    grant,
    port: grantedPort(port, { grant, refusal, network: fetches, isStillGranted: isStillGranted, variables }),
    realm,
    ...common,
  };
}

/** How to grant what a definition requests, as part of a sentence. */
export function describeAcceptance(tenant: string, server: string): string {
  const tenantOption = tenant === DEFAULT_TENANT ? "" : ` --tenant ${tenant}`;
  return `accept it at ${tenantBasePath(tenant)}/mcp/meta/${encodeURIComponent(server)}?tab=settings, or with "berth grant ${server}${tenantOption}"`;
}

function requestedHosts(requested: readonly RequestedGrant[]): AllowedHost[] {
  return requested.flatMap(({ field, value }) => {
    const host = field === "network" ? parseAllowedHost(value) : "";
    return typeof host === "string" ? [] : [host];
  });
}

/** Undefined for a secret that is granted, or neither granted nor requested. */
function secretRefusal(
  name: string,
  { tenant, server, entry, requested }: Parameters<typeof createGrants>[0],
  operatorGrants: OperatorGrants | undefined,
): string | undefined {
  if (entry.secrets.includes(name)) return undefined;
  const displayed = name.slice(0, 128);
  const message = `this server is not given the secret "${displayed}"`;
  if (operatorGrants)
    return `${message}: no tag requests it; write /** @secret ${displayed} */ at the head of the file`;
  if (!requested.some(({ field, value }) => field === "secrets" && value === name)) return undefined;
  return `${message}, which its code requests: add to its entry in mcps "secrets": ["${displayed}"], or ${describeAcceptance(tenant, server)}`;
}

const noNetworkRules: Omit<GrantedNetwork, "retire"> = { privateHostsOf: () => [], ownPort: undefined };

interface GrantedPorts {
  readonly grant: Grant | undefined;
  /** Why a secret is not granted, if there is a specific reason. */
  readonly refusal: (secret: string) => string | undefined;
  readonly network: Fetches | undefined;
  /** False when the current entry allows less network access. */
  readonly isStillGranted: () => boolean;
  readonly variables: readonly string[] | undefined;
}

const NETWORK_CHANGED = "the network access of this server has changed since the call began; call it again";

function grantedPort(port: HostPort, { grant, refusal, network, isStillGranted, variables }: GrantedPorts): HostPort {
  const isNamed = variables && contentMatcher(port, variables);
  return {
    async request(op, params, call) {
      switch (op) {
        case "secret": {
          const refused = typeof params["name"] === "string" ? refusal(params["name"]) : undefined;
          if (refused !== undefined) throw new Error(refused);
          return grant ? readSecret(grant, params) : port.request(op, params, call);
        }
        case "fetch":
          if (network && !isStillGranted()) throw new Error(NETWORK_CHANGED);
          return (network ?? port).request(op, params, call);
        case "fetchWrite":
        case "fetchRead":
        case "fetchAbort":
          return (network ?? port).request(op, params, call);
        case "variable":
          if (variables) checkVariable(variables, params);
          return port.request(op, params, call);
        case "cid":
          if (!isNamed) return port.request(op, params, call);
          return new DeferredAnswer("bytes", async () =>
            (await isNamed(params, call)) ? readAll(await port.request(op, params, call)) : undefined,
          );
        default:
          return port.request(op, params, call);
      }
    },
  };
}

/** The prefix of Berth's own variables, which show each caller only what it may see. */
const OWN_VARIABLES = "berth:";

function checkVariable(variables: readonly string[], { name }: JsonObject): void {
  if (typeof name !== "string" || variables.includes(name) || name.startsWith(OWN_VARIABLES)) return;
  const hint = `add to its entry in mcps "variables": [${JSON.stringify(name.slice(0, 128))}]`;
  throw new Error(`this server may not read the variable "${name.slice(0, 128)}"; ${hint}`);
}

/** True if content is the value of one of the variables, or a value is its CID. */
function contentMatcher(port: HostPort, variables: readonly string[]) {
  /** Values by variable, read again when the variable changes. */
  const values = new Map<string, { readonly cid: Cid; readonly says: string | undefined }>();

  return async ({ cid }: JsonObject, call: Parameters<HostPort["request"]>[2]): Promise<boolean> => {
    const yieldIfDue = createYielder();
    for (const name of variables) {
      await yieldIfDue();
      const value = await port.request("variable", { name }, call);
      if (!(value instanceof DeferredAnswer) || value.cid === undefined) continue;
      if (value.cid === cid) return true;
      let cached = values.get(name);
      if (cached?.cid !== value.cid) {
        const bytes = await value.read();
        const text = bytes && bytes.length <= CID_BYTES_MAX ? Buffer.from(bytes).toString().trim() : undefined;
        values.set(name, (cached = { cid: value.cid, says: text }));
      }
      if (cached.says === cid) return true;
    }
    return false;
  };
}

/** A CID, with generous surrounding white space. */
const CID_BYTES_MAX = 4_096;

async function readAll(answer: HostAnswer): Promise<Uint8Array | undefined> {
  return answer instanceof DeferredAnswer ? answer.read() : undefined;
}

async function readSecret(grant: Grant, { name }: JsonObject): Promise<HostAnswer> {
  if (typeof name !== "string") throw new TypeError('"name" must be a string');
  return new DeferredAnswer("text", async () => {
    const value = await grant.read(name);
    return value === undefined ? undefined : Buffer.from(value);
  });
}

/** Problems of grants that the entry lists but that have no effect. */
export async function grantProblems(
  {
    tenant,
    server,
    entry,
    requested = [],
  }: { tenant: string; server: string; entry: ServerEntry; requested?: readonly RequestedGrant[] },
  grant: Grant | undefined,
  {
    folders = noFolders,
    network,
    operatorGrants,
  }: Pick<GrantDependencies, "folders" | "network" | "operatorGrants"> = {},
): Promise<Problem[]> {
  const problems: Problem[] = [];
  const place = inside(inside({ pointer: "", problems }, server), "network");
  const privateHosts = network?.privateHostsOf(tenant) ?? [];
  for (const { kind, name, port } of tenant === DEFAULT_TENANT ? [] : entry.network) {
    if (kind !== "host" || isIP(name) === 0 || isPublicAddress(name)) continue;
    if (privateHosts.some((host) => host.name === name && matchesPort(host, port))) continue;
    const message = `${name} is not a public address; the operator of this Berth can allow it with BERTH_PRIVATE_HOSTS`;
    addProblem(place, "private-address", message, "warning");
  }
  for (const name of entry.folders) {
    const fault = folders.problem(tenant, name);
    const at = inside(inside({ pointer: "", problems }, server), "folders");
    if (fault !== undefined) addProblem(at, "folder-not-declared", fault, "warning");
  }
  for (const name of (await grant?.missing()) ?? []) {
    const request = requested.find(({ field, value }) => field === "secrets" && value === name);
    if (operatorGrants && request) {
      const { file, line, column } = request;
      const message = `${describeRequest(request)}, and it has no value: ${operatorGrants.howToSet(name)}`;
      problems.push({ code: SECRET_NOT_SET, message, severity: "warning", file, line, column });
      continue;
    }
    const how = operatorGrants?.howToSet(name) ?? `set it at /secrets, or with "berth secret set ${name}"`;
    addProblem(secretsPlace(server, problems), SECRET_NOT_SET, `The secret "${name}" is not set: ${how}`, "warning");
  }
  return problems;
}

/**
 * Scripts get parameters, secrets and `env` all as environment variables. With equal names, a caller could set a secret
 * or read one.
 */
export function removeNameClashes(server: string, { tools, problems }: Offered, { secrets, env }: ServerEntry): void {
  for (const [tool, { function: own }] of tools) {
    const name = own.call.params.find((param) => secrets.includes(param) || Object.hasOwn(env, param));
    if (name === undefined) continue;
    tools.delete(tool);
    const isSecret = secrets.includes(name);
    const what = isSecret ? `The secret "${name}"` : `"${name}" of "env"`;
    const message = `${what} and a parameter of the tool "${tool}" are the same variable; rename one of them`;
    const place = inside(inside({ pointer: "", problems }, server), "env");
    const at = isSecret ? secretsPlace(server, problems) : inside(place, name);
    addProblem({ ...at, tool }, isSecret ? "secret-is-parameter" : "env-is-parameter", message);
  }
}

function secretsPlace(server: string, problems: Problem[]): ConfigPlace {
  return inside(inside({ pointer: "", problems }, server), "secrets");
}
