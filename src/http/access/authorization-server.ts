import type { RequestHandler } from "express";
import { BerthError } from "../../lib/errors.ts";

/**
 * The paths at which clients look for an authorization server on the host itself (RFC 8414, and the fallbacks of
 * revision 2025-03-26). Berth is not one; a client that was asked for a token here would see a failing authorization
 * server.
 */
export const AUTHORIZATION_SERVER = ["/.well-known/*path", "/authorize", "/token", "/register"];

export const noAuthorizationServer: RequestHandler = (request) => {
  const what = "Berth makes no tokens here; send one that `berth token create` gave, as Authorization: Bearer <token>";
  throw new BerthError("not_found", `${request.path}: ${what}`);
};
