import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";

/** An address as a socket tells it; IPv4 is written as itself on sockets that take IPv6, too. */
export function plainAddress(address = ""): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}

/**
 * The address that a request comes from, for counting: of IPv6 the network of its sender, who has all addresses of it.
 * What a proxy says of its client is believed only where one is configured, and only the last that was said: everything
 * before it comes from the client itself.
 */
export function peerOf({ headers, socket }: IncomingMessage, isProxied: boolean): string {
  const forwarded = isProxied ? headers["x-forwarded-for"] : undefined;
  const last = plainAddress([forwarded ?? ""].flat().join().split(",").at(-1)!.trim());
  const address = isIP(last) === 0 ? plainAddress(socket.remoteAddress) : last;
  return isIP(address) === 6 ? networkOf(address) : address;
}

const GROUPS = 8;
const NETWORK_GROUPS = 4;

/** The first 64 bits. */
function networkOf(address: string): string {
  const [before = "", after] = address.split("::");
  const groups = before.split(":").filter(Boolean);
  const rest = after === undefined ? [] : after.split(":").filter(Boolean);
  const missing = Math.max(0, GROUPS - groups.length - rest.length);
  const all = [...groups, ...Array.from({ length: missing }, () => "0"), ...rest];
  return all
    .slice(0, NETWORK_GROUPS)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
