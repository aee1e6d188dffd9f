import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeImage, type TestSources } from "./berth.ts";
import { freePort } from "./free-port.ts";
import { keysOfAll, ON_POSTGRES, startPostgres, type TestPostgres } from "./postgres.ts";
import { ServeProcess } from "./serve-process.ts";
import { until } from "./until.ts";
import { WorkerNodes } from "./worker-nodes.ts";

/** Nodes are processes of their own; in some extended tests, workers of one `berth serve`. */
export const ON_WORKERS = process.env["BERTH_TEST_WORKERS"] === "1";
/** For the names of tests. */
export const NODES_TITLE = ON_POSTGRES ? "three processes on Postgres" : ON_WORKERS ? "two workers" : "two processes";

export interface NodesOptions extends Omit<TestSources, "config" | "log"> {
  /**
   * The environment of each node, beside that of all; its length is the number of nodes, of which there are at least two,
   * on Postgres three. Workers have the same.
   */
  readonly envs?: readonly Readonly<Record<string, string>>[];
  /** They are on a Postgres of their own, each with another data folder; so in a run with `--postgres`. */
  readonly onPostgres?: boolean;
  /** The address of another database that they are on. */
  readonly database?: string;
}

/** Several nodes on one data folder, or on one Postgres, behind haproxy, which has each request go to the next of them. */
export class Nodes {
  readonly folder: string;
  readonly postgres: TestPostgres | undefined;
  /** The address of their database. */
  readonly database: string | undefined;
  /** The address of haproxy. */
  readonly url: string;
  /** The addresses of the nodes themselves, which stay the same when a node starts again. */
  urls: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  readonly #envs: NonNullable<NodesOptions["envs"]>;
  readonly #ports: readonly number[];
  readonly #nodes: (ServeProcess | undefined)[] = [];
  #workers: WorkerNodes | undefined;
  #proxy: ChildProcess | undefined;

  private constructor(
    folder: string,
    postgres: TestPostgres | undefined,
    env: Readonly<Record<string, string>>,
    envs: NonNullable<NodesOptions["envs"]>,
    [port, ...ports]: readonly number[],
  ) {
    this.folder = folder;
    this.postgres = postgres;
    this.database = env["BERTH_DATABASE"];
    this.#env = env;
    this.#envs = envs;
    this.#ports = ports;
    this.url = `http://127.0.0.1:${port}`;
    this.urls = ports.map((each) => `http://127.0.0.1:${each}`);
  }

  static async start({
    env,
    envs = [],
    database: given,
    onPostgres = ON_POSTGRES || given !== undefined,
    ...sources
  }: NodesOptions): Promise<Nodes> {
    const folder = await mkdtemp(join(tmpdir(), "berth-nodes-"));
    const made = await makeImage(folder, sources);
    const ports: number[] = [];
    const count = Math.max(envs.length, onPostgres ? 3 : 2);
    const each = Array.from({ length: count }, (_, index) => ({
      ...(onPostgres && { BERTH_DATA: join(folder, `data-${index}`) }),
      ...envs[index],
    }));
    while (ports.length <= count) ports.push(await freePort());
    const postgres = onPostgres && given === undefined ? await startPostgres() : undefined;
    const url = given ?? (await postgres?.database());
    const database = url !== undefined && { BERTH_DATABASE: url, ...keysOfAll() };
    const nodes = new Nodes(folder, postgres, { ...made, BERTH_LOG: "warn", ...database, ...env }, each, ports);
    try {
      if (ON_WORKERS) await nodes.#startWorkers();
      // The first one makes the store.
      else for (const index of each.keys()) await nodes.startNode(index);
      await nodes.#startProxy();
      return nodes;
    } catch (error) {
      await nodes.close();
      throw error;
    }
  }

  node(index: number): ServeProcess {
    return this.#nodes[index]!;
  }

  /** Starts a node that was ended, at the same address; a worker has started by itself. */
  async startNode(index: number): Promise<void> {
    if (this.#workers) return this.#workers.untilReplaced(index);
    const env = { ...this.#env, ...this.#envs[index], BERTH_PORT: String(this.#ports[index]) };
    this.#nodes[index] = await ServeProcess.start([], env);
    if (this.#proxy) await this.#untilUsed();
  }

  async endNode(index: number, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    await (this.#workers?.end(index, signal) ?? this.#nodes[index]!.end(signal));
  }

  async close(): Promise<void> {
    if (this.#proxy?.exitCode === null && this.#proxy.kill("SIGKILL")) await once(this.#proxy, "exit");
    await Promise.all([this.#workers?.close(), ...this.#nodes.map(async (node) => node?.end("SIGTERM"))]);
    await this.postgres?.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  async #startWorkers(): Promise<void> {
    this.#workers = await WorkerNodes.start(this.#env, this.#envs.length);
    this.urls = this.#workers.urls;
  }

  async #startProxy(): Promise<void> {
    const file = join(this.folder, "haproxy.cfg");
    const backend = this.#workers ? workersBackend(this.#workers.served.url) : processesBackend(this.#ports);
    await writeFile(file, proxyConfig(Number(new URL(this.url).port), backend));
    const env = { ...process.env, PATH: `${process.env["PATH"]}:/usr/sbin:/usr/local/sbin` };
    const proxy = spawn("haproxy", ["-db", "-f", file], { stdio: ["ignore", "ignore", "pipe"], env });
    this.#proxy = proxy;
    let said = "";
    proxy.stderr.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-4_096)));
    const ended = once(proxy, "exit").then(() => {
      throw new Error(`haproxy has ended: ${said}`);
    });
    await Promise.race([this.#untilUsed(), ended]);
    ended.catch(() => {});
  }

  /** Resolves when haproxy gives requests to all nodes that run. */
  async #untilUsed(): Promise<void> {
    const running = this.#workers
      ? 1
      : this.#nodes.filter((node) => node && node.child.exitCode === null && !node.child.killed).length;
    const used = new Set<string>();
    await until(async () => {
      const response = await fetch(`${this.url}/healthz`).catch(() => undefined);
      const node = response?.ok ? response.headers.get("X-Node") : undefined;
      if (node) used.add(node);
      return used.size >= running;
    }, "haproxy reaches the nodes");
  }
}

/** A client that leaves is gone for the node as well, which is how a modern client cancels. */
function proxyConfig(port: number, backend: string): string {
  return `global
  maxconn 2000
defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  timeout check 10s
  option abortonclose
  retries 3
  option redispatch 1
  retry-on conn-failure
frontend clients
  bind 127.0.0.1:${port}
  default_backend nodes
backend nodes
  http-response set-header X-Node %s
${backend}
`;
}

/** Each request goes to the next node, also on one connection of a client; a node that is not ready gets none. */
function processesBackend(ports: readonly number[]): string {
  const servers = ports.map((each, index) => `  server node${index} 127.0.0.1:${each} check inter 200ms fall 1 rise 1`);
  return ["  balance roundrobin", "  option httpchk GET /readyz", ...servers].join("\n");
}

/** Each request has a connection of its own, which goes to the next worker. */
function workersBackend(url: string): string {
  return `  option http-server-close
  http-reuse never
  server workers ${new URL(url).host}`;
}

/** The environment in which a process takes the time to be `seconds` later than it is; its timers run as they should. */
export function withClockAhead(seconds: number): Record<string, string> {
  const preloaded = execFileSync("faketime", ["-f", "+0s", "printenv", "LD_PRELOAD"], { encoding: "utf8" }).trim();
  return {
    LD_PRELOAD: preloaded,
    FAKETIME: `${seconds < 0 ? "" : "+"}${seconds}s`,
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
  };
}
