import { closeSync, openSync } from "node:fs";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { devNull } from "node:os";
import type { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import type { Config } from "../config.ts";
import type { Figures } from "../features/feature.ts";
import type { ServerSummary } from "../host/catalog/overview.ts";
import type { LiveEvent } from "../host/journal/record.ts";
import { ALL_SERVERS } from "../host/serving/aggregate.ts";
import { SignIns } from "../http/access/sign-in.ts";
import type { Readiness } from "../http/health.ts";
import { applyImage } from "../image/apply.ts";
import { readImage } from "../image/read.ts";
import { clock } from "../lib/clock.ts";
import { isDescriptorShortage } from "../lib/error-mapping.ts";
import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { Problem } from "../lib/problem.ts";
import { createSealer } from "../lib/seal.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { settlesWithin, within } from "../lib/within.ts";
import type { Limits } from "../limits/limits.ts";
import { StdioConnection } from "../mcp/stdio/stdio.ts";
import { openGuarded } from "../processes/spawn/guard.ts";
import { openSpawnHelper } from "../processes/spawn/spawn-helper.ts";
import type { Spawner } from "../processes/spawn/spawn.ts";
import type { Store } from "../store/store.ts";
import { openCore, type Core, type Fill, type OwnGrants } from "./core.ts";
import { listen } from "./listen.ts";
import { REPLACE_MS } from "./worker.ts";

const SIGNED_OUT = "signed-out";
/** The shares of `shutdownMs` after which requests and processes that have not ended are ended. */
const REQUESTS_SHARE = 0.7;
const PROCESSES_SHARE = 0.85;
/** Likewise the time for writing the answers that ending guest code has just produced. */
const LAST_WORDS_SHARE = 0.1;

export interface Berth {
  /** The address where it listens, with the actual port. */
  readonly url: string;
  /** A server, with its offers and its problems. */
  server(name: string): Promise<ServerSummary | undefined>;
  /** The problems that keep a served server's definition from loading, which is tried. */
  loadProblems(name: string): Promise<readonly Problem[]>;
  /** Calls the follower for what happens on servers, as it happens: calls, lines, questions, reads, fetches, connections. */
  onLiveEvent(follower: (event: LiveEvent) => void): void;
  /** Serves the current names in the store. */
  reload(): Promise<void>;
  /** Gives servers another value of a secret with their next call. */
  secretChanged(name: string): void;
  /** Resolves when another process restored the store: this Berth should be closed, and another one started. */
  readonly replaced: Promise<void>;
  /** The figures of this process. */
  figures(): Promise<Figures>;
  /**
   * Leaves what is to come to other processes at this address: resolves when clients have gone there, and what was under
   * way has ended, for which it has `REPLACE_MS`. `close` it then.
   */
  retire(): Promise<void>;
  /** Ends calls and streams with their results, then every process. */
  close(): Promise<void>;
}

/** The processes that serve at the same address. */
interface Siblings {
  /** The port at which they serve. Where it is given, this one takes no connections before it is ready. */
  readonly port: number | undefined;
  /** The figures of all. */
  readonly figures: () => Promise<readonly Figures[]>;
}

/**
 * The composition root, with `core.ts`: the only places that know all parts. Serves the boot image, or the result of
 * `fill`. Rejects when something that it needs cannot be opened.
 */
export async function startBerth(
  config: Config,
  log: Log,
  fill: Fill = fromImage(config, log),
  siblings?: Siblings,
  ownGrants?: OwnGrants,
): Promise<Berth> {
  // V8 would let garbage take three times the memory in use: hundreds of megabytes with thousands of servers.
  setFlagsFromString("--heap-growing-percent=30");
  // Serving on stdio does not wait for it.
  const { createHttpServer } = await import("../http/server.ts");
  const readiness = new ServiceReadiness(log, config.limits);
  const http = createHttpServer(config, readiness, log);
  const { server } = http;
  if (siblings?.port === undefined) await listen(server, config);
  const spawner = openSpawnHelper({
    onGone: (exit) => log.warn(exit, "the spawn helper has ended; processes start directly now"),
    onStderr: (stderr) => log.warn({ stderr }, "the spawn helper wrote to stderr"),
  });
  const starting = (step: string): void => readiness.starting(step);
  const port = siblings?.port ?? (server.address() as AddressInfo).port;
  const opening = openCore(config, log, fill, starting, spawner, port, ownGrants);
  const core = await opening.catch((error: unknown) => {
    server.close();
    server.closeAllConnections();
    throw error;
  });
  const { host, endpoint, executor, journal, store, cluster, metrics } = core;
  const sealer = createSealer(core.sealKeys, () => store.now());
  const signIns = new SignIns(sealer, store, config.limits, (id) => cluster.tell(SIGNED_OUT, { id }));
  cluster.on(SIGNED_OUT, ({ id }) => signIns.endedElsewhere(id as string));
  const { allowedHosts, allowedOrigins, publicUrl, publicPath, limits } = config;
  const features = await Promise.all(
    core.features.map(async ({ routes }) => (await routes?.(siblings?.figures)) ?? {}),
  );
  http.serve({
    ...core,
    features,
    unheardMs: () => store.unheardMs(),
    allowedHosts,
    allowedOrigins,
    publicUrl,
    publicPath,
    limits,
    log,
    signIns,
    allServers: ALL_SERVERS,
    isolation: executor.lacks === undefined ? executor.isolation : "sandboxed, reduced profile",
    sandboxNote: sandboxNote(core),
    writable: config.image !== "readonly",
  });
  readiness.ready(store);
  if (siblings?.port !== undefined) await orClose(core, () => listen(server, config));
  return {
    url: urlOf(server, config.host),
    server: (name) => host.summary(DEFAULT_TENANT, name),
    loadProblems: (name) => core.loadProblems(DEFAULT_TENANT, name),
    onLiveEvent: (follower) => journal.follow(follower),
    reload: () => host.reload(DEFAULT_TENANT),
    secretChanged: (name) => host.secretChanged(DEFAULT_TENANT, name),
    replaced: replacedOf(store),
    figures: () => metrics.now(),
    async retire() {
      const retired = http.retire();
      endpoint.close();
      await within(REPLACE_MS, Promise.all([retired, idle(core)]));
    },
    async close() {
      readiness.stopping();
      await new Promise<void>((isOver) => clock.after(config.limits.drainMs, isOver));
      endpoint.close();
      const drained = Promise.all([http.drain(), core.leave()]);
      await end(core, spawner, config, log, drained, drained, () => server.closeAllConnections());
    },
  };
}

interface BerthOnStdio {
  /** Resolves when the client has ended the connection or stopped reading, and when the store was restored. */
  readonly ended: Promise<void>;
  /** Ends calls with their results, at once when `hurry` resolves, then every process. */
  close(hurry: Promise<unknown>): Promise<void>;
}

/** One connection of newline-delimited messages to one server, or to all of them without a name. */
export async function startStdio(
  config: Config,
  log: Log,
  options: { server: string | undefined; nativeOnly?: boolean; input: Readable; output: Writable },
): Promise<BerthOnStdio> {
  const spawner = openGuarded();
  const core = await openCore(config, log, fromImage(config, log), () => {}, spawner);
  const { server = ALL_SERVERS, nativeOnly = false, input, output } = options;
  await orClose(core, async () => core.host.server(DEFAULT_TENANT, server));
  const { endpoint, store } = core;
  const { limits } = config;
  const place = { tenant: DEFAULT_TENANT, server };
  const connection = new StdioConnection({ endpoint, ...place, nativeOnly, input, output, limits, log });
  return {
    ended: Promise.race([connection.ended, replacedOf(store)]),
    async close(hurry) {
      endpoint.close();
      const drained = Promise.all([connection.close(), core.leave()]);
      await end(core, spawner, config, log, drained, Promise.race([drained, hurry]));
    },
  };
}

/**
 * Ends requests, then processes, each within its share of `shutdownMs`, and then everything else. `waited`: requests are
 * not waited for any longer; `cut` closes the connections that are left.
 */
async function end(
  core: Core,
  spawner: Spawner,
  { limits: { shutdownMs } }: Config,
  log: Log,
  drained: Promise<unknown>,
  waited: Promise<unknown>,
  cut = (): void => {},
): Promise<void> {
  const { endpoint, executor, journal } = core;
  // A program that ignores SIGTERM would block the closing of the parts that store what is left.
  const killing = setTimeout(() => {
    const open = { calls: journal.inFlight, tasks: endpoint.stats().tasks };
    log.warn(open, "the shutdown takes long: processes that still run are killed");
    void spawner.close();
  }, PROCESSES_SHARE * shutdownMs);
  await within(REQUESTS_SHARE * shutdownMs, waited);
  // Calls that still run now end with a result, which is written before connections are cut.
  await executor.close();
  await within(LAST_WORDS_SHARE * shutdownMs, drained);
  cut();
  await core.close();
  clearTimeout(killing);
}

/** Resolves when neither a call nor a task goes on, whoever waits for it. */
async function idle({ journal, endpoint }: Core): Promise<void> {
  while (journal.inFlight > 0 || endpoint.stats().tasks > 0) await sleep(IDLE_CHECK_MS);
}

const IDLE_CHECK_MS = 100;

function replacedOf(store: Store): Promise<void> {
  return new Promise((resolve) => store.onReplaced(resolve));
}

/** Closes the core again if the work after opening it fails. */
async function orClose<T>(core: Core, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await core.close();
    throw error;
  }
}

