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

/** The ports of protocols that people write in front of hosts. */
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
 * Reads `host`, `host:port`, `*.domain`, `*` and addresses, each with `protocol://` in front of it or without; the
 * default port is that of the protocol, and 443 where none is written. Returns a text if something is wrong.
 */
export function parseAllowedHost(text: string): AllowedHost | string {
  const [, protocol, rest] = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/(.*)$/s.exec(text) ?? [];
  if (protocol === undefined || rest === undefined) return parseHost(text, HTTPS_PORT);
  const known = protocol.toLowerCase();
  return parseHost(rest, Object.hasOwn(ports, known) ? ports[known] : undefined, text);
}

/** `whole` is what was written, with the protocol. */
function parseHost(text: string, defaultPort: number | undefined, whole = text): AllowedHost | string {
  const parts = /^(\*|(?:\*\.)?[^*/?#@\\\s:[\]]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?$/.exec(text);
  if (!parts) return `"${whole.slice(0, 300)}" is not a host: ${ADVICE}`;
  const [, written = "", digits] = parts;
  const port = digits === undefined ? defaultPort : Number(digits);
  if (port === undefined) return `"${whole.slice(0, 300)}" needs a port: write "${whole.slice(0, 300)}:<port>"`;
  if (port < 1 || port > 65_535) return `"${whole}": a port must be a number from 1 to 65535`;
  if (written === "*") return { kind: "any", name: "", port };
  const kind = written.startsWith("*.") ? "below" : "host";
  const given = kind === "below" ? written.slice(2) : written;
  const name = hostnameOf(given);
  if (name === undefined || name.endsWith(".")) return `"${whole}" is not a host: ${ADVICE}`;
  // "127.1" and "0x7f000001" are addresses, too, but readers of the list cannot see which.
  if (isIP(name) !== 0 && (kind === "below" || bare(given.toLowerCase()) !== name)) {
    return `"${whole}" is an address in an unusual form; write ${name}`;
  }
  return { kind, name, port };
}

/**
 * Reads a comma-separated list of addresses, each with its port or 443: the parts of a private network that are opened
 * for a purpose. Returns a text if something is wrong.
 */
export function parseAddresses(text: string): readonly AllowedHost[] | string {
  const parsed = text.split(",").map((each) => parseAllowedHost(each.trim()));
  const wrong = parsed.find((each) => typeof each === "string");
  if (wrong !== undefined) return wrong;
  const hosts = parsed.filter((each) => typeof each !== "string");
  const named = hosts.find(({ name }) => isIP(name) === 0);
  if (!named) return hosts;
  return `"${named.kind === "host" ? named.name : "*"}" is not an address; write addresses, such as 10.0.0.5:8443`;
}

/** `name` as `bareHostname` gives it. */
export function allows(list: readonly AllowedHost[], name: string, port: number): boolean {
  return list.some((allowed) => {
    if (allowed.port !== port) return false;
    if (allowed.kind === "any") return true;
    return allowed.kind === "host" ? allowed.name === name : name.endsWith(`.${allowed.name}`) && isIP(name) === 0;
  });
}

/** The hosts that each of the lists allows by itself; of private addresses, those that both name. */
export function allowedByBoth(one: readonly AllowedHost[], other: readonly AllowedHost[]): AllowedHost[] {
  const both = one.filter((host) => isCovered(other, host));
  const narrower = other.filter((host) => !both.some((same) => covers(host, same) && covers(same, host)));
  return [...both, ...narrower.filter((host) => isCovered(one, host))];
}

/** True if the list allows every host that this line does. */
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

/** True when the list names this very address. */
export function namesAddress(list: readonly AllowedHost[], address: string, port: number): boolean {
  return list.some(({ kind, name, port: allowed }) => kind === "host" && name === address && allowed === port);
}

/** The host that a program names, as the list has it; undefined for what no URL could name so. */
export function socketHostOf(text: string): string | undefined {
  if (isIP(text) !== 0) return text.includes("%") ? undefined : hostnameOf(isIP(text) === 6 ? `[${text}]` : text);
  // A name may end with a dot, which says that it is whole.
  return /^[^*/?#@\\\s:[\]%]{1,253}$/.test(text) ? hostnameOf(text.replace(/\.$/, "")) : undefined;
}

/** The host of a URL without the brackets of IPv6. */
export function bareHostname({ hostname }: Pick<URL, "hostname">): string {
  return bare(hostname);
}

function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, "");
}

function hostnameOf(text: string): string | undefined {
  try {
    return bareHostname(new URL(`http://${text}/`));
  } catch {
    return undefined;
  }
}
