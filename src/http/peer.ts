/** An address as a socket tells it; IPv4 is written as itself on sockets that take IPv6, too. */
export function plainAddress(address = ""): string {
  return address.replace(/^::ffff:/i, "");
}
