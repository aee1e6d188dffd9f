import { randomUUID } from "node:crypto";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Records } from "../../mcp/records.ts";
import type { Sealer } from "../../mcp/seal.ts";

/** What a cookie holds. */
export interface SignIn {
  readonly id: string;
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/** A browser's sign-in, as its cookie holds it. */
export interface NewSignIn {
  /** Sealed: nobody but the service reads a token in it. */
  readonly text: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/**
 * The sign-ins of browsers. A cookie goes to every port of its host, so it holds no token that others could use: it is
 * sealed to one tenant, ends within `signInMs`, counts as a cookie alone, and is void for all processes of a data folder
 * once its person has signed out.
 */
export class SignIns {
  readonly #sealer: Sealer;
  readonly #records: Pick<Records, "record" | "putRecord">;
  readonly #signInMs: number;
  readonly #endListeners = new Set<(id: string) => void>();

  constructor(sealer: Sealer, records: Pick<Records, "record" | "putRecord">, limits: Pick<Limits, "signInMs">) {
    this.#sealer = sealer;
    this.#records = records;
    this.#signInMs = limits.signInMs;
  }

  /** For a token that is good, and no longer than that. */
  begin(tenant: string, token: string, tokenUntil: number = Infinity): NewSignIn {
    const until = Math.min(tokenUntil, Date.now() + this.#signInMs);
    const value = { id: randomUUID(), token, until };
    return { text: this.#sealer.seal(binding(tenant), value, until - Date.now()), until };
  }

  /** What the cookie says. Rejects with `unauthorized` where the sign-in has ended, or is none of this tenant. */
  async find(tenant: string, text: string): Promise<SignIn> {
    const found = this.#read(tenant, text);
    if (await this.hasEnded(tenant, found.id)) throw over();
    return found;
  }

  /** True once its person has signed out, at any process of the data folder. */
  async hasEnded(tenant: string, id: string): Promise<boolean> {
    return (await this.#records.record(tenant, KIND, id)) !== undefined;
  }

  /** Hears of those that end at this process. */
  onEnded(listener: (id: string) => void): void {
    this.#endListeners.add(listener);
  }

  /** Ends a sign-in for good; what is none is over anyway. */
  async end(tenant: string, text: string): Promise<void> {
    let ended: SignIn;
    try {
      ended = this.#read(tenant, text);
    } catch {
      return;
    }
    await this.#records.putRecord(tenant, KIND, ended.id, { value: "ended", expected: 0, expiresAt: ended.until });
    for (const listener of this.#endListeners) listener(ended.id);
  }

  #read(tenant: string, text: string): SignIn {
    let value: unknown;
    try {
      value = this.#sealer.unseal(binding(tenant), text);
    } catch (error) {
      throw over(error);
    }
    const { id, token, until } = isObject(value) ? value : {};
    if (typeof id !== "string" || typeof token !== "string" || typeof until !== "number") throw over();
    return { id, token, until };
  }
}

const KIND = "sign-in";

function binding(tenant: string): readonly string[] {
  return ["sign-in", tenant];
}

function over(cause?: unknown): BerthError {
  return new BerthError("unauthorized", "the sign-in has ended; sign in again", { cause });
}
