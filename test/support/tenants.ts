import { join } from "node:path";
import { jsonBlock, rawBlock } from "../../src/lib/cid.ts";
import { openStore } from "../../src/store/open-store.ts";
import type { Store, TenantSettings } from "../../src/store/store.ts";
import { MODERN_META, request, type TestBerth } from "./berth.ts";
import { read, type EventReader } from "./legacy-client.ts";

/** Does something as another process on the same store, such as `berth tenant`, would. */
export async function onStoreOf<T>(
  { folder, database }: Pick<TestBerth, "folder"> & { readonly database?: string | undefined },
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const store = await openStore({ dataDir: join(folder, "data"), database, isCommand: true });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

export interface NewTenant extends Partial<TenantSettings> {
  /** Definitions as text, by the server's name. */
  readonly servers?: Readonly<Record<string, string>>;
  readonly variables?: Readonly<Record<string, string>>;
}

export async function addTenant(store: Store, name: string, tenant: NewTenant = {}): Promise<void> {
  const { servers = {}, variables = {}, ...settings } = tenant;
  await store.tenants.create(name, { by: "test", ...settings });
  const put = [];
  const set = [];
  for (const [server, text] of Object.entries(servers)) {
    const definition = rawBlock(text);
    const record = jsonBlock({ definition: definition.cid, enabled: true });
    put.push(definition, record);
    set.push({ kind: "server", name: server, cid: record.cid } as const);
  }
  for (const [variable, text] of Object.entries(variables)) {
    const value = rawBlock(text);
    put.push(value);
    set.push({ kind: "variable", name: variable, cid: value.cid } as const);
  }
  await store.change(name, { by: "test", put, set });
}

/** A subscription of the modern era to changes of a server's tools. */
export function listenTo(url: string, headers: Record<string, string> = {}): Promise<EventReader> {
  return read(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": "subscriptions/listen",
      ...headers,
    },
    body: JSON.stringify(
      request("subscriptions/listen", { notifications: { toolsListChanged: true }, _meta: MODERN_META }),
    ),
  });
}
