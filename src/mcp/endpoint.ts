import { randomBytes, randomUUID } from "node:crypto";
import { Cancellation } from "../lib/cancellation.ts";
import { defaultLimits, type Limits } from "../limits/limits.ts";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import type { Checks } from "../host/checks/checks.ts";
import type { Host } from "../host/host.ts";
import { permittedCatalog } from "../host/catalog/permitted.ts";
import { isObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import { withMeta, type Trace } from "../lib/trace.ts";
import { parseJson } from "../lib/parse-json.ts";
import { tellable } from "../lib/error-mapping.ts";
import { admit, admitMethods } from "./admit.ts";
import { errorText, idOf, readMessage, resultText, type Message, type Request } from "./json-rpc.ts";
import { createLegacy, type LegacyLimits } from "./legacy/legacy.ts";
import { createModern, type ModernLimits } from "./modern/modern.ts";
import { createNative } from "./native.ts";
import type { Answer, Client, Codec, Listen, MethodCall, ServerPlace, Post } from "./protocol.ts";
import { inParts } from "./records-in-parts.ts";
import type { Records } from "./records.ts";
import { isOfModernEra, META_PROTOCOL_VERSION } from "./revisions.ts";
import { createSealer } from "./seal.ts";

/**
 * The MCP endpoint of every server, for both eras. It owns the path of a message: JSON-RPC → era → method → answer. The
 * differences between eras are in `modern.ts` and `legacy.ts`; a method that neither has may be a tool's own
 * (`native.ts`). It knows no HTTP library and no socket.
 */
export interface Endpoint {
  /** Answers one POST to one server. Never rejects: an error becomes an answer. */
  post(tenant: string, server: string, post: Post): Promise<Answer>;
  /** Parses a body; a long one by a promise. Throws, or rejects with, the reason why it is not JSON or too much. */
  read(tenant: string, body: string): unknown;
  /** Like `post`, for a transport that has parsed the body already. */
  receive(tenant: string, server: string, body: unknown, post: Post): Promise<Answer>;
  /** Opens the stream of a legacy session on `listen.events`, or returns an answer instead. Never rejects. */
  listen(tenant: string, server: string, listen: Listen): Promise<Answer | undefined>;
  /** Ends a legacy session. Never rejects. */
  end(tenant: string, server: string, post: Pick<Post, "headers" | "headerless" | "principal">): Promise<Answer>;
  /** Figures for metrics. */
  stats(): EndpointStats;
  /** Ends a tenant's open subscriptions, and the calls of its sessions. */
  endTenant(tenant: string): void;
  /**
   * Ends everything that stays open by itself, such as subscriptions, each with its result; calls in progress go on.
   */
  close(): void;
  /** Resolves when the outcomes of ended tasks, and the events that clients of streams have missed, are stored. */
  settled(): Promise<void>;
}

export interface EndpointStats {
  /** The sessions that this process remembers. */
  readonly sessions: number;
  /** The tasks that run in this process. */
  readonly tasks: number;
  /** Log lines that clients were too far behind to get. */
  readonly droppedLogs: number;
}

export interface EndpointOptions {
  readonly host: Host;
  readonly berthVersion: string;
  readonly log: Log;
  /**
   * 32 bytes or more, the same for all processes of a service and across restarts. Without it, sessions and open
   * questions end with this process.
   */
  readonly sealKey?: Uint8Array;
  /** The store of tasks and sessions. */
  readonly records: Records;
  /** Set when lists differ between principals, so that no cache may share them. */
  readonly accessRequired?: boolean;
  /** Reads long bodies; without it they are read like all others. */
  readonly checks?: Pick<Checks, "readMessage" | "scalarsIn">;
  readonly limits?: ModernLimits & LegacyLimits & Pick<Limits, "waitingLogBytes" | "inlineBodyBytes">;
}

export function createEndpoint(options: EndpointOptions): Endpoint {
  const { host, checks, limits = defaultLimits, sealKey = randomBytes(32) } = options;
  const sealer = createSealer(sealKey);
  const records = inParts(options.records);
  const modern = createModern({ ...options, records, limits, sealer });
  const legacy = createLegacy({ ...options, records, limits, sealer, answer });
  const native = createNative(host);
  const closing = new Cancellation();
  const inlineUnits = checks ? limits.inlineBodyBytes : Infinity;
  const logs = { waitingLogBytes: limits.waitingLogBytes, dropped: 0 };

  const endpoint: Endpoint = {
    post(tenant, server, post) {
      if (post.body.length > inlineUnits) return receiveLong(tenant, server, post);
      let body: unknown;
      try {
        body = parseJson(post.body);
      } catch (error) {
        return Promise.resolve(refusal(null, error, post.trace));
      }
      return endpoint.receive(tenant, server, body, post);
    },

    read: (tenant, body) => (body.length > inlineUnits ? checks!.readMessage(tenant, body) : parseJson(body)),

    async receive(tenant, server, body, post) {
      try {
        const { principal } = post;
        admit(principal, server);
        const loaded = host.server(tenant, server);
        const permitted = permittedCatalog(loaded instanceof Promise ? await loaded : loaded, principal);
        const catalog = permitted instanceof Promise ? await permitted : permitted;
        admitMethods(principal, catalog, body);
        return await answerBody({ tenant, server, catalog, principal }, post, body);
      } catch (error) {
        return refusal(idOf(body), error, post.trace);
      }
    },

    listen: (tenant, server, listen) => orRefusal(tenant, server, listen, () => legacy.listen(tenant, server, listen)),
    end: (tenant, server, post) => orRefusal(tenant, server, post, () => legacy.end(tenant, server, post)),

    stats: () => ({ sessions: legacy.sessions(), tasks: modern.runningTasks(), droppedLogs: logs.dropped }),

    endTenant(tenant) {
      modern.endTenant(tenant);
      legacy.endTenant(tenant);
    },

    close() {
      closing.abort();
      modern.close();
      legacy.close();
    },

    async settled() {
      await modern.settled();
      await legacy.settled();
    },
  };
  return endpoint;

  async function receiveLong(tenant: string, server: string, post: Post): Promise<Answer> {
    let body: unknown;
    try {
      body = await checks!.readMessage(tenant, post.body);
    } catch (error) {
      return refusal(null, error, post.trace);
    }
    return endpoint.receive(tenant, server, body, post);
  }

  function answerBody(place: ServerPlace, post: Post, body: unknown): Promise<Answer> {
    if (Array.isArray(body)) return legacy.receive(place, post, body);
    const message = readMessage(body);
    if (!isModern(message, post)) return legacy.receive(place, post, message);
    if (message.kind !== "request") return Promise.resolve({ status: 202 });
    const client = modern.clientOf(message, post, place);
    const answerTo = (known: Client): Promise<Answer> => answer(place, message, post, modern.codec, known);
    return client instanceof Promise ? client.then(answerTo) : answerTo(client);
  }

  async function answer(
    place: ServerPlace,
    request: Request,
    post: Post,
    codec: Codec,
    client: Client,
  ): Promise<Answer> {
    const { tenant, server, catalog, principal } = place;
    const { id, method, params } = request;
    const { events, signal, body } = post;
    const meta = params["_meta"];
    const trace = isObject(meta) ? withMeta(post.trace, meta) : post.trace;
    try {
      const run = codec.methods.get(method) ?? (await native.methodFor(place, method));
      if (!run) throw new BerthError("method_not_found", method);
      // One literal: spreading an object into another costs several microseconds here.
      const call: MethodCall = {
        tenant,
        server,
        catalog,
        client,
        principal,
        trace,
        id,
        method,
        params,
        body,
        codec,
        events,
        logs,
        signal,
        closing,
      };
      return { status: 200, body: resultText(id, await run(call)) };
    } catch (error) {
      return { ...refusal(id, error, trace), ...(isInBand(error, codec) && { status: 200 }) };
    }
  }

  async function orRefusal<T>(
    tenant: string,
    server: string,
    { principal }: Pick<Post, "principal">,
    run: () => T | Promise<T>,
  ): Promise<T | Answer> {
    try {
      admit(principal, server);
      await host.server(tenant, server);
      return await run();
    } catch (error) {
      return refusal(null, error);
    }
  }

  function refusal(id: Request["id"] | null, error: unknown, trace?: Trace): Answer {
    const requestId = trace?.requestId ?? randomUUID();
    const shown = tellable(error, requestId, options.log, "a request failed in a way that nobody foresaw");
    const denied = shown.code === "forbidden" ? { denied: shown } : undefined;
    return { status: shown.status, body: errorText(id, shown), ...whenToRetry(shown), ...denied };
  }
}

/** RFC 9110, 10.2.3. */
function whenToRetry({ data }: BerthError): Pick<Answer, "headers"> | undefined {
  const seconds = data?.["retryAfterSeconds"];
  return typeof seconds === "number" ? { headers: { "Retry-After": String(seconds) } } : undefined;
}

/** A message with modern `_meta`, or with a modern version in its header, is modern; everything else is legacy. */
function isModern(message: Message, { headers }: Post): boolean {
  if (message.kind === "response") return false;
  const meta = message.params["_meta"];
  if (isObject(meta) && meta[META_PROTOCOL_VERSION] !== undefined) return true;
  const header = headers["mcp-protocol-version"];
  const claims = typeof header === "string" && isOfModernEra(header) && message.method !== "initialize";
  return claims || message.method === "server/discover";
}

/**
 * An error that a method itself reports is the payload of a successful exchange; only some codes are also HTTP
 * failures.
 */
function isInBand(error: unknown, { era }: Codec): boolean {
  if (!(error instanceof BerthError)) return false;
  // Earlier revisions know no such error: it comes from an upstream, and is for the client that called.
  if (error.code === "missing_capability" && era === "legacy") return true;
  return !OUT_OF_BAND.has(error.code);
}

const OUT_OF_BAND: ReadonlySet<ErrorCode> = new Set([
  "missing_capability",
  "method_not_found",
  "not_acceptable",
  "internal",
  "too_many_requests",
  "too_many_processes",
  "no_descriptors",
  "check_failed",
]);
