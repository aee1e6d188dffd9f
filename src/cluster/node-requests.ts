import { randomUUID } from "node:crypto";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import type { Records } from "../lib/records.ts";
import type { Cluster } from "./cluster.ts";

/** Longer payloads are passed through the store, so that they do not fill mailboxes and count toward the tenant. */
const INLINE_UNITS_MAX = 16 * 1024;
/** How long a living node may take for a request. */
const REQUEST_TIMEOUT_MS = 30_000;

/**
 * Sends requests to other nodes on behalf of clients, for example to the node that has the client's connection or a
 * pending question. The other node returns its result, so that clients get the same response from every node.
 */
export class NodeRequests {
  readonly #options: NodeRequestsOptions;
  readonly #handlers = new Map<string, NodeRequestHandler>();
  readonly #pending = new Map<string, PendingRequest>();

  constructor(options: NodeRequestsOptions) {
    this.#options = options;
    const { cluster } = options;
    cluster.on(REQUEST_TOPIC, (body) => void this.#handle(body as unknown as RequestMessage));
    cluster.on(OUTCOME_TOPIC, (body) => this.#settle(body as unknown as OutcomeMessage));
    cluster.onGone((node) => this.#abandon((to) => to === node));
  }

  /** `handler` resolves once the request is accepted. Its rejection is returned to the sender. */
  on(name: string, handler: NodeRequestHandler): void {
    this.#handlers.set(name, handler);
  }

  /**
   * Resolves with true when the other node has accepted the request, and with false when it is gone. Rejects as the
   * other node's handler does, with `too_many_requests` if that node is overloaded, and with `store_failed`.
   */
  async send(to: string, name: string, { tenant, about, text }: NodeRequest): Promise<boolean> {
    const { cluster, records } = this.#options;
    // An id that a client invented must not cost the store anything.
    if (!cluster.others.has(to)) return false;
    const id = randomUUID();
    const isLong = text.length > INLINE_UNITS_MAX;
    if (isLong) {
      const put = { value: text, expected: 0, expiresAt: records.now() + REQUEST_TIMEOUT_MS };
      await records.putRecord(tenant, "session", payloadKey(id), put);
    }
    const message: RequestMessage = { id, from: cluster.id, name, tenant, about, ...(!isLong && { text }) };
    const accepted = new Promise<boolean>((resolve, reject) => {
      const timeout = new BerthError("too_many_requests", "the receiving node is overloaded", {
        data: { retryAfterSeconds: 1 },
      });
      const timer = setTimeout(() => reject(timeout), REQUEST_TIMEOUT_MS).unref();
      this.#pending.set(id, { to, timer, resolve, reject });
    });
    // It may reject before `send` returns.
    accepted.catch(() => {});
    try {
      if (!(await cluster.send(to, REQUEST_TOPIC, { ...message }))) return false;
      return await accepted;
    } finally {
      clearTimeout(this.#pending.get(id)?.timer);
      this.#pending.delete(id);
    }
  }

  async close(): Promise<void> {
    this.#abandon(() => true);
  }

  #abandon(isAffected: (node: string) => boolean): void {
    for (const { to, resolve } of this.#pending.values()) if (isAffected(to)) resolve(false);
  }

  async #handle({ id, from, name, tenant, about, text }: RequestMessage): Promise<void> {
    const { cluster, log } = this.#options;
    let failure: RequestFailure | undefined;
    try {
      const handler = this.#handlers.get(name);
      if (!handler) throw new BerthError("method_not_found", `the receiving node's version does not support "${name}"`);
      await handler({ tenant, about, text: text ?? (await this.#takePayload(tenant, payloadKey(id))) });
    } catch (error) {
      if (!(error instanceof BerthError))
        log.error({ err: error, errand: name }, "a request of another node failed unexpectedly");
      const { code, detail, data } = error instanceof BerthError ? error : new BerthError("internal");
      failure = { code, detail, ...(data && { data: data as JsonObject }) };
    }
    await cluster
      .send(from, OUTCOME_TOPIC, { id, ...(failure && { failure: { ...failure } }) })
      .catch((error: unknown) => {
        log.warn({ err: error, errand: name }, "the outcome of another node's request could not be sent");
      });
  }

  async #takePayload(tenant: string, key: string): Promise<string> {
    const { records } = this.#options;
    const stored = await records.record(tenant, "session", key);
    if (!stored) throw new BerthError("too_many_requests", "the request waited for too long; try again");
    await records.putRecord(tenant, "session", key, { value: "", expected: stored.revision, expiresAt: 0 });
    return stored.value;
  }

  #settle({ id, failure }: OutcomeMessage): void {
    const pending = this.#pending.get(id);
    if (!isObject(failure)) return pending?.resolve(true);
    const { code, detail, data } = failure;
    pending?.reject(new BerthError(code, detail === "" ? undefined : detail, { ...(data && { data }) }));
  }
}

export interface NodeRequest {
  readonly tenant: string;
  readonly about: JsonObject;
  /** As long as a message of a client may be. */
  readonly text: string;
}

type NodeRequestHandler = (errand: NodeRequest) => void | Promise<void>;

export interface NodeRequestsOptions {
  readonly cluster: Pick<Cluster, "id" | "others" | "on" | "onGone" | "send">;
  /** The store for long payloads. */
  readonly records: Pick<Records, "now" | "record" | "putRecord">;
  readonly log: Log;
}

const REQUEST_TOPIC = "errand";
const OUTCOME_TOPIC = "errand-outcome";

interface RequestMessage extends Omit<NodeRequest, "text"> {
  readonly id: string;
  readonly from: string;
  readonly name: string;
  /** Absent if it is passed through the store. */
  readonly text?: string;
}

interface OutcomeMessage {
  readonly id: string;
  readonly failure?: RequestFailure;
}

interface RequestFailure {
  readonly code: ErrorCode;
  readonly detail: string;
  readonly data?: Record<string, Json>;
}

interface PendingRequest {
  readonly to: string;
  readonly timer: NodeJS.Timeout;
  readonly resolve: (isAccepted: boolean) => void;
  readonly reject: (error: BerthError) => void;
}

function payloadKey(id: string): string {
  return `errand/${id}`;
}
