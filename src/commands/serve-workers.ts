import cluster, { type Worker } from "node:cluster";
import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { features } from "../compose/features.ts";
import { serviceLog } from "../compose/service-log.ts";
import { PLACE, REPLACE_MS, type ToPrimary, type ToWorker, type WorkerPlace } from "../compose/worker.ts";
import { readConfig, type Config } from "../config.ts";
import type { Figures } from "../features/feature.ts";
import { BerthError } from "../lib/errors.ts";
import { type Log, writeLastLines } from "../lib/log.ts";
import { announce } from "./announce.ts";
import { environmentOf, type ServeEnvironmentOptions } from "./environment.ts";
import { boundShutdown } from "./shutdown-bound.ts";
import { signalled } from "./signalled.ts";

/** A worker that ends sooner after its start than this makes the next start wait. */
const LIVED_MS = 10_000;
/** The first wait; each further one is twice as long. */
const AGAIN_MS = 500;
const AGAIN_MS_MAX = 30_000;
/** How long a worker may take to tell its figures. */
const FIGURES_MS = 5_000;
/** How much later than it should a worker may end, which ends itself in time unless it hangs. */
const LATE_MS = 500;

/**
 * `berth serve --workers N`: the primary process. It starts the workers, each a whole Berth, starts another one for each
 * that ends, and hands each new connection to the next worker. It reads nothing of what clients send, and opens no store.
 *
 * SIGHUP replaces the workers one after another, without a lost request: each new one takes its image, its keys, and
 * Berth itself from the disk as they are then. A closing terminal sends the same signal, and means the end by it.
 */
export async function serveWithWorkers(options: ServeEnvironmentOptions): Promise<number> {
  const config = readConfig(environmentOf(options), options.readonly ? { image: "readonly" } : {});
  // The process that supervises others loads nothing of what they need.
  if (config.workers === 0) return (await import("./serve.ts")).serve(options);
  if (statSync(config.imageDir, { throwIfNoEntry: false })?.isFile()) {
    throw new BerthError("config_invalid", "a tenant's file is served by one process: leave out --workers");
  }
  const log = serviceLog(config);
  const ended = signalled(process.stdin.isTTY ? ["SIGINT", "SIGTERM", "SIGHUP"] : ["SIGINT", "SIGTERM"]);
  const { drainMs, shutdownMs } = config.limits;
  void boundShutdown({ drainMs, shutdownMs: shutdownMs + 2 * LATE_MS }, log, ended);
  const workers = new Workers(config, log);
  if (!process.stdin.isTTY) process.on("SIGHUP", () => void workers.replaceAll());
  const failed = await Promise.race([workers.start(), ended.then(() => undefined)]);
  if (failed !== undefined) return failed;
  if (workers.url !== undefined) announce(workers.url, config);
  const signal = await ended;
  log.info({ signal }, "shutting down");
  await workers.end();
  await writeLastLines(log);
  return 0;
}

/** One of the places that a worker always holds. */
interface Place {
  worker: Worker | undefined;
  /** It takes over once it is ready. */
  next: Worker | undefined;
  /** How often in turn its worker has ended soon after its start. */
  failures: number;
}

class Workers {
  readonly #config: Config;
  readonly #log: Log;
  readonly #places: Place[];
  readonly #living = new Map<Worker, { readonly exited: Promise<number> }>();
  readonly #figures: CollectedFigures;
  /** Where they serve. */
  url: string | undefined;
  #port: number;
  /** The next one that starts applies the image. */
  #fills = true;
  #filler: Worker | undefined;
  #isEnding = false;
  #replacing: Promise<void> | undefined;
  #isAskedAgain = false;

  constructor(config: Config, log: Log) {
    this.#config = config;
    this.#log = log;
    this.#port = config.port;
    this.#places = Array.from({ length: config.workers }, () => ({ worker: undefined, next: undefined, failures: 0 }));
    this.#figures = new CollectedFigures(() => [...this.#living.keys()]);
    // With the other policy of Node, some workers would get most connections.
    cluster.schedulingPolicy = cluster.SCHED_RR;
  }

