import type { IncomingMessage } from "node:http";
import type { Admission } from "../admission/admission.ts";
import type { Strangers } from "../admission/strangers.ts";
import { peerOf } from "./peer.ts";
import type { RequestContext } from "./request-context.ts";

export interface RequestLimitsOptions {
  readonly admission: Pick<Admission, "enter" | "enterAs">;
  readonly strangers: Pick<Strangers, "enter">;
  /** True where a client without a token is refused. */
  readonly required: boolean;
  /** True where a proxy is configured, which says from where requests come. */
  readonly isProxied: boolean;
}

/**
 * Counts each request until it is answered, against the limits of its tenant and of its sender. Where nobody is asked for
 * a token, each request is one of its tenant. Where a token is needed, only the holders of one are their tenant's, so
 * that nobody else can use up what it may have: all others are counted by their addresses. Each method throws
 * `too_many_requests`.
 */
export class RequestLimits {
  readonly #options: RequestLimitsOptions;

  constructor(options: RequestLimitsOptions) {
    this.#options = options;
  }

  /** Before it is known whose the request is; one with a credential waits for that, where a token is needed. */
  enter(context: RequestContext): void {
    const { admission, required } = this.#options;
    if (required) {
      if (!hasCredential(context.request)) this.#enterStranger(context);
      return;
    }
    // Of a tenant that is not served the route tells in its own way.
    if (context.servedTenant !== undefined) context.atClose(admission.enter(context.servedTenant));
  }

  /** Once it is known whose the request is. */
  enterKnown(context: RequestContext): void {
    const { admission, required } = this.#options;
    const { principal } = context;
    if (!principal) return;
    if (required) context.atClose(admission.enter(principal.tenant));
    context.atClose(admission.enterAs(principal));
  }

  /** Whose credential is asked for by nobody, or is no good. */
  enterUnknown(context: RequestContext): void {
    if (this.#options.required && hasCredential(context.request)) this.#enterStranger(context);
  }

  #enterStranger(context: RequestContext): void {
    const { strangers, isProxied } = this.#options;
    context.atClose(strangers.enter(peerOf(context.request, isProxied)));
  }
}

function hasCredential({ headers: { authorization, cookie } }: IncomingMessage): boolean {
  return authorization !== undefined || cookie !== undefined;
}
