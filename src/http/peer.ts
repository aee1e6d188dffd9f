import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";

/** The address of a socket; IPv4 is written as such on IPv6 sockets, too. */
export function plainAddress(address = ""): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}

/**
 * The address by which a request is counted: for IPv6 the sender's network, since the sender has all of its addresses.
 * A proxy's word on its client counts only when a proxy is configured, and only the last address: all before it come
 * from the client itself.
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
