import { isIP } from "node:net";
import { isGrantableAddress, isMetadataAddress, isOwnAddress, isPublicAddress } from "./addresses.ts";
import { allows, bareHostname, namesAddress, type AllowedHost } from "./allow-list.ts";
import { matchesPort, type PrivateHost } from "./private-hosts.ts";

/** The hosts that may be reached. Refusals address the author of the code or the entry. */
export interface NetworkRules {
  /** Throws `NetworkRefused` if the URL is invalid, is not HTTP, or leads to a host that is not allowed. */
  readonly checkUrl: (text: string) => URL;
  /** Throws `NetworkRefused`; `hostname` has no brackets. */
  readonly checkHost: (hostname: string, port: number) => void;
  /** `hostname` is the host that has the address, for rules that open a host. */
  readonly mayReach: (address: string, port: number, hostname?: string) => boolean;
  /** True for a host that an operator has opened, whose name may be defined in this machine's hosts file. */
  readonly isPrivateHost: (hostname: string, port?: number) => boolean;
  /** Why none of a host's addresses may be reached, as the end of a sentence. */
  readonly explain: (addresses: readonly string[], authority?: string) => string;
  /** Why a host that no line allows is refused, as the end of a sentence; without a port, at any port. */
  readonly notAllowed: (authority: string, hostname: string, port?: number) => string;
}

export class NetworkRefused extends Error {}

export interface ListOptions {
  /** The list opens the private addresses that it names. */
  readonly privateToo: boolean;
  /** The private hosts that the operator opens to entries that list them. */
  readonly privateHosts?: readonly PrivateHost[];
  /** The port on which Berth itself listens, which is never granted. */
  readonly ownPort?: number | undefined;
  readonly server?: string;
  /** The hosts that its code requests, and how to accept a request, as a part of a sentence. */
  readonly requested?: { readonly hosts: readonly AllowedHost[]; readonly acceptance: string } | undefined;
  /** The operator grants hosts on the command line, so that no entry has to list them. */
  readonly byOperator?: boolean;
}

export function listRules(list: readonly AllowedHost[], options: ListOptions): NetworkRules {
  const { privateToo, privateHosts = [], ownPort, server, requested, byOperator = false } = options;
  const isOpened = (hostname: string, port?: number): boolean =>
    privateHosts.some((host) => host.name === hostname && (port === undefined || matchesPort(host, port))) &&
    list.some(({ kind, name, port: listed }) => kind === "host" && name === hostname && (port ?? listed) === listed);
  const mayReach = (address: string, port: number, hostname = address): boolean => {
    if (isMetadataAddress(address) || (port === ownPort && isOwnAddress(address))) return false;
    if (isPublicAddress(address) || (privateToo && namesAddress(list, address, port))) return true;
    return isGrantableAddress(address) && isOpened(hostname, port);
  };
  return rules({
    allows: (hostname, port) => allows(list, hostname, port),
    mayReach,
    isPrivateHost: isOpened,
    notAllowed: (authority, hostname, port) => {
      if (byOperator) return notRequested(authority);
      const entry = server === undefined ? "this server's entry" : `the entry "${server}"`;
      const unlisted = `"network" of ${entry} in mcps does not list it: add "${authority}"`;
      const isRequested = requested?.hosts.some((each) => allows([each], hostname, port ?? each.port));
      return isRequested ? `its code requests it, and ${unlisted}, or ${requested!.acceptance}` : unlisted;
    },
    explain: (addresses, authority = "") => {
      if (addresses.some(isMetadataAddress)) return "this address can never be reached";
      if (ownPort !== undefined && authority.endsWith(`:${ownPort}`) && addresses.some(isOwnAddress))
        return "it is Berth itself";
      if (byOperator) {
        const flag = `--allow-net ${authority}`;
        return `${addresses.join(", ")} is not a public address, which no tag grants: start berth dev with ${flag}`;
      }
      if (!privateToo) return `${NOT_PUBLIC}; ${grantAdvice(authority)}`;
      return (
        `${addresses.join(", ")} is not a public address, so "network" must name it: ` +
        `add ${addresses.map((address) => `"${isIP(address) === 6 ? `[${address}]` : address}:<port>"`).join(" or ")}, ` +
        `or ${grantAdvice(authority)}`
      );
    },
  });
}

function notRequested(authority: string): string {
  const tag = `/** @network ${authority} */`;
  return `nothing grants it: start berth dev with --allow-net ${authority}, or, for a public address, write ${tag} at the head of the file`;
}

function grantAdvice(authority: string): string {
  return `whoever runs this Berth can open it with BERTH_PRIVATE_HOSTS=${authority}`;
}

/** Every host with a public address, or with one listed in `extra`. */
export function publicRules(extra: readonly AllowedHost[] = []): NetworkRules {
  return rules({
    allows: () => true,
    mayReach: (address, port) => isPublicAddress(address) || namesAddress(extra, address, port),
    isPrivateHost: () => false,
    notAllowed: () => "it is not allowed",
    explain: () => NOT_PUBLIC,
  });
}

/** Naming the address would reveal Berth's own network to anonymous callers. */
const NOT_PUBLIC = "it has no public address";

interface RuleParts extends Omit<NetworkRules, "checkUrl" | "checkHost"> {
  readonly allows: (hostname: string, port: number) => boolean;
}

function rules({ allows, mayReach, isPrivateHost, notAllowed, explain }: RuleParts): NetworkRules {
  const checkHost = (hostname: string, port: number): void => {
    if (allows(hostname, port)) return;
    const authority = authorityOf(hostname, port);
    throw new NetworkRefused(`${authority} may not be reached: ${notAllowed(authority, hostname, port)}`);
  };
  return {
    checkHost,
    mayReach,
    isPrivateHost,
    explain,
    notAllowed,
    checkUrl(text) {
      const url = URL.canParse(text) ? new URL(text) : undefined;
      if (url?.protocol !== "http:" && url?.protocol !== "https:") {
        throw new NetworkRefused("only http: and https: URLs can be fetched");
      }
      if (url.username !== "" || url.password !== "") {
        throw new NetworkRefused("a URL with a user name or a password cannot be fetched; send them in a header");
      }
      checkHost(bareHostname(url), portOf(url));
      return url;
    },
  };
}

export function portOf({ port, protocol }: Pick<URL, "port" | "protocol">): number {
  return port === "" ? (protocol === "https:" ? 443 : 80) : Number(port);
}

export function authorityOf(hostname: string, port: number): string {
  return `${isIP(hostname) === 6 ? `[${hostname}]` : hostname}:${port}`;
}
