import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Fill } from "../compose/core.ts";
import { features } from "../compose/features.ts";
import { type Berth, startBerth, startStdio } from "../compose/main.ts";
import { serviceLog } from "../compose/service-log.ts";
import { asWorker, type Worker } from "../compose/worker.ts";
import { type Config, EXPLORE, readConfig } from "../config.ts";
import type { FileOptions } from "../features/feature.ts";
import { BerthError } from "../lib/errors.ts";
import { type Log, writeLastLines } from "../lib/log.ts";
import { tenantBasePath, DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { workerLimits } from "../limits/limits.ts";
import { WorkFolders } from "../processes/work-folders.ts";
import { announce, announceAccess } from "./announce.ts";
import { environmentOf, type EnvironmentOptions, servedFolder, type ServeEnvironmentOptions } from "./environment.ts";
import { boundShutdown } from "./shutdown-bound.ts";
import { signalled } from "./signalled.ts";

export interface ServeOptions extends ServeEnvironmentOptions, FileOptions {}

/**
 * `berth serve [DIR]`: serves until SIGINT, SIGTERM or SIGHUP; a second signal ends at once. The image of a folder is made
 * first; exit code 1 where that cannot be.
 */
export async function serve(options: ServeOptions): Promise<number> {
  let berth: Berth | undefined;
  const worker = asWorker(async () => (await berth?.figures()) ?? []);
  const { image } = options;
  if (image !== undefined && statSync(image, { throwIfNoEntry: false })?.isFile())
    return serveTenantFile(image, options);
  if (options.as !== undefined) throw new BerthError("config_invalid", "--as is for a tenant's file (--image FILE)");
  if (options.programs) throw new BerthError("config_invalid", "--programs is for a tenant's file (--image FILE)");
  const config = readConfig(environmentOf(options), options.readonly ? { image: "readonly" } : {});
  // One worker makes it for all of them.
  if ((!worker || worker.place.fills) && !(await hasImage(options))) return 1;
  if (worker) return serveAsWorker(worker, config, (opened) => (berth = opened));
  return serveUntilSignalled(config, undefined, (url) => announce(url, config));
}

/** Makes the image that is served if it is that of a folder; false where that cannot be. */
async function hasImage(options: EnvironmentOptions): Promise<boolean> {
  const folder = servedFolder(options);
  return !folder || (await import("./folder-image.ts")).makeFolderImage(folder);
}

/** Serves beside other workers, until the primary process orders otherwise or the store is restored. */
async function serveAsWorker(worker: Worker, all: Config, opened: (berth: Berth) => void): Promise<number> {
  const { number, fills, port, sharedPort } = worker.place;
  const config = { ...all, port, limits: workerLimits(all.limits, all.workers) };
  const log = serviceLog(config, { worker: number });
  void boundShutdown(config.limits, log, worker.mustEnd);
  const siblings = { port: sharedPort, figures: () => worker.figuresOfAll() };
  const berth = await startBerth(config, log, fills ? undefined : async () => {}, siblings);
  opened(berth);
  worker.ready(berth.url);
  const order = await Promise.race([worker.order, berth.replaced]);
  if (order === undefined) worker.restored();
  if (order === "retire") await Promise.race([berth.retire(), worker.mustEnd]);
  void boundShutdown(config.limits, log);
  const figures = await berth.figures();
  await berth.close();
  await writeLastLines(log);
  await worker.leave(figures);
  return 0;
}

async function serveUntilSignalled(
  config: Config,
  fill: Fill | undefined,
  announce: (url: string) => void,
): Promise<number> {
  const log = serviceLog(config);
  const ended = signalled();
  void boundShutdown(config.limits, log, ended);
  let berth = await startBerth(config, log, fill);
  announce(berth.url);

  for (;;) {
    const signal = await Promise.race([ended, berth.replaced]);
    if (signal) log.info({ signal }, "shutting down");
    await berth.close();
    if (signal) {
      await writeLastLines(log);
      return 0;
    }
    log.warn("the store was restored: Berth now serves what it holds");
    const again = await untilStarted({ ...config, port: Number(new URL(berth.url).port) }, log, fill, ended);
    if (typeof again === "string") return 0;
    berth = again;
  }
}

/**
 * Starts again after a restore, and retries while that fails, as a disk may be full for a while. Returns the signal
 * that ended the wait.
 */
async function untilStarted(
  config: Config,
  log: Log,
  fill: Fill | undefined,
  ended: Promise<NodeJS.Signals>,
): Promise<Berth | NodeJS.Signals> {
  for (;;) {
    try {
      return await startBerth(config, log, fill);
    } catch (error) {
      log.error({ err: error }, `the restored store cannot be served yet; the next try is in ${AGAIN_MS / 1_000} s`);
    }
    const signal = await Promise.race([ended, sleep(AGAIN_MS)]);
    if (signal) return signal;
  }
}

const AGAIN_MS = 2_000;

/** `berth serve --image FILE`: serves a tenant from its file, in a folder that is removed afterwards. */
async function serveTenantFile(file: string, options: ServeOptions): Promise<number> {
  if (options.data !== undefined) {
    throw new BerthError(
      "config_invalid",
      `a tenant's file is served without a store; "berth tenant import" puts it into one`,
    );
  }
  const fillFromFile = features.find((each) => each.fillFromFile)?.fillFromFile;
  if (!fillFromFile) throw new BerthError("config_invalid", `${file} is a file, and this Berth serves none`);
  const folders = new WorkFolders();
  try {
    const data = folders.make("image-");
    const config = readConfig(environmentOf({ ...options, data }), { image: "readonly" });
    let tenant = DEFAULT_TENANT;
    const fill: Fill = async (store) => {
      tenant = await fillFromFile(store, file, config, options);
    };
    return await serveUntilSignalled(config, fill, (url) => {
      console.error(`Berth serves ${url}${tenantBasePath(tenant)}/mcp as it stands in ${file}. Stop it with Ctrl-C.`);
      announceAccess(config);
    });
  } finally {
    await folders.close();
  }
}

interface StdioCommandOptions extends EnvironmentOptions {
  /** False with `--no-mcp`. */
  readonly mcp: boolean;
  /** Serves only the server `explore`, which is off everywhere else unless `BERTH_EXPLORE` enables it. */
  readonly explore?: boolean;
}

/**
 * `berth stdio <server>`: one connection on standard input and output, until either ends or a signal comes. Nothing
 * else is written to standard output.
 */
export async function stdio(server: string | undefined, options: StdioCommandOptions): Promise<number> {
  if (options.explore && server !== undefined) {
    throw new BerthError("config_invalid", `--explore serves the server "${EXPLORE}" alone; leave out "${server}"`);
  }
  const output = process.stdout;
  // Stray prints go to the log.
  Object.defineProperty(process, "stdout", { value: process.stderr });

  const config = readConfig(
    { BERTH_LOG: "warn", ...environmentOf(options) },
    { ...(options.readonly && { image: "readonly" as const }), ...(options.explore && { explore: true }) },
  );
  if (config.workers > 0) {
    throw new BerthError(
      "config_invalid",
      "BERTH_WORKERS is for `berth serve`: standard input is one connection, which one process serves; leave it out",
    );
  }
  if (!options.explore && !(await hasImage(options))) return 1;
  const log = serviceLog(config);
  const nativeOnly = !options.mcp;
  const served = options.explore ? EXPLORE : server;
  const signal = signalled();
  void boundShutdown(config.limits, log, signal);
  const connection = await startStdio(config, log, { server: served, nativeOnly, input: process.stdin, output });
  await Promise.race([connection.ended, signal]);
  void boundShutdown(config.limits, log);
  // A client that only ended the input still reads the answers; the sender of a signal will not wait for long.
  await connection.close(signal);
  process.stdin.destroy();
  await writeLastLines(log);
  return 0;
}
