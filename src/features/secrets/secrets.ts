import { BerthError } from "../../lib/errors.ts";
import type { GivenSecrets, ReadableSecrets } from "../../secrets/grants.ts";
import type { KeyRing, SecretKey } from "../../secrets/key-ring.ts";
import { nameFault, secretBounds, valueFault } from "../../secrets/secret-rules.ts";
import type { SealedSecret, SecretStore } from "../../store/store.ts";
import { seal, unseal } from "./sealing.ts";

/**
 * Secrets of tenants: values under names, sealed at rest. It owns the rules for secrets, the sealing and the change of
 * keys. It does not know which server is given which secret, nor what happens to a value that was read.
 */
export interface Secrets extends ReadableSecrets {
  /**
   * Rejects with `secret_invalid`, `secrets_unavailable` (the others are sealed with a key that is not here), or
   * `config_invalid` (there is no key).
   */
  set(tenant: string, name: string, value: string, by: string): Promise<void>;
  /** False if there is none. Needs no key. */
  remove(tenant: string, name: string, by: string): Promise<boolean>;
  /**
   * Seals everything of all tenants with another key, completely or not at all. Readers, in this process or another,
   * are not disturbed. Rejects as `set` does.
   */
  rotate(by: string): Promise<Rotation>;
}

export interface Rotation {
  readonly keyId: string;
  /** The number of secrets sealed anew. */
  readonly secrets: number;
}

/** How often it starts again when others change the key at the same time. */
const ATTEMPTS_MAX = 5;

export function openSecrets(store: SecretStore, ring: KeyRing): Secrets {
  let known: readonly SecretKey[] = [];

  /** Reads the files again only for an unknown key. */
  function keyFor(keyId: string): SecretKey {
    const isIt = ({ id }: SecretKey): boolean => id === keyId;
    let key = known.find(isIt);
    if (!key) {
      known = ring.keys();
      key = known.find(isIt);
    }
    if (key) return key;
    const detail = `they are sealed with the key ${keyId}, which ${ring.source} does not hold`;
    throw new BerthError(
      "secrets_unavailable",
      `${detail}; provide that key, or delete the secrets and set them again`,
    );
  }

  function open({ tenant, name, keyId, sealed }: SealedSecret): string {
    const value = unseal(keyFor(keyId), tenant, name, sealed);
    if (value !== undefined) return value;
    throw new BerthError("secrets_unavailable", `"${name}" was damaged or changed in the store; set it again`);
  }

  return {
    async list(tenant) {
      return (await store.secrets(tenant)).map(({ name, changedAt, by }) => ({ name, changedAt, by }));
    },

    async read(tenant, name) {
      const sealed = await store.secret(tenant, name);
      return sealed && open(sealed);
    },

    async set(tenant, name, value, by) {
      const fault = nameFault(name) ?? valueFault(value);
      if (fault !== undefined) throw new BerthError("secret_invalid", fault);
      const { secretsPerTenant } = secretBounds;
      const names = await store.secrets(tenant);
      if (names.length >= secretsPerTenant && !names.some((each) => each.name === name)) {
        throw new BerthError("secret_invalid", `there are already ${secretsPerTenant}, and no more are allowed`);
      }
      for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
        const inUse = await store.secretKeyId();
        const key = inUse === undefined ? ring.first() : keyFor(inUse);
        const sealed = seal(key, tenant, name, value);
        const isKeyHeld = (): boolean => ring.keys().some(({ id }) => id === key.id);
        if (await store.putSecret(tenant, { name, keyId: key.id, sealed, by, isKeyHeld })) return;
      }
      throw new BerthError("store_failed", "the key of the secrets keeps changing; try again");
    },

    remove: (tenant, name, by) => store.removeSecret(tenant, name, by),

    async rotate(by) {
      let rotation: Rotation | undefined;
      await store.resealSecrets(
        (all) => {
          const key = ring.next(all[0]?.keyId);
          rotation = { keyId: key.id, secrets: all.length };
          return all.map((secret) => {
            const { tenant, name } = secret;
            return { ...secret, keyId: key.id, sealed: seal(key, tenant, name, open(secret)) };
          });
        },
        { by },
      );
      // Under the same lock, so that no key is forgotten that another process has just begun to use.
      await store.resealSecrets((all) => {
        ring.keepOnly(all[0]?.keyId ?? rotation!.keyId);
        return [];
      });
      return rotation!;
    },
  };
}

/** The same secrets, of whatever tenant, with those that are given. */
export function withGiven(secrets: Secrets, given: GivenSecrets): Secrets {
  return {
    ...secrets,
    async list(tenant) {
      const others = (await secrets.list(tenant)).filter(({ name }) => given.value(name) === undefined);
      return [...others, ...given.facts].sort((one, other) => (one.name < other.name ? -1 : 1));
    },
    read: async (tenant, name) => given.value(name) ?? secrets.read(tenant, name),
  };
}
