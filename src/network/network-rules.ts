import { isIP } from "node:net";
import { isPublicAddress } from "./addresses.ts";
import { allows, bareHostname, namesAddress, type AllowedHost } from "./allow-list.ts";

/** The hosts that may be reached. Refusals are worded for the author of the code or the entry. */
export interface NetworkRules {
  /** Throws `NetworkRefused` if the URL is invalid, is not HTTP, or leads to a host that is not allowed. */
  readonly checkUrl: (text: string) => URL;
  /** Throws `NetworkRefused`; `hostname` has no brackets. */
  readonly checkHost: (hostname: string, port: number) => void;
  readonly mayReach: (address: string, port: number) => boolean;
  /** Why none of a host's addresses may be reached, as the end of a sentence. */
  readonly explain: (addresses: readonly string[]) => string;
}

export class NetworkRefused extends Error {}

/** The rules of an entry's `network`. Without `privateToo`, it allows no address of this machine or its network. */
export function listRules(list: readonly AllowedHost[], { privateToo }: { privateToo: boolean }): NetworkRules {
  return rules({
    allows: (hostname, port) => allows(list, hostname, port),
    mayReach: (address, port) => isPublicAddress(address) || (privateToo && namesAddress(list, address, port)),
    notAllowed: '"network" of this server\'s entry in mcps does not list it',
    explain: (addresses) =>
      privateToo
        ? `${addresses.join(", ")} is not a public address, so "network" must name it: ` +
          `add ${addresses.map((address) => `"${isIP(address) === 6 ? `[${address}]` : address}:<port>"`).join(" or ")}`
        : NOT_PUBLIC,
  });
}

/** Every host with a public address, or with one that `besides` names. */
export function publicRules(besides: readonly AllowedHost[] = []): NetworkRules {
  return rules({
    allows: () => true,
    mayReach: (address, port) => isPublicAddress(address) || namesAddress(besides, address, port),
    notAllowed: "it is not allowed",
    explain: () => NOT_PUBLIC,
  });
}

/** Naming the address would reveal to strangers the network that Berth is in. */
const NOT_PUBLIC = "it has no public address";

interface Given extends Pick<NetworkRules, "mayReach" | "explain"> {
  readonly allows: (hostname: string, port: number) => boolean;
  readonly notAllowed: string;
}

function rules({ allows, mayReach, notAllowed, explain }: Given): NetworkRules {
  const checkHost = (hostname: string, port: number): void => {
    if (allows(hostname, port)) return;
    throw new NetworkRefused(`${authorityOf(hostname, port)} may not be reached: ${notAllowed}`);
  };
  return {
    checkHost,
    mayReach,
    explain,
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
