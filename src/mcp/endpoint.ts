import { randomBytes } from "node:crypto";
import type { Cluster } from "../cluster/cluster.ts";
import type { NodeRequests } from "../cluster/node-requests.ts";
import { permittedCatalog } from "../host/catalog/permitted.ts";
import type { Checks } from "../host/checks/checks.ts";
import type { Host } from "../host/host.ts";
import { ALL_SERVERS } from "../host/serving/aggregate.ts";
import { hasInexactNumbers } from "../lib/exact-numbers.ts";
import { isObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import { parseJson } from "../lib/parse-json.ts";
import { readingBounds } from "../lib/reading-bounds.ts";
import type { Records } from "../lib/records.ts";
import { createSealer } from "../lib/seal.ts";
import { defaultLimits, type Limits } from "../limits/limits.ts";
import { admit, admitMethods } from "./admit.ts";
import { errorAnswer } from "./error-answer.ts";
import { idOf, readMessage, type Message } from "./json-rpc.ts";
import { closeLegacy, createLegacy, endSession, type Legacy } from "./legacy/legacy.ts";
import { listenLegacy } from "./legacy/listen.ts";
import { receiveLegacy } from "./legacy/receive.ts";
import { answerModern, createModern, type Modern } from "./modern/modern.ts";
import type { Answer, CallNatively, Listen, Post } from "./protocol.ts";
import { withLongValues } from "./records-in-parts.ts";
import { isOfModernEra, META_PROTOCOL_VERSION } from "./revisions.ts";

export interface EndpointStats {
  /** Sessions cached in this process. */
  readonly sessions: number;
  readonly tasks: number;
  readonly droppedLogs: number;
}

export interface EndpointOptions {
  readonly host: Host;
  readonly callNatively?: CallNatively | undefined;
  readonly berthVersion: string;
  readonly log: Log;
  /**
   * At least 32 bytes each, the same for all processes of a service and across restarts. Without keys, sessions and
   * open questions end with this process.
   */
  readonly sealKeys?: readonly Uint8Array[];
  readonly records: Records;
  /** The other nodes of the service. Join it after creating the endpoint. */
  readonly cluster: Cluster;
  readonly errands: NodeRequests;
  /** Set when lists differ between principals, so that no cache may share them. */
  readonly accessRequired?: boolean;
  /** Parses long bodies off-thread; without it, all bodies are parsed inline. */
  readonly checks?: Pick<Checks, "readMessage" | "scalarsIn">;
  readonly limits?: Limits;
}

/**
 * The MCP endpoint of every server, for both eras: JSON-RPC → era → method → answer. The differences between eras are
 * in `modern.ts` and `legacy.ts`; a method that neither has may be a native call. Independent of HTTP libraries and
 * sockets.
 */
export class Endpoint {
  readonly #host: Host;
  readonly #checks: EndpointOptions["checks"];
  readonly #log: Log;
  readonly #logs = { dropped: 0 };
  readonly #modern: Modern;
  readonly #legacy: Legacy;

  constructor(options: EndpointOptions) {
    const { host, checks, log, limits = defaultLimits, sealKeys = [randomBytes(32)] } = options;
    this.#host = host;
    this.#checks = checks;
    this.#log = log;
    const parts = {
      ...options,
      records: withLongValues(options.records),
      limits,
      sealer: createSealer(sealKeys, () => options.records.now()),
      logs: this.#logs,
    };
    this.#modern = createModern(parts);
    this.#legacy = createLegacy(parts);
  }

  /** Answers one POST to one server. Never rejects: an error becomes an answer. */
  async post(tenant: string, server: string, post: Post): Promise<Answer> {
    let body: unknown;
    try {
      const parsed = this.read(tenant, post.body);
      body = parsed instanceof Promise ? await parsed : parsed;
    } catch (error) {
      return errorAnswer(this.#log, null, error, post.trace);
    }
    return this.receive(tenant, server, body, post);
  }

  /** Parses a body; a long one asynchronously. Throws, or rejects, when it is not JSON or exceeds a limit. */
  read(tenant: string, body: string): unknown {
    const checks = this.#checks;
    const isLong = checks !== undefined && (body.length > readingBounds.inlineBodyBytes || hasInexactNumbers(body));
    return isLong ? checks.readMessage(tenant, body) : parseJson(body);
  }

  /** Like `post`, for a transport that has already parsed the body. */
  async receive(tenant: string, server: string, body: unknown, post: Post): Promise<Answer> {
    const host = this.#host;
    try {
      const { principal } = post;
      admit(principal, server);
      if (server === ALL_SERVERS) {
        const starting = host.startUnlisted?.(tenant, principal);
        const method = isObject(body) ? body["method"] : undefined;
        if (typeof method === "string" && method.endsWith("/list")) await starting;
      }
      const loaded = host.server(tenant, server);
      const permitted = permittedCatalog(loaded instanceof Promise ? await loaded : loaded, principal);
      const catalog = permitted instanceof Promise ? await permitted : permitted;
      admitMethods(principal, catalog, body);
      const target = { tenant, server, catalog, principal };
      if (Array.isArray(body)) return await receiveLegacy(this.#legacy, target, post, body);
      const message = readMessage(body);
      if (!isModern(message, post)) return await receiveLegacy(this.#legacy, target, post, message);
      if (message.kind !== "request") return { status: 202 };
      return await answerModern(this.#modern, target, post, message);
    } catch (error) {
      return errorAnswer(this.#log, idOf(body), error, post.trace);
    }
  }

  /** Opens the stream of a legacy session on `listen.events`, or returns an answer instead. Never rejects. */
  async listen(tenant: string, server: string, listen: Listen): Promise<Answer | undefined> {
    try {
      admit(listen.principal, server);
      await this.#host.server(tenant, server);
      return await listenLegacy(this.#legacy, tenant, server, listen);
    } catch (error) {
      return errorAnswer(this.#log, null, error);
    }
  }

  async end(tenant: string, server: string, post: Pick<Post, "headers" | "headerless" | "principal">): Promise<Answer> {
    try {
      admit(post.principal, server);
      await this.#host.server(tenant, server);
      return await endSession(this.#legacy, tenant, server, post);
    } catch (error) {
      return errorAnswer(this.#log, null, error);
    }
  }

  stats(): EndpointStats {
    return {
      sessions: this.#legacy.sessions.size,
      tasks: this.#modern.tasks.running,
      droppedLogs: this.#logs.dropped,
    };
  }

  /** Ends a tenant's open subscriptions, and the calls of its sessions. */
  endTenant(tenant: string): void {
    this.#modern.listeners.endTenant(tenant);
    this.#legacy.sessions.evictTenant(tenant);
  }

  /** Ends subscriptions and other open streams, each with its result; calls in progress continue. */
  close(): void {
    this.#modern.closing.abort();
    this.#modern.listeners.close();
    closeLegacy(this.#legacy);
  }

  /** Resolves when the outcomes of finished tasks, and the events that clients have missed, are stored. */
  async settled(): Promise<void> {
    await this.#modern.tasks.settled();
    await this.#legacy.store.close();
  }
}

function isModern(message: Message, { headers }: Post): boolean {
  if (message.kind === "response") return false;
  const meta = message.params["_meta"];
  if (isObject(meta) && meta[META_PROTOCOL_VERSION] !== undefined) return true;
  const header = headers["mcp-protocol-version"];
  const isModernHeader = typeof header === "string" && isOfModernEra(header) && message.method !== "initialize";
  return isModernHeader || message.method === "server/discover";
}
