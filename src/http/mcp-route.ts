import type { IncomingMessage } from "node:http";
import { Cancellation } from "../lib/cancellation.ts";
import { BerthError } from "../lib/errors.ts";
import type { Log } from "../lib/log.ts";
import type { Endpoint } from "../mcp/endpoint.ts";
import type { Answer } from "../mcp/protocol.ts";
import { readAccept } from "./accept.ts";
import type { Challenge } from "./access/challenge.ts";
import type { Bodies } from "./body.ts";
import type { EventStream } from "./event-stream.ts";
import { MCP_PATH } from "./mcp-path.ts";
import type { OpenStreams } from "./open-streams.ts";
import type { RequestContext } from "./request-context.ts";
import type { Route } from "./request-pipeline.ts";
import { writeAnswer, writeFailure } from "./write-answer.ts";

export interface McpRouteOptions {
  readonly endpoint: Endpoint;
  /** The name that stands for all servers, at `/mcp` itself. */
  readonly allServers: string;
  readonly challenge: Challenge;
  readonly streams: OpenStreams;
  readonly bodies: Bodies;
  readonly log: Log;
}

/**
 * `/mcp/<server>`, `/mcp/<server>/mcp` and `/mcp` for MCP clients, in front of Express, whose router, body parser and response helpers would
 * cost several times what the protocol does. `POST` sends a message; `GET` by a client that accepts events opens the
 * stream of its session, and `DELETE` ends the session.
 */
export class McpRoute implements Route {
  readonly #options: McpRouteOptions;

  constructor(options: McpRouteOptions) {
    this.#options = options;
  }

  match(context: RequestContext): ReturnType<Route["match"]> {
    const { method, headers, url = "" } = context.request;
    const answer = method === "GET" && !readAccept(headers.accept).events ? undefined : this.#handlers[method!];
    const path = answer && MCP_PATH.exec(url);
    if (!answer || !path) return undefined;
    return { isForClients: true, name: path[1], answer };
  }

  fail(context: RequestContext, error: unknown): void {
    const { challenge, log } = this.#options;
    challenge(context, error);
    writeFailure(context, error, log);
  }

  readonly #post: Handler = async (context, name) => {
    const { endpoint, challenge, streams, bodies } = this.#options;
    let letGo: (() => void) | undefined;
    try {
      const { tenant, principal, trace, signal } = context;
      const { headers } = context.request;
      checkContent(headers);
      const accepted = readAccept(headers.accept);
      if (!accepted.json && !accepted.events) throw new BerthError("not_acceptable");
      const server = this.#serverOf(name);

      const body = await bodies.read(context);
      letGo = bodies.hold(tenant, body);
      // A client without a stream gets its answer in one piece.
      const events: EventStream | undefined = accepted.events ? streams.take(context) : undefined;
      const answer = await endpoint.post(tenant, server, { headers, body, principal, trace, events, signal });
      if (answer.denied) challenge(context, answer.denied);
      if (events?.isOpen) events.end(answer.body);
      else writeAnswer(context, answer);
    } finally {
      letGo?.();
    }
  };

  readonly #listen: Handler = async (context, name) => {
    const { endpoint, streams } = this.#options;
    const { tenant, principal, response, request } = context;
    const server = this.#serverOf(name);
    const events = streams.take(context);
    if (!events) throw new BerthError("too_many_streams");
    const signal = new Cancellation();
    response.once("close", () => signal.abort());
    events.stand();
    const answer = await endpoint.listen(tenant, server, { headers: request.headers, principal, events, signal });
    if (answer) this.#write(context, answer);
  };

  readonly #endSession: Handler = async (context, name) => {
    const { tenant, principal, request } = context;
    const server = this.#serverOf(name);
    const answer = await this.#options.endpoint.end(tenant, server, { headers: request.headers, principal });
    this.#write(context, answer);
  };

  readonly #handlers: Readonly<Record<string, Handler>> = {
    POST: this.#post,
    GET: this.#listen,
    DELETE: this.#endSession,
  };

  #serverOf(name: string | undefined): string {
    return name === undefined ? this.#options.allServers : decodeName(name);
  }

  #write(context: RequestContext, answer: Answer): void {
    if (context.response.headersSent) return;
    if (answer.denied) this.#options.challenge(context, answer.denied);
    if (answer.status === 405) context.response.setHeader("Allow", "POST");
    writeAnswer(context, answer);
  }
}

type Handler = (context: RequestContext, name: string | undefined) => Promise<void>;

export function checkContent({ "content-type": type, "content-encoding": encoding }: IncomingMessage["headers"]): void {
  if (type === undefined || !/^application\/json\s*(;|$)/i.test(type)) throw new BerthError("unsupported_media_type");
  if (encoding !== undefined && encoding !== "identity") {
    throw new BerthError("unsupported_media_type", `and its Content-Encoding identity, not ${encoding}`);
  }
}

export function decodeName(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    throw new BerthError("server_not_found", `the percent-encoding of "${name}" is broken`);
  }
}
