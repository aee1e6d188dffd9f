import { randomUUID } from "node:crypto";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import type { Records } from "../lib/records.ts";
import type { Cluster } from "./cluster.ts";

/** A longer text does not go in the letter: it waits in the store, where a tenant's texts are in nobody's way. */
const LETTER_UNITS_MAX = 16 * 1024;
/** How long a node may take for an errand while it lives. */
const ERRAND_MS = 30_000;

/**
 * A node has another one do something for a client, because that one has what it takes: a connection, or a question that
 * waits. The other tells whether it could, so that the client hears what it would have heard there.
 */
export class Errands {
  readonly #options: ErrandsOptions;
  readonly #handlers = new Map<string, ErrandHandler>();
  readonly #waiting = new Map<string, Waiting>();

  constructor(options: ErrandsOptions) {
    this.#options = options;
    const { cluster } = options;
    cluster.on(ERRAND, (body) => void this.#carryOut(body as unknown as ErrandLetter));
    cluster.on(OUTCOME, (body) => this.#hear(body as unknown as OutcomeLetter));
    cluster.onGone((node) => this.#giveUp((to) => to === node));
  }

  /** `handler` resolves once the errand is taken; what it rejects with, its sender is told. */
  on(name: string, handler: ErrandHandler): void {
    this.#handlers.set(name, handler);
  }

  /**
   * Resolves when the other node has taken the errand, with false when it is gone. Rejects as that node's handler does,
   * with `too_many_requests` when it does not keep up, and with `store_failed`.
   */
  async send(to: string, name: string, { tenant, about, text }: Errand): Promise<boolean> {
    const { cluster, records } = this.#options;
    // No id that a client makes up costs the store anything.
    if (!cluster.others.has(to)) return false;
    const id = randomUUID();
    const isLong = text.length > LETTER_UNITS_MAX;
    if (isLong) {
      const put = { value: text, expected: 0, expiresAt: records.now() + ERRAND_MS };
      await records.putRecord(tenant, "session", keyOf(id), put);
    }
    const letter: ErrandLetter = { id, from: cluster.id, name, tenant, about, ...(!isLong && { text }) };
    const taken = new Promise<boolean>((resolve, reject) => {
      const late = new BerthError("too_many_requests", "the node that it is meant for does not keep up", {
        data: { retryAfterSeconds: 1 },
      });
      const timer = setTimeout(() => reject(late), ERRAND_MS).unref();
      this.#waiting.set(id, { to, timer, resolve, reject });
    });
    // It may fail before the letter is known to be on its way.
    taken.catch(() => {});
    try {
      if (!(await cluster.send(to, ERRAND, { ...letter }))) return false;
      return await taken;
    } finally {
      clearTimeout(this.#waiting.get(id)?.timer);
      this.#waiting.delete(id);
    }
  }

  /** Waits for no other node any more. */
  async close(): Promise<void> {
    this.#giveUp(() => true);
  }

  #giveUp(isMeant: (node: string) => boolean): void {
    for (const { to, resolve } of this.#waiting.values()) if (isMeant(to)) resolve(false);
  }

  async #carryOut({ id, from, name, tenant, about, text }: ErrandLetter): Promise<void> {
    const { cluster, log } = this.#options;
    let failure: Failure | undefined;
    try {
      const handler = this.#handlers.get(name);
      if (!handler) throw new BerthError("method_not_found", `a node of this version does not know "${name}"`);
      await handler({ tenant, about, text: text ?? (await this.#take(tenant, keyOf(id))) });
    } catch (error) {
      if (!(error instanceof BerthError)) log.error({ err: error, errand: name }, "an errand failed unexpectedly");
      const { code, detail, data } = error instanceof BerthError ? error : new BerthError("internal");
      failure = { code, detail, ...(data && { data: data as JsonObject }) };
    }
    await cluster.send(from, OUTCOME, { id, ...(failure && { failure: { ...failure } }) }).catch((error: unknown) => {
      log.warn({ err: error, errand: name }, "another node could not be told how its errand went");
    });
  }

  async #take(tenant: string, key: string): Promise<string> {
    const { records } = this.#options;
    const found = await records.record(tenant, "session", key);
    if (!found) throw new BerthError("too_many_requests", "it waited for too long; try again");
    await records.putRecord(tenant, "session", key, { value: "", expected: found.revision, expiresAt: 0 });
    return found.value;
  }

  #hear({ id, failure }: OutcomeLetter): void {
    const waiting = this.#waiting.get(id);
    if (!isObject(failure)) return waiting?.resolve(true);
    const { code, detail, data } = failure;
    waiting?.reject(new BerthError(code, detail === "" ? undefined : detail, { ...(data && { data }) }));
  }
}

export interface Errand {
  readonly tenant: string;
  readonly about: JsonObject;
  /** As long as a message of a client may be. */
  readonly text: string;
}

type ErrandHandler = (errand: Errand) => void | Promise<void>;

export interface ErrandsOptions {
  readonly cluster: Pick<Cluster, "id" | "others" | "on" | "onGone" | "send">;
  /** Takes long values. */
  readonly records: Pick<Records, "now" | "record" | "putRecord">;
  readonly log: Log;
}

const ERRAND = "errand";
const OUTCOME = "errand-outcome";

interface ErrandLetter extends Omit<Errand, "text"> {
  readonly id: string;
  readonly from: string;
  readonly name: string;
  /** Absent when it waits in the store. */
  readonly text?: string;
}

interface OutcomeLetter {
  readonly id: string;
  readonly failure?: Failure;
}

interface Failure {
  readonly code: ErrorCode;
  readonly detail: string;
  readonly data?: Record<string, Json>;
}

interface Waiting {
  readonly to: string;
  readonly timer: NodeJS.Timeout;
  readonly resolve: (isTaken: boolean) => void;
  readonly reject: (error: BerthError) => void;
}

function keyOf(id: string): string {
  return `errand/${id}`;
}
