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
import { environmentOf, type Environment } from "./environment.ts";
import type { OperatorGrants } from "./operator-grants.ts";

/** The grants that a release gets by its entry, beyond what every server has. */
export interface Granted {
  /** Its secrets; undefined when there are none. */
  readonly grant: Grant | undefined;
  /** Answers the requests of its code to the host. */
  readonly port: HostPort;
  /**
   * The same code for another server, or with other grants, runs in another process: its state belongs to one server.
   */
  readonly realm: string;
  /** The environment of its code; undefined when its entry sets nothing. */
  readonly environment: Environment | undefined;
  /** Its folders as they are now; undefined when there are none. Rejects with a `FolderFault`. */
  readonly foldersNow?: (() => Promise<CurrentFolders>) | undefined;
  /** The sockets of its code. */
  readonly network: NonNullable<GuestProgram["network"]>;
}

export interface GrantDependencies {
  readonly grants?: Grants | undefined;
  readonly folders?: Folders | undefined;
  readonly network?: GrantedNetwork;
  /** The hosts that a server's entry lists at the moment; none for servers that are not served. Sockets need it. */
  readonly networkNow?: (tenant: string, server: string) => readonly AllowedHost[];
  /** Only `berth dev` has them. */
  readonly operatorGrants?: OperatorGrants | undefined;
  readonly log: Log;
  readonly limits: FetchLimits;
}

/** The rules of where guests may go that no entry makes. */
export interface GrantedNetwork {
  /** The private hosts that the operator opens to the entries of a tenant. */
  readonly privateHostsOf: (tenant: string) => readonly PrivateHost[];
  /** The port at which Berth itself listens; undefined where it does not. */
  readonly ownPort: number | undefined;
  /** Ends the connections of a server's guests, or of all servers' of the tenant. */
  readonly retire: (tenant: string, server?: string) => void;
}

/** True if processes that were started with one entry keep connections that the other does not give. */
export function givesOther(before: DirectoryEntry, now: DirectoryEntry | undefined): boolean {
  return grantsIn(before) !== grantsIn(now);
}

function grantsIn(listed: DirectoryEntry | undefined): string {
  if (!listed || listed.refused || !listed.enabled) return "";
  const grants = entryFieldList.filter(([, { isGrant }]) => isGrant);
  return JSON.stringify(grants.map(([name]) => listed.entry[name as keyof ServerEntry]));
}

/**
 * The entry of an earlier release, reduced to the grants that the current entry still gives: what was taken from the
 * server is taken from all its releases, and none gets a grant that only a later entry gives. What either of them asks to
 * require consent requires it for each call.
 */
export function asGivenNow(then: ServerEntry, { entry: now, refused }: DirectoryEntry): ServerEntry {
  // It is unknown what a wrong entry would grant.
  if (refused) {
    const nothing = { secrets: [], network: [], folders: [], variables: [], retainCallsMs: undefined };
    return { ...then, ...nothing, consent: ["*"] };
  }
  // Without a list of its own an upstream reads no variable, and code reads all.
  const variables = inBoth(then.variables, now.upstream === undefined ? now.variables : []);
  return {
    ...then,
    secrets: inBoth(then.secrets, now.secrets) ?? [],
    network: allowedByBoth(then.network, now.network),
    folders: inBoth(then.folders, now.folders) ?? [],
    consent: combineConsent(then, now),
    limits: now.limits,
    retainCallsMs: now.retainCallsMs,
    ...(variables && { variables }),
  };
}

/** Undefined means all names. */
function inBoth(
  one: readonly string[] | undefined,
  other: readonly string[] | undefined,
): readonly string[] | undefined {
  if (!one || !other) return one ?? other;
  const others = new Set(other);
  return one.filter((name) => others.has(name));
}

