import { nameFault } from "../../secrets/secret-rules.ts";

/** Secrets that exist: their values, or true for values that cannot be read. */
export type Stored = ReadonlyMap<string, string | true>;

/** Chooses the names of secrets: one name for one value, in all servers of a file. */
export class SecretPlan {
  readonly values = new Map<string, string>();
  readonly unset = new Map<string, string>();
  readonly #stored: Stored;

  constructor(stored: Stored = new Map()) {
    this.#stored = stored;
  }

  /** Returns the name under which the value is to be stored. */
  add(preferred: string, server: string, value: string): string {
    const name = this.#choose(preferred, server, (each) => {
      const stored = this.#stored.get(each) ?? this.values.get(each);
      return (stored === undefined && !this.unset.has(each)) || stored === value;
    });
    if (this.#stored.get(name) !== value) this.values.set(name, value);
    return name;
  }

  /** Returns the name of a secret whose value the person has to set. A file gets no secret that exists already. */
  expect(preferred: string, server: string, description: string): string {
    const name = this.#choose(preferred, server, (each) => !this.values.has(each) && !this.#stored.has(each));
    this.unset.set(name, description);
    return name;
  }

  #choose(preferred: string, server: string, isFree: (name: string) => boolean): string {
    const base = toSecretName(preferred);
    const own = toSecretName(`${server}_${preferred}`);
    for (let number = 1; ; number++) {
      const candidates = number === 1 ? [base, own] : [`${own}_${number}`];
      const name = candidates.find((each) => nameFault(each) === undefined && isFree(each));
      if (name !== undefined) return name;
    }
  }

  copy(): SecretPlan {
    const copy = new SecretPlan(this.#stored);
    for (const [name, value] of this.values) copy.values.set(name, value);
    for (const [name, description] of this.unset) copy.unset.set(name, description);
    return copy;
  }
}

function toSecretName(text: string): string {
  const name = text
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toUpperCase()
    .slice(0, 100);
  return /^[A-Z]/.test(name) ? name : `SECRET_${name}`;
}