/**
 * Brings a store's names to the boot image. In a database of many nodes only the first of them does: one that starts again
 * with an older image would revert a newer one.
 */
function fromImage({ imageDir, image: which, database }: Config, log: Log): Fill {
  return async (store, tenant) => {
    const options = { believesCompiled: true, onlyFirst: database !== undefined };
    const image = await readImage(imageDir, which);
    const report = await applyImage(store, tenant, image, options).catch((error: unknown) => {
      if (error instanceof BerthError) throw error;
      const detail = `the image in ${imageDir} cannot be applied: ${String(error)}; make it again with \`berth boot\``;
      throw new BerthError("image_invalid", detail, { cause: error });
    });
    for (const kept of report.kept) log.warn({ kept }, "a name keeps a person's edit instead of the image's value");
    if (report.image !== image.cid) {
      const facts = { image: image.cid, applied: report.image };
      log.warn(
        facts,
        "this node's boot image is not the one that is applied, which is served; berth migrate applies another",
      );
    }
  };
}

/** Why the sandbox is off or reduced, for the page of the operator's own tenant. */
function sandboxNote({ executor, features }: Pick<Core, "executor" | "features">): string {
  const why = executor.lacks ?? executor.reason;
  return why === undefined ? "" : [why, ...features.map((each) => each.sandboxHelp ?? [])].flat().join(". ");
}

