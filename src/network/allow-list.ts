import { isIP } from "node:net";
import { isPublicAddress } from "./addresses.ts";

/** One line of a server's allow-list: a host, or all hosts below a domain, at one port. */
export interface AllowedHost {
  /** `any`: every host; `below`: the hosts below `name`, and not `name` itself. */
  readonly kind: "host" | "below" | "any";
  /** As in URLs: lower case, punycode, IPv6 without brackets. Empty for `any`. */
  readonly name: string;
  readonly port: number;
}

const HTTPS_PORT = 443;
const ADVICE = 'write "api.example.org", "db.example.org:5432", "redis://cache.example.org", "*.example.org" or "*"';

/** Default ports of protocols that users write in front of hosts. */
const ports: Readonly<Record<string, number>> = {
  amqp: 5672,
  amqps: 5671,
  http: 80,
  https: 443,
  ldap: 389,
  ldaps: 636,
  mongodb: 27_017,
  mqtt: 1883,
  mqtts: 8883,
  mysql: 3306,
  nats: 4222,
  postgres: 5432,
  postgresql: 5432,
  redis: 6379,
  rediss: 6379,
  smtp: 25,
  smtps: 465,
  ws: 80,
  wss: 443,
};

/**
 * Parses `host`, `host:port`, `*.domain`, `*` and addresses, each with or without `protocol://`; the default port is
 * that of the protocol, or 443 without one. Returns an error message for an invalid line.
 */
export function parseAllowedHost(text: string): AllowedHost | string {
  const [, protocol, rest] = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/(.*)$/s.exec(text) ?? [];
  if (protocol === undefined || rest === undefined) return parseHost(text, HTTPS_PORT);
  const scheme = protocol.toLowerCase();
  return parseHost(rest, Object.hasOwn(ports, scheme) ? ports[scheme] : undefined, text);
}

/** `whole` is the original text, with the protocol. */
function parseHost(text: string, defaultPort: number | undefined, whole = text): AllowedHost | string {
  const parts = /^(\*|(?:\*\.)?[^*/?#@\\\s:[\]]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?$/.exec(text);
  if (!parts) return `"${whole.slice(0, 300)}" is not a host: ${ADVICE}`;
  const [, host = "", digits] = parts;
  const port = digits === undefined ? defaultPort : Number(digits);
  if (port === undefined) return `"${whole.slice(0, 300)}" needs a port: write "${whole.slice(0, 300)}:<port>"`;
  if (port < 1 || port > 65_535) return `"${whole}": a port must be a number from 1 to 65535`;
  if (host === "*") return { kind: "any", name: "", port };
  const kind = host.startsWith("*.") ? "below" : "host";
  const hostText = kind === "below" ? host.slice(2) : host;
  const name = urlHostname(hostText);
  if (name === undefined || name.endsWith(".")) return `"${whole}" is not a host: ${ADVICE}`;
  // "127.1" and "0x7f000001" are addresses, too, but readers of the list cannot tell which.
  if (isIP(name) !== 0 && (kind === "below" || withoutBrackets(hostText.toLowerCase()) !== name)) {
    return `"${whole}" is an address in an unusual form; write ${name}`;
  }
  return { kind, name, port };
}

/**
 * Parses a comma-separated list of addresses, each with its port or 443: the parts of a private network that are opened
 * for a purpose. Returns an error message for an invalid list.
 */
export function parseAddresses(text: string): readonly AllowedHost[] | string {
  const parsed = text.split(",").map((each) => parseAllowedHost(each.trim()));
  const problem = parsed.find((each) => typeof each === "string");
  if (problem !== undefined) return problem;
  const hosts = parsed.filter((each) => typeof each !== "string");
  const named = hosts.find(({ name }) => isIP(name) === 0);
  if (!named) return hosts;
  return `"${named.kind === "host" ? named.name : "*"}" is not an address; write addresses, such as 10.0.0.5:8443`;
}

/** `name` is in the form of `bareHostname`. */
export function allows(list: readonly AllowedHost[], name: string, port: number): boolean {
  return list.some((allowed) => {
    if (allowed.port !== port) return false;
    if (allowed.kind === "any") return true;
    return allowed.kind === "host" ? allowed.name === name : name.endsWith(`.${allowed.name}`) && isIP(name) === 0;
  });
}

/** The hosts that both lists allow; private addresses must be named by both. */
export function allowedByBoth(one: readonly AllowedHost[], other: readonly AllowedHost[]): AllowedHost[] {
  const both = one.filter((host) => isCovered(other, host));
  const narrower = other.filter((host) => !both.some((same) => covers(host, same) && covers(same, host)));
  return [...both, ...narrower.filter((host) => isCovered(one, host))];
}

export function isCovered(list: readonly AllowedHost[], host: AllowedHost): boolean {
  return list.some((wider) => covers(wider, host));
}

function covers(wider: AllowedHost, { kind, name, port }: AllowedHost): boolean {
  if (wider.port !== port) return false;
  if (wider.kind === kind && wider.name === name) return true;
  switch (wider.kind) {
    case "any":
      return kind !== "host" || isIP(name) === 0 || isPublicAddress(name);
    case "below":
      return kind !== "any" && isIP(name) === 0 && name.endsWith(`.${wider.name}`);
    case "host":
      return false;
  }
}

/** True when the list names exactly this address. */
export function namesAddress(list: readonly AllowedHost[], address: string, port: number): boolean {
  return list.some(({ kind, name, port: allowed }) => kind === "host" && name === address && allowed === port);
}

/** The host that a program names, in the form of the list; undefined if no URL could name it so. */
export function normalizeHost(text: string): string | undefined {
  if (isIP(text) !== 0) return text.includes("%") ? undefined : urlHostname(isIP(text) === 6 ? `[${text}]` : text);
  // A final dot marks a name as fully qualified.
  return /^[^*/?#@\\\s:[\]%]{1,253}$/.test(text) ? urlHostname(text.replace(/\.$/, "")) : undefined;
}

/** Without the brackets of IPv6. */
export function bareHostname({ hostname }: Pick<URL, "hostname">): string {
  return withoutBrackets(hostname);
}

function withoutBrackets(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, "");
}

function urlHostname(text: string): string | undefined {
  try {
    return bareHostname(new URL(`http://${text}/`));
  } catch {
    return undefined;
  }
}
