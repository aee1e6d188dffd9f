import { readDirectory, type Directory } from "../../host/directory/directory.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { secretBounds } from "../../secrets/secret-rules.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets } from "./secrets.ts";

/** Lets a person list the names of a tenant's secrets, and set and delete secrets. Values are never returned. */
export interface SecretEdits {
  /** The secrets that are set and those that servers declare, up to the maximum number of secrets; sorted by name. */
  list(tenant: string): Promise<readonly ListedSecret[]>;
  /** Rejects with `read_only`, with `name_conflict` if `isNew` and it exists, and as `Secrets.set` does. */
  set(tenant: string, name: string, value: string, options: { by: string; isNew?: boolean }): Promise<void>;
  /** Rejects with `read_only` or `secret_not_found`. */
  remove(tenant: string, name: string, by: string): Promise<void>;
}

export interface ListedSecret {
  readonly name: string;
  /** Undefined if servers declare it and it is not set. */
  readonly set: { readonly changedAt: number; readonly by: string } | undefined;
  /** The first servers, sorted, whose entries declare it. */
  readonly servers: readonly string[];
  readonly moreServers: number;
}

/** Per secret. */
const SERVERS_LISTED_MAX = 20;

export interface SecretEditsDependencies {
  readonly store: Store;
  readonly secrets: Secrets;
  readonly writable: boolean;
  /** The cached directory of a tenant that is served. */
  readonly directory?: (tenant: string) => Directory | undefined;
  /** Called after each change made here. */
  readonly onChange?: (tenant: string, name: string) => void;
}

export function createSecretEdits({
  store,
  secrets,
  writable,
  directory,
  onChange,
}: SecretEditsDependencies): SecretEdits {
  const mayWrite = (): void => {
    if (!writable) throw new BerthError("read_only");
  };
  return {
    async list(tenant) {
      const stored = new Map((await secrets.list(tenant)).map(({ name, changedAt, by }) => [name, { changedAt, by }]));
      const declared = new Map<string, { readonly servers: string[]; more: number }>();
      let unset = 0;
      const yieldIfDue = createYielder();
      for (const [server, { entry }] of (await readDirectory(store, tenant, directory?.(tenant))).servers) {
        await yieldIfDue();
        for (const name of entry.secrets) {
          const declaration = declared.get(name);
          if (declaration && declaration.servers.length === SERVERS_LISTED_MAX) declaration.more += 1;
          else if (declaration) declaration.servers.push(server);
          else if (stored.has(name) || unset++ < secretBounds.secretsPerTenant) {
            declared.set(name, { servers: [server], more: 0 });
          }
        }
      }
      const names = [...new Set([...stored.keys(), ...declared.keys()])].sort();
      return names.map((name) => {
        const { servers, more } = declared.get(name) ?? { servers: [], more: 0 };
        return { name, set: stored.get(name), servers, moreServers: more };
      });
    },

    async set(tenant, name, value, { by, isNew = false }) {
      mayWrite();
      if (isNew && (await secrets.list(tenant)).some((known) => known.name === name)) {
        throw new BerthError("name_conflict", `there is a secret "${name}" already`);
      }
      await secrets.set(tenant, name, value, by);
      onChange?.(tenant, name);
    },

    async remove(tenant, name, by) {
      mayWrite();
      if (!(await secrets.remove(tenant, name, by))) throw new BerthError("secret_not_found", `"${name}"`);
      onChange?.(tenant, name);
    },
  };
}