/** `requested`: what the code requests and its entry does not give, for words. */
export async function grantTo(
  given: { tenant: string; server: string; entry: ServerEntry; requested: readonly RequestedGrant[] },
  port: HostPort,
  dependencies: GrantDependencies,
): Promise<Granted> {
  const { tenant, server, entry, requested } = given;
  const { grants, folders = noFolders, network: around, networkNow, operatorGrants, limits, log } = dependencies;
  const readsVariables = Object.values(entry.env).some(({ variables }) => variables.length > 0);
  const grant = grants?.of(tenant, server, entry.secrets, readsVariables);
  const environment = environmentOf({ tenant, server, entry, grant, port, log });
  const privateToo = tenant === DEFAULT_TENANT;
  const { privateHostsOf, ownPort }: typeof alone = around ?? alone;
  const acceptance = acceptanceOf(tenant, server);
  const asked = requestedHosts(requested);
  const byOperator = operatorGrants !== undefined;
  const rules = {
    privateToo,
    privateHosts: privateHostsOf(tenant),
    server,
    ...(asked.length > 0 && { requested: { hosts: asked, acceptance } }),
    ...(byOperator && { byOperator }),
  };
  // Where nothing is listed, they tell of each host what would grant it.
  const hasFetches = entry.network.length > 0 || asked.length > 0 || byOperator;
  const fetches = hasFetches ? new Fetches(entry.network, limits, { ...rules, ownPort }) : undefined;
  const hostsNow = (): readonly AllowedHost[] =>
    byOperator ? entry.network : allowedByBoth(entry.network, networkNow?.(tenant, server) ?? []);
  const network = {
    server,
    ...(asked.length > 0 && { requested: `its code requests hosts: ${acceptance}` }),
    ...(byOperator && { byOperator }),
    grant: (): SocketGrant | undefined => {
      // A catalog may be older than the entry.
      const hosts = hostsNow();
      return hosts.length > 0 ? { ...rules, tenant, hosts } : undefined;
    },
  };
  const isGivenNow = (): boolean => {
    const now = networkNow && !byOperator && new Set(hostsNow());
    return !now || entry.network.every((host) => now.has(host));
  };
  const { variables } = entry;
  const foldersNow = entry.folders.length > 0 ? () => folders.now(tenant, entry.folders) : undefined;
  const more = { environment, foldersNow, network };
  if (!grant && !fetches && !variables && !environment && requested.length === 0) {
    return { grant, port, realm: server, ...more };
  }
  // A process may keep a value that it has seen, so another value gets another process.
  const seen = [server, grant?.names, await grant?.version(), entry.network, variables];
  const realm = JSON.stringify(environment ? [...seen, entry.env] : seen);
  const refusal = (name: string): string | undefined => secretRefusal(name, given, operatorGrants);
  return {
    grant,
    port: grantedPort(port, { grant, refusal, network: fetches, isGivenNow, variables }),
    realm,
    ...more,
  };
}

/** How somebody with the right to change grants accepts what a definition requests, as a part of a sentence. */
export function acceptanceOf(tenant: string, server: string): string {
  const ofTenant = tenant === DEFAULT_TENANT ? "" : ` --tenant ${tenant}`;
  return `accept it at ${tenantBasePath(tenant)}/mcp/meta/${encodeURIComponent(server)}?tab=settings, or with "berth grant ${server}${ofTenant}"`;
}

function requestedHosts(requested: readonly RequestedGrant[]): AllowedHost[] {
  return requested.flatMap(({ field, value }) => {
    const host = field === "network" ? parseAllowedHost(value) : "";
    return typeof host === "string" ? [] : [host];
  });
}