function urlOf(server: Server, host: string): string {
  const { port } = server.address() as AddressInfo;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** How long a result is reused: anyone may ask at any rate. */
const CHECK_MS = 1_000;
/** Several looks for changes have failed by then, or one does not end. */
const UNHEARD_MS = 2_000;
/** How long a check of the store may take. */
const STALLED_MS = 2_000;

type ReadinessStore = Pick<Store, "check" | "unheardMs">;

/**
 * The service's current step while it is not ready, or no longer; and once it is, what it lacks. A database out of reach is
 * so for all nodes, mostly: each is ready as long as it may serve without it.
 */
export class ServiceReadiness implements Readiness {
  readonly #log: Log;
  readonly #databaseOutageMs: number;
  warnings: readonly string[] = [];
  #reason: string | undefined = "Berth is starting";
  #store: ReadinessStore | undefined;
  #checked: Promise<readonly string[]> | undefined;
  #checkedAt = 0;
  /** The check that the store has not answered: those of a stalled store would pile up. */
  #pending: Promise<void> | undefined;

  constructor(log: Log, { databaseOutageMs }: Pick<Limits, "databaseOutageMs">) {
    this.#log = log;
    this.#databaseOutageMs = databaseOutageMs;
  }

  /** `step` is going on now: a start is not over before `ready` is called. */
  starting(step: string): void {
    this.#reason = `Berth is starting: ${step}`;
  }

  ready(store: ReadinessStore): void {
    this.#reason = undefined;
    this.#store = store;
  }

  stopping(): void {
    this.#reason = "Berth is shutting down";
  }

  async reasons(): Promise<readonly string[]> {
    if (this.#reason !== undefined) return [this.#reason];
    if (!this.#checked || clock.now() - this.#checkedAt > CHECK_MS) {
      this.#checkedAt = clock.now();
      this.#checked = this.#check();
    }
    return this.#checked;
  }

  async #check(): Promise<readonly string[]> {
    try {
      closeSync(openSync(devNull, "r"));
    } catch (error) {
      if (isDescriptorShortage(error)) return ["No file descriptor is left"];
    }
    const store = this.#store;
    let text = "The store cannot be written";
    try {
      if (store && store.unheardMs() <= UNHEARD_MS) {
        const ms = this.#pending ? 0 : STALLED_MS;
        this.#pending ??= store.check().finally(() => (this.#pending = undefined));
        if (await settlesWithin(ms, this.#pending)) {
          this.warnings = [];
          return [];
        }
        text = "The store does not answer: the disk of the data folder, or the database, is stalled";
        throw new Error(text);
      }
    } catch (error) {
      // The details may name a folder of this machine, and anyone may ask.
      this.#log.error({ err: error }, "the store cannot be written");
    }
    const unheardMs = store?.unheardMs() ?? 0;
    if (unheardMs > UNHEARD_MS) text = `The database has been out of reach for ${Math.round(unheardMs / 1_000)} s`;
    // That of several machines cannot be written by any of them.
    this.warnings = unheardMs > 0 ? [text] : [];
    return unheardMs === 0 || unheardMs > this.#databaseOutageMs ? [text] : [];
  }
}
