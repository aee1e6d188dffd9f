import { clock, type Timer } from "../../lib/clock.ts";
import type { CollectionResult } from "../../store/store.ts";
import type { FeatureCore } from "../feature.ts";
import { collectionOrder } from "./order.ts";

const COLLECTION = "collection";
/** The first collection comes after this part of the time between two: a service may be restarted often. */
const FIRST_SHARE = 0.1;
/** Timers take no more. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Deletes unreferenced content regularly, on one of all nodes. Returns the function that ends this. */
export function collectRegularly({
  store,
  isChosenFor,
  limits,
  log,
}: Pick<FeatureCore, "store" | "isChosenFor" | "limits" | "log">): () => Promise<void> {
  const { collectIntervalMs } = limits;
  let timer: Timer | undefined;
  let isOver = false;
  const later = (ms: number): void => {
    if (!isOver) timer = clock.after(Math.min(ms, TIMER_MS_MAX), () => void collect()).unref();
  };
  const collect = async (): Promise<void> => {
    try {
      if (!(await isChosenFor(COLLECTION))) return later(collectIntervalMs);
      const collected = await store.collect(collectionOrder(await store.tenants.list(), limits));
      if (isWorthTelling(collected)) log.info({ ...collected }, "what nothing refers to was collected");
    } catch (error) {
      if (!isOver) log.warn({ err: error }, "what nothing refers to could not be collected; Berth tries again");
    }
    later(collectIntervalMs);
  };
  if (collectIntervalMs > 0) later(collectIntervalMs * FIRST_SHARE);
  return async () => {
    isOver = true;
    timer?.clear();
  };
}

function isWorthTelling({ freed, lapsed }: CollectionResult): boolean {
  return lapsed > 0 || Object.values(freed).some(({ count }) => count > 0);
}
