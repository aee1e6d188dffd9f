import type { Log } from "../../lib/log.ts";
import type { NameKind, Store } from "../../store/store.ts";
import type { Host } from "../host.ts";
import type { Tenancy } from "./tenancy.ts";

/** Tells the host of changes by other processes on the same store. Returns the function that stops it. */
export function followChanges(store: Store, host: Host, tenancy: Tenancy, log: Log): () => Promise<void> {
  let reloading: Promise<void> = Promise.resolve();
  const reload = async (tenant: string): Promise<void> => {
    await tenancy.opening(tenant)?.catch(() => {});
    if (tenancy.opening(tenant)) await host.reload(tenant);
  };
  const stop = store.onChange((changed) => {
    for (const { tenant, kind, name } of changed) if (kind === "secret") host.secretChanged(tenant, name);
    const tenants = new Set(changed.flatMap(({ tenant, kind }) => (OFFERED.has(kind) ? [tenant] : [])));
    for (const tenant of tenants) {
      reloading = reloading
        .then(() => reload(tenant))
        .catch((error: unknown) => log.error({ err: error, tenant }, "a change of another process could not be read"));
    }
  });
  return () => {
    stop();
    return reloading;
  };
}

/** The kinds of names that decide which servers exist and what each offers. */
const OFFERED: ReadonlySet<NameKind> = new Set(["variable", "server", "visibility", "withdrawn"]);
