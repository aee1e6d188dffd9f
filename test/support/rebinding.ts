import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer as createHttp } from "node:http";
import { createServer, type Server } from "node:net";
import { fileURLToPath } from "node:url";
import { openPublicFetch } from "../../src/network/public-fetch.ts";
import { call, post, request, startTestBerth } from "./berth.ts";
import { addTenant, onStoreOf } from "./tenants.ts";
import { bearer } from "./tokens.ts";

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
  "upstream.test": [[PUBLIC], ["127.0.0.1"]],
  "issuer.test": [[PUBLIC], ["127.0.0.1"]],
  "self.test": [[PUBLIC], ["127.0.0.1"]],
  "private.test": [["127.0.0.1"]],
};

const REDIRECTS = ["127.0.0.1", "[::ffff:127.0.0.1]", METADATA, "2130706433", "a.localhost", "private.test"].map(
  (host) => `http://${host}:${PORT}/`,
);

const GUEST = `
import net from "node:net";

/** Fetches twice, over two connections. */
export async function get(url: string): Promise<string[]> {
  const said: string[] = [];
  for (let times = 0; times < 2; times++) {
    said.push(await fetch(url).then((r) => r.text(), (error) => String(error.message)));
  }
  return said;
}

/** Connects twice. */
export async function connect(host: string, port: number): Promise<string[]> {
  const said: string[] = [];
  for (let times = 0; times < 2; times++) {
    said.push(await new Promise<string>((resolve) => {
      const socket = net.connect(port, host);
      socket.on("data", (data) => resolve(String(data).split("\\r\\n").at(-1)!)).on("error", (error) => resolve(error.message));
      socket.write("GET /socket HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n");
    }));
  }
  return said;
}
`;

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
  await attackBerth(outcomes);
  return { victims, outcomes, lookedUp: [...new Set(lookedUp)] };
}

async function attackBerth(outcomes: Record<string, string>): Promise<void> {
  const berth = await startTestBerth({});
  const network = [`guest.test:${PORT}`, `socket.test:${PORT}`];
  const upstream = `mcp+http://upstream.test:${PORT}/`;
  await onStoreOf(berth, (store) =>
    addTenant(store, "acme", {
      servers: { guest: GUEST },
      variables: { mcps: JSON.stringify({ guest: { network }, remote: { upstream } }) },
      oauth: { issuer: `https://issuer.test:${PORT}` },
    }),
  );
  const at = (server: string): string => `${berth.url}/t/acme/mcp/${server}`;
  const textOf = (answer: unknown): string => JSON.stringify(answer);
  outcomes["guest fetch"] = textOf(await call(at("guest"), "get", { url: `http://guest.test:${PORT}/` }));
  outcomes["guest socket"] = textOf(await call(at("guest"), "connect", { host: "socket.test", port: PORT }));
  for (const times of [1, 2]) {
    outcomes[`upstream ${times}`] = textOf((await post(at("remote"), request("tools/list"))).body);
    outcomes[`issuer ${times}`] = textOf((await post(at("guest"), request("tools/list"), bearer(unsigned()))).status);
  }
  await berth.close();
}

/** A token that looks as if the tenant's issuer had signed it, so that Berth asks for the keys. */
function unsigned(): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "RS256", kid: "1", typ: "at+jwt" })}.${part({ iss: `https://issuer.test:${PORT}` })}.AAAA`;
}

if (process.argv[1] === rebindingFile) {
  process.stdout.write(JSON.stringify(await attack()));
  process.exit();
}
