import { randomBytes, randomUUID } from "node:crypto";
import { Cancellation } from "../cancellation.ts";
import { defaultLimits } from "../config.ts";
import { BerthError, type ErrorCode } from "../errors.ts";
import type { Catalog } from "../host/catalog.ts";
import type { Host } from "../host/host.ts";
import { isObject } from "../json.ts";
import type { Log } from "../log.ts";
import { errorText, idOf, parseJson, readMessage, resultText, type Request } from "./json-rpc.ts";
import { legacyClient, legacyVersion } from "./legacy/client.ts";
import { createLegacyCodec } from "./legacy/codec.ts";
import { createModern, type ModernLimits } from "./modern/modern.ts";
import type { Answer, Era, Post } from "./protocol.ts";
import { isOfModernEra, META_PROTOCOL_VERSION } from "./revisions.ts";
import { createSealer } from "./seal.ts";

/**
 * The MCP endpoint of every server, for both eras. It owns the way of a message: JSON-RPC → era → method → answer.
 * What differs between eras stands in `modern.ts` and `legacy.ts`; it knows no HTTP library and no socket.
 */
export interface Endpoint {
  /** Answers one POST to one server. Never rejects: what goes wrong becomes an answer. */
  post(tenant: string, server: string, post: Post): Promise<Answer>;
  /** As `post`, for a transport that has parsed the body already. */
  receive(tenant: string, server: string, body: unknown, post: Post): Promise<Answer>;
  /** Ends what stays open by itself, such as subscriptions, each with its result; calls under way go on. */
  close(): void;
}

export interface EndpointOptions {
  readonly host: Host;
  readonly berthVersion: string;
  readonly log: Log;
  /**
   * 32 bytes or more, the same for all processes of a service and after a restart. Without it questions that are
   * open cannot be answered once this process is gone.
   */
  readonly sealKey?: Uint8Array;
  readonly limits?: ModernLimits;
}

/** Revisions in which a body may be an array of messages. */
const BATCHING: ReadonlySet<string> = new Set(["2025-03-26", "2024-11-05"]);
const BATCH_MESSAGES_MAX = 100;

export function createEndpoint(options: EndpointOptions): Endpoint {
  const { limits = defaultLimits, sealKey = randomBytes(32) } = options;
  const modern = createModern({ ...options, limits, sealer: createSealer(sealKey) });
  const legacy: Era = { codec: createLegacyCodec(options), clientOf: legacyClient };

  const closing = new Cancellation();

  const endpoint: Endpoint = {
    post(tenant, server, post) {
      let body: unknown;
      try {
        body = parseJson(post.body);
      } catch (error) {
        return Promise.resolve(refusal(null, error));
      }
      return endpoint.receive(tenant, server, body, post);
    },

    async receive(tenant, server, body, post) {
      try {
        const loaded = options.host.server(tenant, server);
        const catalog = loaded instanceof Promise ? await loaded : loaded;
        if (Array.isArray(body)) return await answerBatch(tenant, server, catalog, post, body);
        return await answerOne(tenant, server, catalog, post, body);
      } catch (error) {
        return refusal(idOf(body), error);
      }
    },

    close() {
      closing.abort();
      modern.close();
    },
  };
  return endpoint;

  async function answerOne(
    tenant: string,
    server: string,
    catalog: Catalog,
    post: Post,
    body: unknown,
  ): Promise<Answer> {
    const message = readMessage(body);
    if (message.kind !== "request") return { status: 202 };
    const { id, method, params } = message;
    const { codec, clientOf } = isModernRequest(message, post) ? modern : legacy;
    const client = clientOf(message, post, catalog);
    const run = codec.methods.get(method);
    if (!run) throw new BerthError("method_not_found", method);
    try {
      const { events, signal, body: text } = post;
      const call = { tenant, server, catalog, id, method, params, body: text, codec, client, events, signal, closing };
      const result = await run(call);
      return { status: 200, body: resultText(message.id, result) };
    } catch (error) {
      return { ...refusal(message.id, error), ...(isInBand(error) && { status: 200 }) };
    }
  }

  async function answerBatch(
    tenant: string,
    server: string,
    catalog: Catalog,
    post: Post,
    bodies: unknown[],
  ): Promise<Answer> {
    const version = legacyVersion(post.headers);
    if (!BATCHING.has(version)) throw new BerthError("invalid_request", `${version} has no batches`);
    if (bodies.length === 0) throw new BerthError("invalid_request", "a batch must not be empty");
    if (bodies.length > BATCH_MESSAGES_MAX) {
      throw new BerthError("invalid_request", `a batch holds at most ${BATCH_MESSAGES_MAX} messages`);
    }
    const answers = await Promise.all(
      bodies.map((body) =>
        answerOne(tenant, server, catalog, post, body).catch((error: unknown) => refusal(idOf(body), error)),
      ),
    );
    const texts = answers.flatMap((answer) => answer.body ?? []);
    return texts.length === 0 ? { status: 202 } : { status: 200, body: `[${texts.join(",")}]` };
  }

  function refusal(id: Request["id"] | null, error: unknown): Answer {
    if (error instanceof BerthError) return { status: error.status, body: errorText(id, error) };
    const reference = randomUUID();
    options.log.error({ err: error, reference }, "a request failed in a way that nobody foresaw");
    const internal = new BerthError("internal", `reference ${reference}`, { data: { reference } });
    return { status: internal.status, body: errorText(id, internal) };
  }
}

/** A request with modern `_meta`, or a modern version in its header, is modern; everything else is legacy. */
function isModernRequest({ method, params }: Request, { headers }: Post): boolean {
  const meta = params["_meta"];
  if (isObject(meta) && meta[META_PROTOCOL_VERSION] !== undefined) return true;
  const header = headers["mcp-protocol-version"];
  const claims = typeof header === "string" && isOfModernEra(header) && method !== "initialize";
  return claims || method === "server/discover";
}

/** What a method itself reports is the payload of an exchange that worked; only some codes also are HTTP failures. */
function isInBand(error: unknown): boolean {
  return error instanceof BerthError && !OUT_OF_BAND.has(error.code);
}

const OUT_OF_BAND: ReadonlySet<ErrorCode> = new Set([
  "missing_capability",
  "method_not_found",
  "not_acceptable",
  "internal",
]);
