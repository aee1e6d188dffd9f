import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { commandOf, descendants, isAlive } from "./processes.ts";
import { ServeProcess } from "./serve-process.ts";
import { until } from "./until.ts";

/** A connection that no worker has by then is lost. */
const TAKEN_MS = 2_000;

/**
 * The workers of one `berth serve`, each also at an address of its own, with the same port. Which worker gets a
 * connection, its primary decides: these addresses connect until the wanted one has it.
 */
export class WorkerNodes {
  readonly served: ServeProcess;
  readonly #pids: number[];
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  #connecting: Promise<unknown> = Promise.resolve();

  private constructor(served: ServeProcess) {
    this.served = served;
    this.#pids = workersOf(served);
  }

  static async start(env: Readonly<Record<string, string>>, workers: number): Promise<WorkerNodes> {
    const nodes = new WorkerNodes(await ServeProcess.start(["--workers", String(workers)], env));
    const port = Number(new URL(nodes.served.url).port);
    for (let index = 0; index < workers; index++) {
      const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => void nodes.#pass(client, index));
      nodes.#servers.push(server.listen(port, `127.0.0.${index + 2}`));
      await once(server, "listening");
    }
    return nodes;
  }

  get urls(): string[] {
    return this.#servers.map((server) => {
      const { address, port } = server.address() as AddressInfo;
      return `http://${address}:${port}`;
    });
  }

  async end(index: number, signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const pid = this.#pids[index]!;
    process.kill(pid, signal);
    await until(() => !isAlive(pid));
  }

  /** Resolves when another worker serves in place of one that ended. */
  async untilReplaced(index: number): Promise<void> {
    this.#pids[index] = await until(() => workersOf(this.served).find((pid) => !this.#pids.includes(pid)));
    await until(async () => (await fetch(`${this.urls[index]}/readyz`).catch(() => undefined))?.ok);
  }

  async close(): Promise<void> {
    for (const server of this.#servers) server.close();
    await this.served.end("SIGTERM");
    for (const socket of this.#sockets) socket.destroy();
  }

  async #pass(client: Socket, index: number): Promise<void> {
    this.#keep(client);
    // One after another, as each of them gets the next worker.
    const connecting = this.#connecting.then(() => this.#connect(index)).catch(() => undefined);
    this.#connecting = connecting;
    const worker = await connecting;
    if (!worker || client.destroyed) {
      client.destroy();
      worker?.destroy();
      return;
    }
    client.pipe(worker).pipe(client);
    client.on("close", () => worker.destroy());
    worker.on("close", () => client.destroy());
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    return socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
  }

  /** Undefined when the worker has ended. */
  async #connect(index: number): Promise<Socket | undefined> {
    const { hostname: host, port } = new URL(this.served.url);
    while (isAlive(this.#pids[index]!)) {
      const socket = this.#keep(connect({ host, port: Number(port), allowHalfOpen: true, noDelay: true }));
      await once(socket, "connect");
      const isHeldBy = (pid: number): boolean => holds(pid, socket);
      // One that takes the place of an ended one may have it; nobody has it where one has ended that had not taken it.
      const holder = await until(
        () => this.#pids.find(isHeldBy) ?? workersOf(this.served).find(isHeldBy),
        "a worker takes a connection",
        TAKEN_MS,
      ).catch(() => undefined);
      if (holder === this.#pids[index]) return socket;
      socket.destroy();
      await sleep(1);
    }
    return undefined;
  }
}

export function workersOf(served: ServeProcess): number[] {
  return descendants(served.child.pid).filter((pid) => /(?:berth\.cjs|support\/cli\.js) serve/.test(commandOf(pid)));
}

/** True when the process has the other end of a connection on this machine. */
function holds(pid: number, { localPort, remotePort }: Socket): boolean {
  const [own, other] = [remotePort!, localPort!].map((port) => `:${port.toString(16).toUpperCase().padStart(4, "0")} `);
  const line = readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .find((each) => new RegExp(`^ *\\d+: \\w+${own}\\w+${other}`).test(each));
  const inode = line?.trim().split(/ +/)[9];
  return inode !== undefined && filesOf(pid).includes(`socket:[${inode}]`);
}

function filesOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((file) => linkOf(`/proc/${pid}/fd/${file}`) ?? []);
  } catch {
    return [];
  }
}

function linkOf(file: string): string | undefined {
  try {
    return readlinkSync(file);
  } catch {
    return undefined;
  }
}
