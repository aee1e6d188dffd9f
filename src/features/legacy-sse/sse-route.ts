import { randomUUID } from "node:crypto";
import { readPrincipal, type Principal, type WrittenPrincipal } from "../../access/principal.ts";
import { readAccept } from "../../http/accept.ts";
import type { EventStream } from "../../http/event-stream.ts";
import type { McpRouteKit } from "../../http/feature-routes.ts";
import { checkContent, decodeName } from "../../http/mcp-route.ts";
import { REQUEST_ID_HEADER, type RequestContext } from "../../http/request-context.ts";
import type { Route } from "../../http/request-pipeline.ts";
import { writeFailure } from "../../http/write-answer.ts";
import { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { parseJson } from "../../lib/parse-json.ts";
import type { Trace } from "../../lib/trace.ts";
import { fixed } from "../../limits/fixed.ts";
import { admit } from "../../mcp/admit.ts";
import type { Endpoint } from "../../mcp/endpoint.ts";
import { errorText, idOf } from "../../mcp/json-rpc.ts";
import type { EventSink, Post, RequestTarget } from "../../mcp/protocol.ts";

const bounds = fixed({
  /** Open connections of HTTP+SSE in one process, and of one tenant. */
  sseConnections: 1_000,
  sseConnectionsPerTenant: 750,
});

/** Without a name it stands for all servers. */
const SSE_PATH = /^\/mcp(?:\/([^/?]+))?\/(sse|messages)\/?(?:\?(.*))?$/;

/**
 * HTTP+SSE, the transport of 2024-11-05 (`basic/transports`): `GET /mcp/<server>/sse`, or `GET /mcp/sse` for all
 * servers, opens the connection that carries every answer; its first event names the address for messages, and in it the
 * node that has the connection, to which the others hand what they get. The endpoint handles the protocol and sees one
 * session, which ends with the connection.
 */
export function createSseRoute(options: McpRouteKit): Route {
  const connections = new Map<string, Connection>();
  options.tenancy.onEnd((tenant) => {
    for (const connection of connections.values()) if (connection.tenant === tenant) connection.end();
  });

  options.errands.on(MESSAGE, ({ tenant, about, text }) => {
    const { id, server, principal: written, trace } = about as unknown as MessageFacts;
    const principal = written ? readPrincipal(written) : undefined;
    const connection = find(id, { tenant, server, principal });
    checkUnread(tenant);
    const letGo = options.bodies.hold(tenant, text);
    connection
      .receive(text, principal, trace)
      .catch((error: unknown) => options.log.error({ err: error }, "a message of HTTP+SSE failed"))
      .finally(letGo);
  });

  return {
    match(context) {
      const [, name, part, query = ""] = SSE_PATH.exec(context.request.url ?? "") ?? [];
      if (part === undefined) return undefined;
      const sessionId = new URLSearchParams(query).get("sessionId") ?? "";
      if (name === undefined && !isOfAllServers(context, part, sessionId)) return undefined;
      return { isForClients: true, answer: () => answer(context, name, part, sessionId) };
    },
    fail,
  };

  function fail(context: RequestContext, error: unknown): void {
    options.challenge(context, error);
    writeFailure(context, error, options.log);
  }

  function answer(context: RequestContext, name: string | undefined, part: string, sessionId: string): Promise<void> {
    const { request, response } = context;
    const method = part === "sse" ? "GET" : "POST";
    if (request.method !== method) {
      response.setHeader("Allow", method);
      throw new BerthError("method_not_allowed", `${request.method}; this address takes ${method}`);
    }
    const server = name === undefined ? options.allServers : decodeName(name);
    return part === "sse" ? open(server, context) : receive(sessionId, server, context);
  }

  /** True for an address of all servers, rather than of a server named `sse` or `messages`. */
  function isOfAllServers({ request, claimed, refusal }: RequestContext, part: string, sessionId: string): boolean {
    if (part === "messages") return request.method === "POST" && CONNECTION_ID.exec(sessionId)?.[2] !== undefined;
    if (request.method !== "GET" || !readAccept(request.headers.accept).events) return false;
    return refusal !== undefined || !options.host.has(claimed.tenant, part);
  }

  async function open(server: string, context: RequestContext): Promise<void> {
    const { request, response, tenant, base, principal } = context;
    if (!/text\/event-stream|\*\/\*|text\/\*/.test(request.headers.accept ?? "*/*"))
      throw new BerthError("not_acceptable");
    if (connections.size >= bounds.sseConnections) {
      throw new BerthError("too_many_streams", `the limit is ${bounds.sseConnections}`);
    }
    const { endpoint, host, streams } = options;
    admit(principal, server);
    await host.server(tenant, server);
    if (response.destroyed) return;
    const { sseConnectionsPerTenant } = bounds;
    if (connectionsOf(tenant).length >= sseConnectionsPerTenant) {
      throw new BerthError("too_many_streams", `the limit of a tenant is ${sseConnectionsPerTenant}`);
    }
    const events = streams.take(context);
    if (!events) throw new BerthError("too_many_streams");
    events.stand();
    const id = `${options.cluster.id}.${server === options.allServers ? "all." : ""}${randomUUID()}`;
    const connection = new Connection(endpoint, { tenant, server, principal }, events, () => cutUnread(tenant));
    connections.set(id, connection);
    response.once("close", () => {
      connections.delete(id);
      void connection.close();
    });
    const path = server === options.allServers ? "/mcp" : `/mcp/${encodeURIComponent(server)}`;
    void events.sendOther("endpoint", `${base}${path}/messages?sessionId=${id}`);
  }

  function connectionsOf(tenant: string): Connection[] {
    return [...connections.values()].filter((connection) => connection.tenant === tenant);
  }

  /** Refuses a message when too much is unread: answers wait in memory until the client reads them. */
  function checkUnread(tenant: string): void {
    const { unreadSseBytesPerTenant } = options.limits;
    if (unreadBytesOf(connectionsOf(tenant)) <= unreadSseBytesPerTenant) return;
    throw new BerthError(
      "too_many_requests",
      `more than ${unreadSseBytesPerTenant} bytes of answers are still unread; read them first`,
      {
        data: { retryAfterSeconds: RETRY_AFTER_S },
      },
    );
  }

  /** Messages accepted before anything was unread add up as well: the connection with the most unread is cut. */
  function cutUnread(tenant: string): void {
    const all = connectionsOf(tenant);
    const beyond = unreadBytesOf(all) - options.limits.unreadSseBytesPerTenant;
    // A single connection is held to the limit of a stream.
    if (beyond <= 0 || all.length === 1) return;
    all.reduce((most, each) => (each.stream.unreadBytes > most.stream.unreadBytes ? each : most)).stream.cut();
  }

  async function receive(id: string, server: string, context: RequestContext): Promise<void> {
    const { request, response, tenant, principal, trace } = context;
    const node = CONNECTION_ID.exec(id)?.[1];
    const isElsewhere = node !== undefined && node !== options.cluster.id;
    const connection = isElsewhere ? undefined : find(id, { tenant, server, principal });
    checkContent(request.headers);
    if (connection) checkUnread(tenant);
    const body = await options.bodies.read(context);
    const letGo = options.bodies.hold(tenant, body);
    try {
      if (isElsewhere) {
        const { requestId, context: traced } = trace;
        const about = {
          id,
          server,
          principal: principal?.written as unknown as JsonObject,
          trace: { requestId, context: { ...traced } },
        };
        if (!(await options.errands.send(node, MESSAGE, { tenant, about, text: body }))) throw closed();
      }
      response.writeHead(202, [REQUEST_ID_HEADER, trace.requestId]).end();
      await connection?.receive(body, principal, trace);
    } finally {
      letGo();
    }
  }

  /** The connection of this id, for nobody but its owner. Throws `session_not_found`. */
  function find(id: string, { tenant, server, principal }: Whose): Connection {
    const connection = connections.get(id);
    const isIts = connection?.tenant === tenant && connection.server === server;
    if (!isIts || connection.principal?.id !== principal?.id) throw closed();
    return connection;
  }
}

function closed(): BerthError {
  return new BerthError("session_not_found", "its connection is closed");
}

/** An errand: the message of a client to a connection that another node has. */
const MESSAGE = "sse-message";

interface MessageFacts {
  readonly id: string;
  readonly server: string;
  readonly principal?: WrittenPrincipal;
  readonly trace: Trace;
}

/** The id of a connection names the node that has it, and whether it is for all servers. */
const CONNECTION_ID = /^([\w-]{12})\.(all\.)?[\da-f-]{36}$/;

function unreadBytesOf(connections: readonly Connection[]): number {
  return connections.reduce((sum, { stream }) => sum + stream.unreadBytes, 0);
}

/** By then a client may have read what waits for it. */
const RETRY_AFTER_S = 1;

type Whose = Pick<RequestTarget, "tenant" | "server" | "principal">;

/** One client: its session from `initialize` on, and the stream that carries everything to it. */
class Connection {
  readonly tenant: string;
  readonly server: string;
  /** The owner; its current permissions come with each message. */
  readonly principal: Principal | undefined;
  readonly #endpoint: Endpoint;
  /** Without `open`: this transport cannot resume a broken stream. */
  readonly #events: EventSink;
  #headers: Readonly<Record<string, string>> = {};
  readonly #gone = new Cancellation();
  readonly stream: EventStream;

  /** `onUnread` is called when the client has not taken a message at once. */
  constructor(endpoint: Endpoint, { tenant, server, principal }: Whose, stream: EventStream, onUnread: () => void) {
    this.tenant = tenant;
    this.server = server;
    this.principal = principal;
    this.#endpoint = endpoint;
    this.stream = stream;
    this.#events = {
      send: (message) => {
        const taken = stream.send(message);
        if (taken) onUnread();
        return taken;
      },
      close: () => stream.close(),
    };
  }

  async receive(body: string, principal: Principal | undefined, trace: Trace): Promise<void> {
    const early = this.#isInitialized ? undefined : whatIsTooEarly(body, INITIALIZE_UNITS_MAX);
    if (early !== undefined) return void this.#events.send(early);
    const post: Post = {
      headers: this.#headers,
      headerless: true,
      body,
      principal,
      trace,
      events: this.#events,
      signal: this.#gone,
    };
    const answer = await this.#endpoint.post(this.tenant, this.server, post);
    const token = answer.headers?.["Mcp-Session-Id"];
    if (token !== undefined && !this.#isInitialized) this.#begin(token);
    if (answer.body !== undefined) void this.#events.send(answer.body);
  }

  end(): void {
    this.#events.close?.();
  }

  async close(): Promise<void> {
    this.#gone.abort();
    const { principal } = this;
    const post = { headers: this.#headers, headerless: true as const, principal };
    if (this.#isInitialized) await this.#endpoint.end(this.tenant, this.server, post);
  }

  get #isInitialized(): boolean {
    return this.#headers["mcp-session-id"] !== undefined;
  }

  #begin(token: string): void {
    this.#headers = { "mcp-session-id": token };
    const { principal } = this;
    if (this.#gone.aborted) void this.close();
    else
      void this.#endpoint.listen(this.tenant, this.server, {
        headers: this.#headers,
        principal,
        events: this.#events,
      });
  }
}

/** No client needs more to introduce itself. */
const INITIALIZE_UNITS_MAX = 64 * 1024;

/** The error for a request that only an initialized connection may make; undefined for any other message. */
function whatIsTooEarly(body: string, unitsMax: number): string | undefined {
  if (body.length > unitsMax) return errorText(null, new BerthError("not_initialized", "send initialize first"));
  let message: unknown;
  try {
    message = parseJson(body);
  } catch {
    return undefined;
  }
  if (isObject(message) && (message["method"] === "initialize" || message["method"] === "ping")) return undefined;
  return errorText(idOf(message), new BerthError("not_initialized", "send initialize first"));
}
