import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { promisify } from "node:util";
import { rebindingFile, type RebindingReport } from "../support/rebinding.ts";
import { temporaryFolder } from "../support/suite.ts";

/** Routes the addresses that the name server gives to this machine, which does not have them: Berth takes them for public. */
const WORLD = `
ip link set lo up
ip route add local 93.184.216.0/24 dev lo
ip route add local 169.254.169.254/32 dev lo
ip -6 route add local 2606:2800:220:1::/64 dev lo
echo 1 > /proc/sys/net/ipv6/ip_nonlocal_bind
mount --bind "$1" /etc/resolv.conf
shift
exec "$@"
`;

const namespaces = ["--net", "--mount", ...(process.getuid?.() === 0 ? [] : ["--map-root-user"])];

function lacking(): string | false {
  try {
    execFileSync("unshare", [...namespaces, "sh", "-c", "ip link set lo up"], { stdio: "ignore" });
    return false;
  } catch {
    return "needs unshare and ip, and permission to create network namespaces";
  }
}

describe("DNS rebinding by a live name server", { skip: lacking() }, () => {
  let report: RebindingReport;
  const folder = temporaryFolder();

  before(async () => {
    const resolvConf = join(folder, "resolv.conf");
    writeFileSync(resolvConf, "nameserver 127.0.0.1\n");
    const command = ["sh", "-ec", WORLD, "world", resolvConf, process.execPath, rebindingFile];
    const { stdout } = await promisify(execFile)("unshare", [...namespaces, ...command]);
    report = JSON.parse(stdout) as RebindingReport;
  });

  it("connects to no private address, whichever way a name or a redirect leads there", () => {
    assert.deepEqual(report.victims, []);
  });

  it("looks names up at that server, and reaches the public addresses among them", () => {
    const { outcomes, lookedUp } = report;
    for (const name of ["loopback", "metadata", "six", "mapped", "any", "mixed", "guest", "socket"])
      assert.equal(outcomes[`${name} 1`], "public", name);
    for (const name of ["guest", "socket"]) assert.ok(lookedUp.includes(`${name}.test`), name);
  });

  it("refuses a name that has become private at the next connection, and says so", () => {
    const { outcomes } = report;
    for (const name of ["loopback", "metadata", "six", "mapped", "any"]) {
      for (const times of [2, 3]) assert.match(outcomes[`${name} ${times}`]!, /has no public address/, name);
    }
    assert.equal(outcomes["mixed 3"], "public");
    for (const name of ["guest", "socket"]) assert.match(outcomes[`${name} 2`]!, /is not a public address/, name);
    for (const [name, outcome] of Object.entries(outcomes)) {
      if (name.startsWith("redirect")) assert.match(outcome, /has no (?:public )?address/, name);
    }
  });
});
