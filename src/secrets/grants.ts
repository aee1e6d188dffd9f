import { BerthError } from "../lib/errors.ts";
import { LastKnown } from "../lib/last-known.ts";
import type { Log } from "../lib/log.ts";
import { Redactor } from "../lib/redactor.ts";

/** The secrets of tenants, which the feature `secrets` stores. */
export interface ReadableSecrets {
  /** Sorted by name; values stay where they are. */
  list(tenant: string): Promise<readonly SecretFacts[]>;
  /** Undefined if there is none. Rejects with `secrets_unavailable` if no key here opens it. */
  read(tenant: string, name: string): Promise<string | undefined>;
}

export interface SecretFacts {
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
  readonly by: string;
}

/** Values that come from outside of the store, and before those in it. */
export interface GivenSecrets {
  value(name: string): string | undefined;
  readonly facts: readonly SecretFacts[];
}

/**
 * Gives each server the secrets that its entry declares, and no other. A value that a server was given is hidden from
 * then on in whatever Berth says of it.
 */
export interface Grant {
  /** The declared names, sorted. */
  readonly names: readonly string[];
  /** Undefined if it is not set. Rejects, in words for the server's own code, if it is not declared. */
  read(name: string): Promise<string | undefined>;
  /** All that are set. Rejects as `read` does. */
  all(): Promise<Readonly<Record<string, string>>>;
  /** Hides every value that the server was given, and others that are added to it. */
  readonly redactor: Redactor;
  /** Changes whenever one of the secrets changes, is set or is removed. */
  version(): Promise<string>;
  /** The declared names that are not set. */
  missing(): Promise<readonly string[]>;
  /** Drops the last value read, which would count while the store is slow: it has changed since. */
  forget(name: string): void;
}

export class Grants {
  readonly #secrets: ReadableSecrets;
  readonly #log: Log;
  /** By tenant and server: values outlive, in its process, the release that was given them. */
  readonly #redactors = new Map<string, Redactor>();

  constructor(secrets: ReadableSecrets, log: Log) {
    this.#secrets = secrets;
    this.#log = log;
  }

  /** Undefined for a server that declares nothing and was given nothing, unless it `isGivenMore` than secrets. */
  of(tenant: string, server: string, names: readonly string[], isGivenMore = false): Grant | undefined {
    const key = JSON.stringify([tenant, server]);
    let redactor = this.#redactors.get(key);
    if (!redactor) {
      if (names.length === 0 && !isGivenMore) return undefined;
      this.#redactors.set(key, (redactor = new Redactor()));
    }
    return grant(tenant, server, names, redactor, this.#secrets, this.#log);
  }

  /** Forgets every value of a tenant whose servers have ended: the next tenant of its name is another one. */
  forget(tenant: string): void {
    for (const key of this.#redactors.keys()) {
      if ((JSON.parse(key) as string[])[0] === tenant) this.#redactors.delete(key);
    }
  }
}

function grant(
  tenant: string,
  server: string,
  names: readonly string[],
  redactor: Redactor,
  secrets: ReadableSecrets,
  log: Log,
): Grant {
  const known = new LastKnown<string | undefined>(names.length);
  const facts = async () => (await secrets.list(tenant)).filter(({ name }) => names.includes(name));

  async function read(name: string): Promise<string | undefined> {
    if (!names.includes(name)) {
      throw new Error(`this server is not given the secret "${name}"; add to its entry in mcps "secrets": ["${name}"]`);
    }
    let value: string | undefined;
    try {
      value = await known.read(name, () => secrets.read(tenant, name));
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
      // The place of the keys concerns only the operator.
      log.error({ tenant, server, secret: name, reason: error.message }, "a secret cannot be read");
      throw new Error(`the secret "${name}" cannot be read now; see the log of this Berth`, { cause: error });
    }
    if (value !== undefined) redactor.add(value);
    return value;
  }

  return {
    names,
    read,
    async all() {
      const values: [string, string][] = [];
      for (const name of names) {
        const value = await read(name);
        if (value !== undefined) values.push([name, value]);
      }
      return Object.fromEntries(values);
    },
    redactor,
    version: async () => JSON.stringify((await facts()).map(({ name, changedAt }) => [name, changedAt])),
    async missing() {
      const set = new Set((await facts()).map(({ name }) => name));
      return names.filter((name) => !set.has(name));
    },
    forget: (name) => known.forget((_, key) => key === name),
  };
}
