import cluster from "node:cluster";
import type { Figures } from "../features/feature.ts";

/**
 * One of several processes that `berth serve --workers` serves with: what it tells the primary process that started it,
 * and what that orders. Clients' data does not pass between them: the primary hands over new connections unread.
 */
export interface Worker {
  readonly place: WorkerPlace;
  /** Resolves with the first order, which a signal may also give. */
  readonly order: Promise<Order>;
  /** Resolves when it has to end at once: an order that no other may delay, or the primary has ended. */
  readonly mustEnd: Promise<void>;
  /** Serves at this address from now on. */
  ready(url: string): void;
  /** Ends because another process restored the store. */
  restored(): void;
  /** The figures of all workers. */
  figuresOfAll(): Promise<readonly Figures[]>;
  /** Call it last, with the last figures. */
  leave(figures: Figures): Promise<void>;
}

/** `retire`: others take over; nothing that clients have begun may be lost. `end`: Berth ends. */
type Order = "retire" | "end";

/** The place of a worker among the others, which it is told at its start by the variable `BERTH_WORKER`. */
export interface WorkerPlace {
  /** From 1 on. */
  readonly number: number;
  /** It applies the boot image, which one of the workers does. */
  readonly fills: boolean;
  /** The port to ask for. */
  readonly port: number;
  /** Where others serve already; it takes no connections before it is ready, too. */
  readonly sharedPort: number | undefined;
}

export type ToPrimary =
  | { readonly url: string }
  | { readonly restored: true }
  | { readonly figures: Figures; readonly id: number | undefined }
  | { readonly wanted: number };

export type ToWorker =
  | { readonly order: Order }
  | { readonly tell: number }
  | { readonly all: readonly Figures[]; readonly wanted: number };

export const PLACE = "BERTH_WORKER";

/** How long requests, streams and tasks in progress may take to end when another worker replaces theirs. */
export const REPLACE_MS = 60_000;

/** Undefined in every other process. Call it before anything that takes time. `figures` are this worker's own. */
export function asWorker(figures: () => Promise<Figures>): Worker | undefined {
  const own = cluster.worker;
  const text = process.env[PLACE];
  if (!own || text === undefined) return undefined;
  // Not for the programs that are started from here.
  delete process.env[PLACE];
  const say = (message: ToPrimary): void => {
    if (process.connected) process.send!(message, undefined, {}, () => {});
  };
  const waiting = new Map<number, (all: readonly Figures[]) => void>();
  let wanted = 0;
  let [onOrder, onEnd]: [(order: Order) => void, () => void] = [() => {}, () => {}];
  const order = new Promise<Order>((resolve) => (onOrder = resolve));
  const mustEnd = new Promise<void>((resolve) => (onEnd = resolve));
  const end = (): void => {
    onOrder("end");
    onEnd();
  };

  process.on("message", (message: ToWorker) => {
    if ("tell" in message) {
      void figures().then((figures) => say({ figures, id: message.tell }));
    } else if ("all" in message) {
      waiting.get(message.wanted)?.(message.all);
      waiting.delete(message.wanted);
    } else if (message.order === "retire") onOrder("retire");
    else end();
  });
  own.once("disconnect", () => {
    // Node would end this process at once, with all that it has under way.
    own.exitedAfterDisconnect = true;
    end();
  });
  process.once("SIGTERM", end);
  // A terminal signals all of its processes; the primary decides what that means.
  for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {});

  return {
    place: JSON.parse(text) as WorkerPlace,
    order,
    mustEnd,
    ready: (url) => say({ url }),
    restored: () => say({ restored: true }),
    figuresOfAll: () =>
      new Promise((resolve) => {
        waiting.set(++wanted, resolve);
        say({ wanted });
      }),
    leave: (figures) =>
      new Promise((resolve) => {
        own.exitedAfterDisconnect = true;
        if (!process.connected) return resolve();
        process.send!({ figures, id: undefined } satisfies ToPrimary, undefined, {}, () => {
          if (process.connected) process.disconnect();
          resolve();
        });
      }),
  };
}
