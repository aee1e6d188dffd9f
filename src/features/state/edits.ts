import type { Directory } from "../../host/directory/directory.ts";
import { BerthError } from "../../lib/errors.ts";
import type { ValueEntry, ValueItem, ValuePage, ValuePart, ValueSize, ValueStore } from "../../store/store.ts";
import { keyProblem, valueProblem } from "../../store/value-rules.ts";
import { KIND, type StateRules } from "./guest-requests.ts";

export type { ValueEntry, ValueItem };

/** Lets a person list, read, change and delete the state of a tenant's servers. */
export interface StateEdits {
  /** The servers with state, sorted by name. */
  sizes(tenant: string): Promise<readonly ServerStateSize[]>;
  list(tenant: string, server: string, part: ValuePart): Promise<ValuePage>;
  /** Rejects with `state_not_found`. */
  read(tenant: string, server: string, key: string): Promise<ValueEntry>;
  /**
   * Returns the new version. Rejects with `read_only`, `state_invalid`, `state_full`, `server_not_found` for an unknown
   * server, and with `state_conflict` if the version is not the expected one.
   */
  set(tenant: string, server: string, key: string, value: StateValue, change: StateChange): Promise<number>;
  /** Rejects with `read_only`, `state_not_found` and `state_conflict`. */
  remove(tenant: string, server: string, key: string, change: StateChange): Promise<void>;
  /** Returns the number of deleted keys. Rejects with `read_only`. */
  clear(tenant: string, server: string, by: string): Promise<number>;
}

export interface ServerStateSize extends ValueSize {
  /** False for a server that was removed: its state remains until it is deleted. */
  readonly exists: boolean;
}

export type StateValue = Pick<ValueEntry, "value" | "isJson" | "expiresAt">;

export interface StateChange {
  readonly by: string;
  /** The version that was read; 0 for a new key. */
  readonly expected?: number | undefined;
  /** Rejects a key that does not exist. */
  readonly mustExist?: boolean;
}

interface StateEditsDependencies extends StateRules {
  readonly store: ValueStore;
  /** The directory of a tenant that is served. */
  readonly directory: (tenant: string) => Directory | undefined;
}

export function createStateEdits({ store, directory, quotaFor, writable }: StateEditsDependencies): StateEdits {
  const mayWrite = (): void => {
    if (!writable) throw new BerthError("read_only");
  };
  const checkKey = (key: string): void => {
    const problem = keyProblem(KIND, key);
    if (problem !== undefined) throw new BerthError("state_invalid", problem);
  };
  const exists = (tenant: string, server: string): boolean => directory(tenant)?.servers.has(server) ?? false;
  const missing = (server: string, key: string): BerthError =>
    new BerthError("state_not_found", `the server "${server}" has no state under the key ${JSON.stringify(key)}`);
  const conflict = async (tenant: string, server: string, key: string): Promise<BerthError> => {
    const current = (await store.get(tenant, KIND, server, key))?.version ?? 0;
    const version = current === 0 ? "it does not exist" : `its version is ${current}`;
    return new BerthError("state_conflict", `${JSON.stringify(key)} of "${server}": ${version}`, { data: { current } });
  };

  return {
    async sizes(tenant) {
      const sizes = await store.sizes(tenant, KIND);
      return sizes.map(({ server, keys, bytes }) => ({ server, keys, bytes, exists: exists(tenant, server) }));
    },
    list: (tenant, server, part) => store.list(tenant, KIND, server, part),
    async read(tenant, server, key) {
      checkKey(key);
      const entry = await store.get(tenant, KIND, server, key);
      if (!entry) throw missing(server, key);
      return entry;
    },
    async set(tenant, server, key, newValue, { by, expected, mustExist = false }) {
      mayWrite();
      checkKey(key);
      const { value, isJson } = newValue;
      const problem = valueProblem(KIND, isJson, value);
      if (problem !== undefined) throw new BerthError("state_invalid", problem);
      if (!exists(tenant, server)) throw new BerthError("server_not_found", `"${server}"`);
      if (mustExist && !(await store.get(tenant, KIND, server, key))) throw missing(server, key);
      const version = await store.set(tenant, KIND, server, key, { ...newValue, expected, by, room: quotaFor(tenant) });
      if (version === undefined) throw await conflict(tenant, server, key);
      return version;
    },
    async remove(tenant, server, key, { by, expected }) {
      mayWrite();
      checkKey(key);
      const isDone = await store.delete(tenant, KIND, server, key, { by, expected });
      if (isDone === undefined) throw await conflict(tenant, server, key);
      if (!isDone) throw missing(server, key);
    },
    async clear(tenant, server, by) {
      mayWrite();
      return store.clear(tenant, KIND, server, by);
    },
  };
}
