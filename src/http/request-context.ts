import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../access/principal.ts";
import { Cancellation } from "../lib/cancellation.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { beginTrace, type Trace } from "../lib/trace.ts";
import type { Connection } from "./connections.ts";
import type { Unread } from "./unread.ts";

/** The tenant that a request names, and the prefix of its paths: `""` or `/t/<tenant>`. */
export interface RequestPlace {
  readonly tenant: string;
  readonly base: string;
}

/** The place of a request that names no tenant. */
export const ROOT: RequestPlace = { tenant: DEFAULT_TENANT, base: "" };

/** Ends with a response, whether it is written completely or given up by its client. */
export interface Ending {
  leave(isWhole: boolean): void;
}

/**
 * All state of one request: `request-pipeline.ts` creates it, its steps fill it in, and the route that answers receives it.
 * Nothing else about a request is stored anywhere.
 */
export class RequestContext {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly connection: Connection;
  readonly unread: Unread;
  /**
   * The place that the request names, whether or not that tenant is served: for steps that must not reveal that yet.
   */
  claimed: RequestPlace = ROOT;
  /** Why the tenant is not served: `tenant_not_found`, `tenant_suspended`, … */
  refusal: unknown;
  /** The principal of the request; undefined before authentication, and when no token is required and none was sent. */
  principal: Principal | undefined;
  /** The error that kept the request from its answer, for a route that shows it in its own way. */
  failure: unknown;
  /** Set by `unread`, which listens for the end of a response once. */
  isUnreadWatched = false;
  #trace: Trace | undefined;
  #endings: Ending | Ending[] | undefined;
  #signal: RequestCancellation | undefined;

  constructor(request: IncomingMessage, response: ServerResponse, connection: Connection, unread: Unread) {
    this.request = request;
    this.response = response;
    this.connection = connection;
    this.unread = unread;
  }

  /** Throws the refusal of a tenant that is not served, as `tenant` does. */
  get place(): RequestPlace {
    if (this.refusal !== undefined) throw this.refusal;
    return this.claimed;
  }

  get tenant(): string {
    return this.place.tenant;
  }

  /** The tenant, for callers that can do without one; undefined when it is not served. */
  get servedTenant(): string | undefined {
    return this.refusal === undefined ? this.claimed.tenant : undefined;
  }

  /** The prefix of every link within the tenant, whether the tenant is served or not. */
  get base(): string {
    return this.claimed.base;
  }

  get trace(): Trace {
    const { headers } = this.request;
    return (this.#trace ??= beginTrace(headers["x-request-id"], headers));
  }

  /** True when a browser's cookie identifies the principal. */
  get isSignedIn(): boolean {
    return this.principal !== undefined && this.request.headers.authorization === undefined;
  }

  /** Aborted when the client leaves before its answer is written. */
  get signal(): Cancellation {
    if (!this.#signal) {
      this.#signal = new RequestCancellation();
      this.atClose(this.#signal);
    }
    return this.#signal;
  }

  /** Calls `ending.leave` when the response is over. One listener serves all: each further one costs every call. */
  atClose(ending: Ending): void {
    const { response } = this;
    // The response of a client that left before authentication has already closed.
    if (response.closed) return ending.leave(false);
    if (this.#endings === undefined) {
      this.#endings = ending;
      response.on("close", () => this.#close());
    } else if (Array.isArray(this.#endings)) this.#endings.push(ending);
    else this.#endings = [this.#endings, ending];
  }

  #close(): void {
    const { writableFinished } = this.response;
    if (!Array.isArray(this.#endings)) this.#endings!.leave(writableFinished);
    else for (const ending of this.#endings) ending.leave(writableFinished);
  }
}

class RequestCancellation extends Cancellation implements Ending {
  leave(isWhole: boolean): void {
    if (!isWhole) this.abort();
  }
}

/** The header of every answer that names its request. */
export const REQUEST_ID_HEADER = "X-Request-Id";
