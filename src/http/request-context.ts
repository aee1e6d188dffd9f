import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../access/principal.ts";
import { Cancellation } from "../lib/cancellation.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { beginTrace, type Trace } from "../lib/trace.ts";
import type { Connection } from "./connections.ts";
import type { Unread } from "./unread.ts";

/** The tenant that a request names, and what stands before the paths of its addresses: `""` or `/t/<tenant>`. */
export interface Place {
  readonly tenant: string;
  readonly base: string;
}

/** Where a request leads that names no tenant. */
export const ROOT: Place = { tenant: DEFAULT_TENANT, base: "" };

/** Lasts until a response is over: written whole, or given up by its client. */
export interface Ending {
  leave(isWhole: boolean): void;
}

/**
 * Everything that is known of one request. `server.ts` makes it, the steps of `way-in.ts` fill it in, and whoever answers
 * the request is given it: nothing else is remembered of a request anywhere.
 */
export class RequestContext {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly connection: Connection;
  readonly unread: Unread;
  /** The place that the request names, whether or not that tenant is served: for those who may not learn that yet. */
  claimed: Place = ROOT;
  /** Why the tenant is not served: `tenant_not_found`, `tenant_suspended`, … */
  refusal: unknown;
  /** Whose request it is; undefined where nobody is asked for a token and none was sent, and before anybody was asked. */
  principal: Principal | undefined;
  /** What kept it from being answered, for a route that shows it in its own way. */
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
  get place(): Place {
    if (this.refusal !== undefined) throw this.refusal;
    return this.claimed;
  }

  get tenant(): string {
    return this.place.tenant;
  }

  /** The tenant, for those who go on without one; undefined where it is not served. */
  get servedTenant(): string | undefined {
    return this.refusal === undefined ? this.claimed.tenant : undefined;
  }

  /** What every link to another address of the same tenant begins with, whether the tenant is served or not. */
  get base(): string {
    return this.claimed.base;
  }

  get trace(): Trace {
    const { headers } = this.request;
    return (this.#trace ??= beginTrace(headers["x-request-id"], headers));
  }

  /** True where a browser's cookie says whose request it is. */
  get isSignedIn(): boolean {
    return this.principal !== undefined && this.request.headers.authorization === undefined;
  }

  /** Aborted when the client goes before its answer is written. */
  get signal(): Cancellation {
    if (!this.#signal) {
      this.#signal = new RequestCancellation();
      this.atClose(this.#signal);
    }
    return this.#signal;
  }

  /** Has `ending` leave when the response is over. One listener does for all: each one more is work for every call. */
  atClose(ending: Ending): void {
    const { response } = this;
    // A client that went before it was known whose request it is has closed already.
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
