import { createSocket } from "node:dgram";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { connect, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { defaultLimits } from "../../src/limits/limits.ts";
import { EgressSocket } from "../../src/network/egress-socket.ts";
import { Fetches } from "../../src/network/fetches.ts";
import { openPublicFetch } from "../../src/network/public-fetch.ts";
import { TenantSockets } from "../../src/network/tenant-sockets.ts";

/**
 * DNS rebinding against a real name server. Runs in network and mount namespaces of its own, whose `resolv.conf` names the
 * server here: it answers with a public address first, and then with a private one.
 */
export interface RebindingReport {
  /** Connections to private addresses: each is a fault. */
  readonly victims: readonly string[];
  /** The result of each attempt, by its name. */
  readonly outcomes: Readonly<Record<string, string>>;
  /** The names that were looked up. */
  readonly lookedUp: readonly string[];
}

export const rebindingFile = fileURLToPath(import.meta.url);

/** Addresses outside of this machine, which the namespace routes to itself without having them. */
const PUBLIC = "93.184.216.34";
const PUBLIC_V6 = "2606:2800:220:1::5";
const METADATA = "169.254.169.254";
const PORT = 8080;

/** The addresses of a name, for the first, second, … query of each type; the last ones are repeated. */
const NAMES: Readonly<Record<string, readonly (readonly string[])[]>> = {
  "loopback.test": [[PUBLIC], ["127.0.0.1"]],
  "metadata.test": [[PUBLIC], [METADATA]],
  "six.test": [[PUBLIC_V6], ["::1"]],
  "mapped.test": [[PUBLIC], ["::ffff:127.0.0.1"]],
  "any.test": [[PUBLIC], ["0.0.0.0"]],
  "mixed.test": [["127.0.0.1", PUBLIC, "::1"]],
  "unresponsive.test": [["93.184.216.99", "127.0.0.1", "::1"]],
  "redirecting.test": [[PUBLIC]],
  "guest.test": [[PUBLIC], ["127.0.0.1"]],
  "socket.test": [[PUBLIC], ["127.0.0.1"]],
  "self.test": [[PUBLIC], ["127.0.0.1"]],
  "private.test": [["127.0.0.1"]],
};

const REDIRECTS = ["127.0.0.1", "[::ffff:127.0.0.1]", METADATA, "2130706433", "a.localhost", "private.test"].map(
  (host) => `http://${host}:${PORT}/`,
);

async function serveNames(lookedUp: string[]): Promise<void> {
  const queries = new Map<string, number>();
  const server = createSocket("udp4");
  server.on("message", (query, from) => {
    const labels: string[] = [];
    let at = 12;
    for (; query[at]; at += query[at]! + 1) labels.push(query.toString("latin1", at + 1, at + 1 + query[at]!));
    const type = query.readUInt16BE(at + 1);
    const name = labels.join(".").toLowerCase();
    const key = `${name} ${type}`;
    const times = queries.get(key) ?? 0;
    queries.set(key, times + 1);
    lookedUp.push(name);
    const lists = NAMES[name] ?? [];
    const listed = lists[Math.min(times, lists.length - 1)] ?? [];
    const found = listed.filter((address) => address.includes(":") === (type === 28));
    const head = Buffer.from(query.subarray(0, 12));
    head.writeUInt16BE(NAMES[name] ? 0x8180 : 0x8183, 2);
    head.writeUInt16BE(found.length, 6);
    const answers = found.map((address) => {
      const bytes = bytesOf(address);
      const answer = Buffer.alloc(12);
      // The name of the question, type, class, and a time to live of 0.
      [0xc00c, type, 1, 0, 0, bytes.length].forEach((each, index) => answer.writeUInt16BE(each, index * 2));
      return Buffer.concat([answer, bytes]);
    });
    server.send(Buffer.concat([head.subarray(0, 12), query.subarray(12, at + 5), ...answers]), from.port, from.address);
  });
  server.bind(53, "127.0.0.1");
  await once(server, "listening");
}

function bytesOf(address: string): Buffer {
  if (!address.includes(":")) return Buffer.from(address.split(".").map(Number));
  const whole = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = [], tail = []] = whole.split("::").map((half) => half.split(":").filter(Boolean));
  const groups = head.concat(Array<string>(8 - head.length - tail.length).fill("0"), tail);
  return Buffer.from(groups.map((each) => each.padStart(4, "0")).join(""), "hex");
}

