import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { packageVersion, type Config } from "./config.ts";
import { openCompiler } from "./discover/compiler.ts";
import { compileKey } from "./discover/key.ts";
import { BerthError } from "./errors.ts";
import { openExecutor } from "./executor/open.ts";
import { openHost } from "./host/host.ts";
import { closeHttpServer, createHttpServer } from "./http/server.ts";
import { applyImage } from "./image/apply.ts";
import { readImage } from "./image/read.ts";
import type { Log } from "./log.ts";
import { createEndpoint } from "./mcp/endpoint.ts";
import { openSqliteStore } from "./store/sqlite.ts";

/** The embedded tenant. */
const TENANT = "default";

export interface Berth {
  /** Where it listens, with the port that was chosen. */
  readonly url: string;
  /** Ends calls and streams with their results, then every process. */
  close(): Promise<void>;
}

/** The composition root: the only place that knows all parts. Rejects when something that it needs cannot be opened. */
export async function startBerth(config: Config, log: Log): Promise<Berth> {
  const closers: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const closeOne of closers.splice(0).toReversed()) await closeOne();
  };
  const opened = <T extends { close(): Promise<void> }>(part: T): T => {
    closers.push(() => part.close());
    return part;
  };

  try {
    const store = opened(await openSqliteStore({ dataDir: config.dataDir }));
    const report = await applyImage(store, TENANT, await readImage(config.imageDir, config.image));
    for (const kept of report.kept) log.warn({ kept }, "a name keeps a person's edit, not what the image says");

    const executor = opened(await openExecutor({ mode: config.guests, limits: config.limits, log }));
    if (executor.isolation === "trusted")
      log.warn({ reason: executor.reason }, "guest code runs trusted, not sandboxed");
    const compiler = opened(openCompiler(config.limits));

    const host = await openHost([TENANT], {
      store,
      executor,
      compile: (source) => compiler.compile(source),
      compileKey,
      log,
      writable: config.image !== "readonly",
      limits: config.limits,
    });
    const endpoint = createEndpoint({ host, berthVersion: packageVersion(), log });
    const { isolation } = executor;
    const server = createHttpServer({ ...config, host, endpoint, tenant: TENANT, isolation, log });
    await listen(server, config);
    closers.push(() => closeHttpServer(server, config.limits.shutdownMs));
    return { url: urlOf(server, config.host), close };
  } catch (error) {
    await close();
    throw error;
  }
}

function urlOf(server: Server, host: string): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function listen(server: Server, { host, port }: Config): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const taken =
        error.code === "EADDRINUSE" ? `port ${port} is taken; choose another with BERTH_PORT` : error.message;
      reject(new BerthError("config_invalid", taken, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
}
