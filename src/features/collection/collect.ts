import { printJson } from "../../commands/print.ts";
import { BerthError } from "../../lib/errors.ts";
import type { CollectedAmounts, CollectionResult } from "../../store/store.ts";
import type { WithStore } from "../feature.ts";
import { collectionBounds, collectionOrder } from "./order.ts";

interface CollectOptions {
  readonly data?: string;
  readonly tenant?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** `berth collect`, while Berth serves or not. */
export function collect(
  withStore: WithStore,
  { data, tenant, dryRun: isTrial = false, json }: CollectOptions,
): Promise<number> {
  return withStore(data === undefined ? {} : { data }, async (store, { limits, database }) => {
    const tenants = (await store.tenants.list()).filter(({ name }) => tenant === undefined || name === tenant);
    if (tenants.length === 0)
      throw new BerthError("tenant_not_found", `"${tenant}"; "berth tenant list" has all of them`);
    const collected = await store.collect({ ...collectionOrder(tenants, limits), isTrial });
    if (json) printJson(collected, 2);
    else for (const line of linesOf(collected, isTrial)) console.log(line);
    if (!json && !isTrial && database === undefined)
      console.log(`The store's file has room for ${collected.reusableBytes} bytes before it grows.`);
    return 0;
  });
}

function linesOf({ freed, waiting, lapsed }: CollectionResult, isTrial: boolean): string[] {
  const lines = amountLines(freed).map((line) => `${isTrial ? "would free" : "freed"}  ${line}`);
  if (lapsed > 0) lines.push(`${isTrial ? "would drop" : "dropped"}  ${lapsed} earlier values whose time is over`);
  if (lines.length === 0) lines.push(isTrial ? "There is nothing to free now." : "There was nothing to free.");
  const minutes = Math.ceil(collectionBounds.collectGraceMs / 60_000);
  const when = `freed by collections that follow, at the earliest ${minutes} and again ${minutes} minutes later`;
  lines.push(...amountLines(waiting).map((line) => `waits  ${line}: ${when}`));
  return lines;
}

function amountLines(amounts: CollectedAmounts): string[] {
  return Object.entries(amounts).flatMap(([kind, { count, bytes }]) =>
    count > 0 ? [`${kind}  ${count}, ${bytes} bytes`] : [],
  );
}
