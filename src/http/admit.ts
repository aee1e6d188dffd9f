import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestHandler } from "express";
import type { Principal } from "../access/principal.ts";
import type { Admission } from "../admission/admission.ts";
import type { Strangers } from "../admission/strangers.ts";
import { BerthError } from "../errors.ts";
import { atClose } from "./at-close.ts";
import type { Authenticate } from "./access/authenticate.ts";
import { peerOf } from "./peer.ts";
import { hold } from "./hold.ts";
import { tenantOf } from "./place.ts";

/** Of a request that is not counted to whom it will turn out to be. */
const RESPONSE = Symbol("response");
type Entered = IncomingMessage & { [RESPONSE]?: ServerResponse | undefined };

export interface Admit {
  /** Counts a request until it is answered, as far as it is known whose it is. Throws `too_many_requests`. */
  readonly enter: (request: IncomingMessage, response: ServerResponse) => void;
  /** Finds out whose a request that entered is, and counts it to that one, too. Throws `too_many_requests` besides. */
  readonly authenticate: Authenticate;
  /** In front of what is there for everybody: where a token is needed elsewhere, whoever asks is counted as a stranger. */
  readonly forEverybody: RequestHandler;
}

export interface AdmitOptions {
  readonly admission: Admission;
  readonly strangers: Strangers;
  /** Whether whoever has no token is refused. */
  readonly required: boolean;
  /** Whether a proxy is configured, which says from where requests come. */
  readonly isProxied: boolean;
}

/** Lets requests in as far as the limits of their tenants, and of who sends them, go. */
export function createAdmit(options: AdmitOptions, authenticate: Authenticate): Admit {
  const admit = options.required ? admitKnown(options, authenticate) : admitAll(options, authenticate);
  return { ...admit, authenticate: toldInTime(admit.authenticate) };
}

/** Whoever goes on above a limit hears of it later. */
function toldInTime(authenticate: Authenticate): Authenticate {
  const fail = (request: IncomingMessage, error: unknown): Promise<never> | never => {
    const held = hold(request, error);
    if (!held) throw error;
    return held.then(() => {
      throw error;
    });
  };
  return (request) => {
    try {
      const found = authenticate(request);
      return found instanceof Promise ? found.catch((error: unknown) => fail(request, error)) : found;
    } catch (error) {
      return fail(request, error);
    }
  };
}

/** Nobody is asked for a token: each request is one of its tenant. */
function admitAll({ admission }: AdmitOptions, authenticate: Authenticate): Admit {
  const count = (request: IncomingMessage, principal: Principal | undefined): Principal | undefined => {
    const response = (request as Entered)[RESPONSE];
    if (principal && response) atClose(response, admission.enterAs(principal));
    return principal;
  };
  return {
    enter(request, response) {
      const tenant = servedTenantOf(request);
      if (tenant === undefined) return;
      atClose(response, admission.enter(tenant));
      if (hasCredential(request)) (request as Entered)[RESPONSE] = response;
    },
    authenticate(request) {
      const found = authenticate(request);
      return found instanceof Promise ? found.then((it) => count(request, it)) : count(request, found);
    },
    forEverybody: (_request, _response, next) => next(),
  };
}

/** Only those whose token is good are their tenant's: nobody else can use up what it may have. */
function admitKnown({ admission, strangers, isProxied }: AdmitOptions, authenticate: Authenticate): Admit {
  const countStranger = (request: IncomingMessage, response: ServerResponse): void =>
    atClose(response, strangers.enter(peerOf(request, isProxied)));
  const takeResponse = (request: Entered): ServerResponse | undefined => {
    const response = request[RESPONSE];
    request[RESPONSE] = undefined;
    return response;
  };
  const count = (request: IncomingMessage, principal: Principal | undefined): Principal | undefined => {
    const response = principal && takeResponse(request);
    if (!response) return principal;
    atClose(response, admission.enter(principal.tenant));
    atClose(response, admission.enterAs(principal));
    return principal;
  };
  const refused = (request: IncomingMessage, error: unknown): never => {
    const response = takeResponse(request);
    if (response) countStranger(request, response);
    throw error;
  };
  return {
    enter(request, response) {
      if (hasCredential(request)) (request as Entered)[RESPONSE] = response;
      else countStranger(request, response);
    },
    authenticate(request) {
      let found: ReturnType<Authenticate>;
      try {
        found = authenticate(request);
      } catch (error) {
        return refused(request, error);
      }
      if (!(found instanceof Promise)) return count(request, found);
      return found.then(
        (it) => count(request, it),
        (error: unknown) => refused(request, error),
      );
    },
    forEverybody(request, response, next) {
      if (takeResponse(request)) countStranger(request, response);
      next();
    },
  };
}

function hasCredential({ headers: { authorization, cookie } }: IncomingMessage): boolean {
  return authorization !== undefined || cookie !== undefined;
}

/** What there is to say of a tenant that is not served, the route says in its own way. */
function servedTenantOf(request: IncomingMessage): string | undefined {
  try {
    return tenantOf(request);
  } catch (error) {
    if (error instanceof BerthError) return undefined;
    throw error;
  }
}
