import { BlockList, isIP } from "node:net";
import os from "node:os";

/**
 * Distinguishes public addresses from all others: those of this machine, of its network, and those that represent
 * another address (IANA special-purpose registries; RFC 6890, RFC 4291, RFC 6052), including the agent of Azure's
 * hosts.
 */
const notPublic = new BlockList();
for (const [network, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["168.63.129.16", 32],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const) {
  notPublic.addSubnet(network, bits, "ipv4");
}
// Within the global unicast addresses: Teredo and its neighbours, documentation, 6to4.
for (const [network, bits] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const) {
  notPublic.addSubnet(network, bits, "ipv6");
}
/** Nothing else is global unicast: not `::1`, `fc00::/7`, `fe80::/10`, `::ffff:0:0/96`, `64:ff9b::/96`, `ff00::/8`. */
const globalUnicast = new BlockList();
globalUnicast.addSubnet("2000::", 3, "ipv6");

/** False also for text that is not an address. */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !notPublic.check(address, "ipv4") && !isInterfaceAddress(address, "ipv4");
    case 6:
      // With a zone it is an address of this machine's own links.
      return (
        !address.includes("%") &&
        globalUnicast.check(address, "ipv6") &&
        !notPublic.check(address, "ipv6") &&
        !isInterfaceAddress(address, "ipv6")
      );
    default:
      return false;
  }
}

/** Read each time, because addresses change. Only a firewall can protect what listens there from the outside. */
function isInterfaceAddress(address: string, family: "ipv4" | "ipv6"): boolean {
  const interfaces = new BlockList();
  for (const each of Object.values(os.networkInterfaces()).flatMap((all) => all ?? [])) {
    if (each.family.toLowerCase() === family) interfaces.addAddress(each.address, family);
  }
  return interfaces.check(address, family);
}

/**
 * Addresses of private networks, and of this machine, that an operator may grant. Excludes those that represent another
 * address, name a group, or belong to a link (where clouds give each machine its credentials).
 */
const grantable = new BlockList();
for (const [network, bits, family] of [
  ["10.0.0.0", 8, "ipv4"],
  ["100.64.0.0", 10, "ipv4"],
  ["127.0.0.0", 8, "ipv4"],
  ["172.16.0.0", 12, "ipv4"],
  ["192.168.0.0", 16, "ipv4"],
  ["::1", 128, "ipv6"],
  ["fc00::", 7, "ipv6"],
] as const) {
  grantable.addSubnet(network, bits, family);
}

/** The services of clouds that give credentials to any process on the machine: AWS, Google, Azure, Alibaba, Oracle. */
const metadata = new BlockList();
for (const [network, bits, family] of [
  ["100.100.100.200", 32, "ipv4"],
  ["168.63.129.16", 32, "ipv4"],
  ["169.254.0.0", 16, "ipv4"],
  ["192.0.0.192", 32, "ipv4"],
  ["fd00:ec2::", 32, "ipv6"],
  ["fd20:ce::", 32, "ipv6"],
] as const) {
  metadata.addSubnet(network, bits, family);
}

/** True for an address that is not public, but that an operator's grant can open. */
export function isGrantableAddress(address: string): boolean {
  const family = familyOf(address);
  if (!family || address.includes("%") || isMetadataAddress(address)) return false;
  return grantable.check(address, family) || isInterfaceAddress(address, family);
}

/** True for an address that is never granted. */
export function isMetadataAddress(address: string): boolean {
  const family = familyOf(address);
  return family !== undefined && metadata.check(address, family);
}

/** True for every address of this machine itself. */
export function isOwnAddress(address: string): boolean {
  const family = familyOf(address);
  return family !== undefined && (machine.check(address, family) || isInterfaceAddress(address, family));
}

/** `BlockList` also matches an IPv4 address that is written as IPv6. */
const machine = new BlockList();
machine.addSubnet("127.0.0.0", 8, "ipv4");
machine.addSubnet("0.0.0.0", 8, "ipv4");
machine.addAddress("::1", "ipv6");
machine.addAddress("::", "ipv6");

function familyOf(address: string): "ipv4" | "ipv6" | undefined {
  const version = isIP(address);
  return version === 0 ? undefined : version === 4 ? "ipv4" : "ipv6";
}