  /** Resolves once they serve, or with the exit code of the first one, whose own words have said why it cannot. */
  async start(): Promise<number | undefined> {
    const first = this.#fork(1);
    if (!(await this.#isReady(first))) return (await this.#living.get(first)?.exited) || 1;
    this.#places[0]!.worker = first;
    await Promise.all(
      this.#places.slice(1).map(async (place, index) => {
        const worker = this.#fork(index + 2);
        place.worker = worker;
        await this.#isReady(worker);
      }),
    );
    return undefined;
  }

  /** Replaces each worker by a new one, one after another. A call meanwhile has them replaced once more. */
  replaceAll(): Promise<void> {
    if (this.#replacing) this.#isAskedAgain = true;
    this.#replacing ??= this.#replaceAll().finally(() => {
      this.#replacing = undefined;
      if (!this.#isAskedAgain) return;
      this.#isAskedAgain = false;
      void this.replaceAll();
    });
    return this.#replacing;
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    const { drainMs, shutdownMs } = this.#config.limits;
    await Promise.all([...this.#living.keys()].map((worker) => this.#order(worker, "end", drainMs + shutdownMs)));
  }

  async #replaceAll(): Promise<void> {
    this.#log.info({ workers: this.#places.length }, "the workers are replaced");
    this.#fills = true;
    for (const [index, place] of this.#places.entries()) {
      if (this.#isEnding) return;
      const next = this.#fork(index + 1);
      place.next = next;
      const isReady = await this.#isReady(next);
      place.next = undefined;
      const before = place.worker;
      if (!isReady) {
        this.#log.error({ worker: index + 1 }, "the new worker did not get ready; those that serve go on");
        if (!before) this.#startAgain(index + 1, place, 0);
        return;
      }
      place.worker = next;
      place.failures = 0;
      const { drainMs, shutdownMs } = this.#config.limits;
      if (before) await this.#order(before, "retire", REPLACE_MS + drainMs + shutdownMs);
    }
    this.#log.info({ workers: this.#places.length }, "the workers were replaced");
  }

  #fork(number: number): Worker {
    // The port that the system chose is kept for as long as somebody listens there.
    if (this.#living.size === 0 && this.url !== undefined) this.#port = Number(new URL(this.url).port);
    const isAlone = this.#living.size === 0 || this.url === undefined;
    const place: WorkerPlace = {
      number,
      fills: this.#fills,
      port: this.#port,
      sharedPort: isAlone ? undefined : Number(new URL(this.url!).port),
    };
    const worker = cluster.fork({ [PLACE]: JSON.stringify(place) });
    if (this.#fills) this.#filler = worker;
    this.#fills = false;
    const startedAt = performance.now();
    cutUntaken(worker);
    const exited = new Promise<number>((resolve) => {
      worker.once("exit", (code, signal) => {
        this.#living.delete(worker);
        void this.#figures.ended(worker);
        resolve(code ?? 1);
        this.#hearEnd(number, worker, { code, signal, lived: performance.now() - startedAt });
      });
    });
    this.#living.set(worker, { exited });
    worker.on("error", (err) => this.#log.warn({ err, worker: number }, "a worker could not be told something"));
    worker.on("message", (message: ToPrimary) => this.#hear(worker, message));
    return worker;
  }

  #hear(worker: Worker, message: ToPrimary): void {
    if ("url" in message) {
      this.url = message.url;
    } else if ("restored" in message) {
      // Once for all of them: a later one has filled the restored store already.
      if (worker.id >= (this.#filler?.id ?? 0)) this.#fills = true;
    } else this.#figures.hear(worker, message);
  }

  #hearEnd(
    number: number,
    worker: Worker,
    { code, signal, lived }: { code: number | null; signal: string | null; lived: number },
  ): void {
    const place = this.#places[number - 1]!;
    if (place.worker !== worker) return;
    place.worker = undefined;
    if (this.#isEnding) return;
    if (lived >= LIVED_MS) place.failures = 0;
    const inMs = place.failures === 0 ? 0 : Math.min(AGAIN_MS * 2 ** (place.failures - 1), AGAIN_MS_MAX);
    place.failures += 1;
    this.#log.warn({ worker: number, pid: worker.process.pid, code, signal, inMs }, "a worker ended; another starts");
    if (!place.next) this.#startAgain(number, place, inMs);
  }

  #startAgain(number: number, place: Place, inMs: number): void {
    setTimeout(() => {
      if (!this.#isEnding && !place.worker && !place.next) place.worker = this.#fork(number);
    }, inMs);
  }

  /** False when it ends before. */
  #isReady(worker: Worker): Promise<boolean> {
    return new Promise((resolve) => {
      worker.on("message", (message: ToPrimary) => "url" in message && resolve(true));
      worker.once("exit", () => resolve(false));
    });
  }

  /** Resolves when it has ended, within that time and a little more. */
  async #order(worker: Worker, order: "retire" | "end", withinMs: number): Promise<void> {
    const timer = setTimeout(() => {
      this.#log.error({ pid: worker.process.pid }, "a worker did not end in time, and is killed");
      worker.process.kill("SIGKILL");
    }, withinMs + LATE_MS);
    tell(worker, { order });
    await this.#living.get(worker)?.exited;
    clearTimeout(timer);
  }
}

function tell(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => {});
}

/**
 * The figures of all workers. What ended workers have counted goes on counting: a sum that falls would look like a new
 * beginning.
 */
class CollectedFigures {
  readonly #living: () => readonly Worker[];
  readonly #last = new Map<Worker, Figures>();
  readonly #asked = new Map<number, (worker: Worker) => void>();
  #past: Figures = [];
  #ids = 0;

  constructor(living: () => readonly Worker[]) {
    this.#living = living;
  }

  hear(worker: Worker, message: Extract<ToPrimary, { wanted: number } | { figures: Figures }>): void {
    if ("wanted" in message) {
      void this.#all().then((all) => tell(worker, { all, wanted: message.wanted }));
    } else {
      this.#last.set(worker, message.figures);
      if (message.id !== undefined) this.#asked.get(message.id)?.(worker);
    }
  }

  async ended(worker: Worker): Promise<void> {
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (!last) return;
    const { sumCounts } = features.find((each) => each.sumCounts) ?? {};
    if (sumCounts) this.#past = await sumCounts([this.#past, last]);
  }

  async #all(): Promise<readonly Figures[]> {
    const awaited = new Set(this.#living().filter((worker) => worker.isConnected()));
    const id = ++this.#ids;
    const told = new Promise<void>((resolve) => {
      this.#asked.set(id, (worker) => awaited.delete(worker) && awaited.size === 0 && resolve());
    });
    for (const worker of awaited) tell(worker, { tell: id });
    // One that is starting or hangs does not keep the others' figures back.
    await Promise.race([told, sleep(FIGURES_MS, undefined, { ref: false })]);
    this.#asked.delete(id);
    return [this.#past, ...this.#last.values()];
  }
}

interface Handle {
  close(...args: unknown[]): unknown;
}

/**
 * Cuts the connections that a worker was given and had not taken when it ended. Node forgets them open, and their clients
 * would wait for ever.
 */
function cutUntaken(worker: Worker): void {
  const given = new Set<Handle>();
  const { process: child } = worker;
  const send = child.send.bind(child) as (...args: unknown[]) => boolean;
  child.send = (message: unknown, handle?: unknown, ...rest: unknown[]) => {
    if (typeof handle === "object" && handle !== null) {
      const connection = handle as Handle;
      given.add(connection);
      const close = connection.close.bind(connection);
      connection.close = (...args) => {
        given.delete(connection);
        return close(...args);
      };
    }
    return send(message, handle, ...rest);
  };
  worker.once("exit", () => {
    for (const connection of given) connection.close();
  });
}
