import type { IncomingMessage } from "node:http";
import type { Admission } from "../admission/admission.ts";
import type { AnonymousLimits } from "../admission/anonymous-limits.ts";
import { peerOf } from "./peer.ts";
import type { RequestContext } from "./request-context.ts";

export interface RequestLimitsOptions {
  readonly admission: Pick<Admission, "enter" | "enterAs">;
  readonly strangers: Pick<AnonymousLimits, "enter">;
  /** True when a client without a token is refused. */
  readonly required: boolean;
  /** True when a proxy is configured, which states where requests come from. */
  readonly isProxied: boolean;
}

/**
 * Counts each request until it is answered, against the limits of its tenant and of its sender. Where no token is
 * required, every request counts against its tenant. Where one is, only those of token holders do, so that nobody else
 * can use up a tenant's share; all others count against their address. Each method throws `too_many_requests`.
 */
export class RequestLimits {
  readonly #options: RequestLimitsOptions;

  constructor(options: RequestLimitsOptions) {
    this.#options = options;
  }

  /** Counts a request before authentication; where a token is required, one with a credential is counted after it. */
  enter(context: RequestContext): void {
    const { admission, required } = this.#options;
    if (required) {
      if (!hasCredential(context.request)) this.#enterStranger(context);
      return;
    }
    // The route refuses a tenant that is not served in its own way.
    if (context.servedTenant !== undefined) context.atClose(admission.enter(context.servedTenant));
  }

  /** Counts a request after authentication. */
  enterKnown(context: RequestContext): void {
    const { admission, required } = this.#options;
    const { principal } = context;
    if (!principal) return;
    if (required) context.atClose(admission.enter(principal.tenant));
    context.atClose(admission.enterAs(principal));
  }

  /** Counts a request whose credential is not asked for, or is invalid. */
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