async function listen(server: Server, address: string): Promise<void> {
  server.listen(PORT, address);
  await once(server, "listening");
}

async function attack(): Promise<RebindingReport> {
  const [victims, lookedUp]: [string[], string[]] = [[], []];
  const outcomes: Record<string, string> = {};
  await serveNames(lookedUp);
  for (const address of ["127.0.0.1", "::1", METADATA]) {
    const victim = createServer((socket) => {
      victims.push(`${socket.localAddress}`);
      socket.on("error", () => {}).end("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nprivate");
    });
    await listen(victim, address);
  }
  for (const address of [PUBLIC, PUBLIC_V6]) {
    const server = createHttp(({ url = "" }, response) => {
      // Without keep-alive, so that each request looks the name up again.
      response.setHeader("Connection", "close");
      const to = new URL(url, "http://x").searchParams.get("to");
      if (to === null) response.end("public");
      else response.writeHead(307, { Location: to }).end();
    });
    await listen(server, address);
  }

  const fetchIt = openPublicFetch();
  const attempt = async (name: string, url: string): Promise<void> => {
    outcomes[name] = await fetchIt(url, { method: "POST", body: "x" }).then(
      (response) => response.text(),
      (error: Error) => (error.cause as Error | undefined)?.message ?? error.message,
    );
  };
  for (const name of ["loopback", "metadata", "six", "mapped", "any", "mixed", "unresponsive"]) {
    for (const times of [1, 2, 3]) await attempt(`${name} ${times}`, `http://${name}.test:${PORT}/`);
  }
  for (const to of REDIRECTS) {
    await attempt(`redirect to ${to}`, `http://redirecting.test:${PORT}/?to=${encodeURIComponent(to)}`);
  }
  await attempt(
    "redirect to itself",
    `http://self.test:${PORT}/?to=${encodeURIComponent(`http://self.test:${PORT}/`)}`,
  );
  await attackGuests(outcomes);
  return { victims, outcomes, lookedUp: [...new Set(lookedUp)] };
}

/** Attacks the fetches and the sockets of guests. */
async function attackGuests(outcomes: Record<string, string>): Promise<void> {
  const hosts = ["guest.test", "socket.test"].map((name) => ({ kind: "host", name, port: PORT }) as const);
  const fetches = new Fetches(hosts, defaultLimits, { privateToo: true });
  const grant = { tenant: "acme", server: "guest", hosts, privateToo: true, privateHosts: [] };
  const path = join(mkdtempSync(join(tmpdir(), "berth-rebinding-door-")), "door");
  const door = new EgressSocket({ path, grant, tenant: new TenantSockets(defaultLimits) });
  await door.listen();
  for (const id of [1, 2]) {
    const params = { id, url: `http://guest.test:${PORT}/`, method: "GET", headers: [] };
    outcomes[`guest ${id}`] = await fetches.request("fetch", params, { onOver() {} }).then(
      () => "public",
      (error: Error) => error.message,
    );
    const asking = connect(path);
    asking.write(`${JSON.stringify({ connect: { host: "socket.test", port: PORT } })}\n`);
    const [told] = (await once(asking, "data")) as [Buffer];
    outcomes[`socket ${id}`] = String(told).includes('"socket"') ? "public" : String(told);
    asking.destroy();
  }
  door.close();
  rmSync(dirname(path), { recursive: true });
}

if (process.argv[1] === rebindingFile) {
  process.stdout.write(JSON.stringify(await attack()));
  process.exit();
}
