import type { Log } from "../lib/log.ts";
import type { Principal } from "../access/principal.ts";
import type { Tenancy } from "../host/serving/tenancy.ts";
import type { Authenticate } from "./access/authenticate.ts";
import { allowOrigin } from "./cors.ts";
import { ROOT, type RequestContext } from "./request-context.ts";
import type { RequestLimits } from "./request-limits.ts";
import { writeFailure } from "./write-answer.ts";

/** Addresses of one kind, and how requests for them are answered. */
export interface Route {
  /** Decides by method, address and headers alone; undefined for a request of another route. */
  match(context: RequestContext): Match | undefined;
  /** Writes the error that kept a request from its answer. */
  fail(context: RequestContext, error: unknown): void;
}

export interface Match {
  /** True when pages of other origins may read the answer: clients in browsers. */
  readonly isForClients: boolean;
  /** True for addresses open to everybody, without authentication. */
  readonly isPublic?: boolean;
  answer(context: RequestContext): void | Promise<void>;
}

export interface WayInOptions {
  readonly locate: (context: RequestContext) => void;
  readonly guard: (context: RequestContext) => void;
  readonly tenancy: Pick<Tenancy, "admit">;
  readonly requestLimits: RequestLimits;
  readonly authenticate: Authenticate;
  /** The first match answers; the last route matches everything. */
  readonly routes: readonly Route[];
  readonly limits: { readonly stalledMs: number };
  readonly log: Log;
}

/**
 * The path of every request except health checks: locate → guard → route → limit → authenticate → answer. Synchronous
 * steps are not awaited, since a call is worth a few microseconds.
 */
export function createWayIn(options: WayInOptions): (context: RequestContext) => void {
  const { locate, guard, requestLimits, routes } = options;

  return (context) => void comeIn(context);

  async function comeIn(context: RequestContext): Promise<void> {
    locate(context);
    let refusal: unknown;
    try {
      guard(context);
      const loading = loadTenant(context);
      if (loading) await loading;
    } catch (error) {
      refusal = error;
    }
    // A client that has left meanwhile sends nothing more.
    if (context.request.destroyed) return;
    const [route, match] = routeOf(context);
    if (refusal !== undefined) return route.fail(context, refusal);
    try {
      requestLimits.enter(context);
    } catch (error) {
      return refuseAtOnce(context, error);
    }
    try {
      if (match.isForClients) allowOrigin(context.request, context.response);
      if (match.isPublic === true) requestLimits.enterUnknown(context);
      else {
        const identifying = identify(context);
        if (identifying) await identifying;
      }
      const answering = match.answer(context);
      if (answering) await answering;
    } catch (error) {
      route.fail(context, error);
    }
  }

  function routeOf(context: RequestContext): readonly [Route, Match] {
    for (const route of routes) {
      const match = route.match(context);
      if (match) return [route, match];
    }
    throw new Error("the last route matches every request");
  }

  /** Runs after the guard: a client that may ask nothing here does not learn which tenants exist. */
  function loadTenant(context: RequestContext): Promise<void> | undefined {
    const { claimed, refusal } = context;
    if (claimed === ROOT || refusal !== undefined) return undefined;
    const refuse = (error: unknown): void => void (context.refusal = error);
    try {
      return options.tenancy.admit(claimed.tenant)?.catch(refuse);
    } catch (error) {
      refuse(error);
      return undefined;
    }
  }

  /** Finds the principal of a request and counts the request against it; undefined when that was synchronous. */
  function identify(context: RequestContext): Promise<void> | undefined {
    try {
      const found = options.authenticate(context);
      if (!(found instanceof Promise)) return countTo(found, context);
      return found.then((principal) => countTo(principal, context)).catch((error: unknown) => refuse(context, error));
    } catch (error) {
      return refuse(context, error);
    }
  }

  function countTo(principal: Principal | undefined, context: RequestContext): undefined {
    context.principal = principal;
    requestLimits.enterKnown(context);
  }

  /** Refuses a request; a client that keeps exceeding a limit hears of it later. */
  async function refuse(context: RequestContext, error: unknown): Promise<never> {
    let told = error;
    try {
      if (!context.principal) requestLimits.enterUnknown(context);
    } catch (tooMany) {
      told = tooMany;
    }
    await context.connection.hold(told);
    throw told;
  }

  /** Refuses a client that sends too much at almost no cost: without a page of Berth's, and without a challenge. */
  async function refuseAtOnce(context: RequestContext, error: unknown): Promise<void> {
    await context.connection.hold(error);
    writeFailure(context, error, options.limits.stalledMs, options.log);
  }
}