/** Undefined for a secret that is given, or that nobody has thought of. */
function secretRefusal(
  name: string,
  { tenant, server, entry, requested }: Parameters<typeof grantTo>[0],
  operatorGrants: OperatorGrants | undefined,
): string | undefined {
  if (entry.secrets.includes(name)) return undefined;
  const shown = name.slice(0, 128);
  const refused = `this server is not given the secret "${shown}"`;
  if (operatorGrants) return `${refused}: no tag requests it; write /** @secret ${shown} */ at the head of the file`;
  if (!requested.some(({ field, value }) => field === "secrets" && value === name)) return undefined;
  return `${refused}, which its code requests: add to its entry in mcps "secrets": ["${shown}"], or ${acceptanceOf(tenant, server)}`;
}

const alone: Omit<GrantedNetwork, "retire"> = { privateHostsOf: () => [], ownPort: undefined };

interface GivenPorts {
  readonly grant: Grant | undefined;
  /** Why the code is not given a secret, where more is known than that nobody gives it. */
  readonly refusal: (secret: string) => string | undefined;
  readonly network: Fetches | undefined;
  /** False when the entry of this moment gives less of a network. */
  readonly isGivenNow: () => boolean;
  readonly variables: readonly string[] | undefined;
}

const TAKEN = "what this server may reach has changed since the call began; call it again";

function grantedPort(port: HostPort, { grant, refusal, network, isGivenNow, variables }: GivenPorts): HostPort {
  const isNamed = variables && namedBy(port, variables);
  return {
    async request(op, params, call) {
      switch (op) {
        case "secret": {
          const refused = typeof params["name"] === "string" ? refusal(params["name"]) : undefined;
          if (refused !== undefined) throw new Error(refused);
          return grant ? readSecret(grant, params) : port.request(op, params, call);
        }
        case "fetch":
          if (network && !isGivenNow()) throw new Error(TAKEN);
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

/** The prefix of Berth's own variables, which tell each caller only what it may know. */
const OWN_VARIABLES = "berth:";

function checkVariable(variables: readonly string[], { name }: JsonObject): void {
  if (typeof name !== "string" || variables.includes(name) || name.startsWith(OWN_VARIABLES)) return;
  const remedy = `add to its entry in mcps "variables": [${JSON.stringify(name.slice(0, 128))}]`;
  throw new Error(`this server may not read the variable "${name.slice(0, 128)}"; ${remedy}`);
}

/** Tells if the content is the value of one of the variables, or has the CID that such a value names. */
function namedBy(port: HostPort, variables: readonly string[]) {
  /** By variable: each value is read once while it stands. */
  const said = new Map<string, { readonly cid: Cid; readonly says: string | undefined }>();

  return async ({ cid }: JsonObject, call: Parameters<HostPort["request"]>[2]): Promise<boolean> => {
    const takeTurns = createYielder();
    for (const name of variables) {
      await takeTurns();
      const value = await port.request("variable", { name }, call);
      if (!(value instanceof DeferredAnswer) || value.cid === undefined) continue;
      if (value.cid === cid) return true;
      let known = said.get(name);
      if (known?.cid !== value.cid) {
        const bytes = await value.read();
        const text = bytes && bytes.length <= CID_BYTES_MAX ? Buffer.from(bytes).toString().trim() : undefined;
        said.set(name, (known = { cid: value.cid, says: text }));
      }
      if (known.says === cid) return true;
    }
    return false;
  };
}

/** The longest value that can be a CID with white space around it. */
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

/** Problems of grants that the entry lists but the server does not get. */
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
  const opened = network?.privateHostsOf(tenant) ?? [];
  for (const { kind, name, port } of tenant === DEFAULT_TENANT ? [] : entry.network) {
    if (kind !== "host" || isIP(name) === 0 || isPublicAddress(name)) continue;
    if (opened.some((host) => host.name === name && matchesPort(host, port))) continue;
    const message = `${name} is not a public address; whoever runs this Berth can open it with BERTH_PRIVATE_HOSTS`;
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
 * A script gets parameters, secrets and its entry's environment the same way: a caller could set the secret, or read
 * what nobody may.
 */
export function leaveOutNamesakes(server: string, { tools, problems }: Offered, { secrets, env }: ServerEntry): void {
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
