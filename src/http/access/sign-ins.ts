import { randomUUID } from "node:crypto";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Records } from "../../mcp/records.ts";
import type { Sealer } from "../../mcp/seal.ts";

/** The content of a sign-in cookie. */
export interface SignIn {
  readonly id: string;
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/** A new sign-in, as its cookie holds it. */
export interface NewSignIn {
  /** Sealed: only the service can read the token in it. */
  readonly text: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/**
 * The sign-ins of browsers. A cookie goes to every port of its host, so it holds no token that others could use: it is
 * sealed to one tenant, expires within `signInMs`, counts only as a cookie, and is void in all processes of a data
 * folder once the person signs out.
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

  /** Begins a sign-in with a valid token; it ends no later than the token. */
  begin(tenant: string, token: string, tokenUntil: number = Infinity): NewSignIn {
    const until = Math.min(tokenUntil, Date.now() + this.#signInMs);
    const value = { id: randomUUID(), token, until };
    return { text: this.#sealer.seal(binding(tenant), value, until - Date.now()), until };
  }

  /** Reads the cookie. Rejects with `unauthorized` when the sign-in has ended or belongs to another tenant. */
  async find(tenant: string, text: string): Promise<SignIn> {
    const found = this.#read(tenant, text);
    if (await this.hasEnded(tenant, found.id)) throw over();
    return found;
  }

  /** True once the person has signed out, in any process of the data folder. */
  async hasEnded(tenant: string, id: string): Promise<boolean> {
    return (await this.#records.record(tenant, KIND, id)) !== undefined;
  }

  /** Registers a listener for sign-ins that end in this process. */
  onEnded(listener: (id: string) => void): void {
    this.#endListeners.add(listener);
  }

  /** Ends a sign-in for good; ignores a text that is not one. */
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
