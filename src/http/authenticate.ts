import type { IncomingMessage } from "node:http";
import type { RequestHandler } from "express";
import type { Principal } from "../access/principal.ts";

/** Whose request it is; undefined where nobody is asked for a token. Throws or rejects with `unauthorized`. */
export type Authenticate = (request: IncomingMessage) => Principal | undefined | Promise<Principal | undefined>;

const principals = new WeakMap<IncomingMessage, Principal>();

/** Has `principalOf` know whose request it is, for everything behind Express. */
export function authenticated(authenticate: Authenticate): RequestHandler {
  return async (request, _response, next) => {
    const principal = await authenticate(request);
    if (principal) principals.set(request, principal);
    next();
  };
}

export function principalOf(request: IncomingMessage): Principal | undefined {
  return principals.get(request);
}
