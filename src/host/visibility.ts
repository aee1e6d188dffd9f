import { decodeJson, jsonBlock } from "../cid.ts";
import { BerthError } from "../errors.ts";
import { isObject } from "../json.ts";
import type { Store } from "../store/store.ts";

/** Which tools and prompts a server's own functions have hidden: state of the server, kept by its name. */
export async function readVisibility(store: Store, tenant: string): Promise<Map<string, readonly string[]>> {
  const hidden = new Map<string, readonly string[]>();
  for (const { name, cid } of await store.names(tenant, "visibility")) {
    const bytes = await store.content(tenant, cid);
    if (bytes) hidden.set(name, namesIn(bytes));
  }
  return hidden;
}

/**
 * Hides a name or shows it again, and gives the names that are hidden then. Another process that does the same is
 * taken into account: what it hid stays hidden.
 */
export async function changeVisibility(
  store: Store,
  { tenant, server, name, visible }: { tenant: string; server: string; name: string; visible: boolean },
): Promise<readonly string[]> {
  for (let attempt = 1; ; attempt++) {
    const record = await store.name(tenant, "visibility", server);
    const bytes = record && (await store.content(tenant, record.cid));
    const before = bytes ? namesIn(bytes) : [];
    if (before.includes(name) !== visible) return before;
    const after = visible ? before.filter((each) => each !== name) : [...before, name].sort();
    const block = after.length > 0 ? jsonBlock({ hidden: after }) : undefined;
    const move = { kind: "visibility", name: server, cid: block?.cid ?? null, expected: record?.cid ?? null } as const;
    try {
      await store.change(tenant, { by: "server", ...(block && { put: [block] }), set: [move] });
      return after;
    } catch (error) {
      if (!(error instanceof BerthError && error.code === "name_moved") || attempt === ATTEMPTS_MAX) throw error;
    }
  }
}

const ATTEMPTS_MAX = 10;

function namesIn(bytes: Uint8Array): readonly string[] {
  const value = decodeJson(bytes);
  const hidden = isObject(value) ? value["hidden"] : undefined;
  return Array.isArray(hidden) ? hidden.filter((name) => typeof name === "string") : [];
}
