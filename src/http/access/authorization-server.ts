import type { RequestHandler } from "express";
import { BerthError } from "../../lib/errors.ts";

/**
 * Where clients look for an authorization server at the address itself (RFC 8414, and what the revision of 2025-03-26
 * has them try without metadata). Berth is none, and a client that was asked for a token there would take that for the
 * answer of one that fails.
 */
export const AUTHORIZATION_SERVER = ["/.well-known/*path", "/authorize", "/token", "/register"];

export const noAuthorizationServer: RequestHandler = (request) => {
  const what = "Berth makes no tokens here; send one that `berth token create` gave, as Authorization: Bearer <token>";
  throw new BerthError("not_found", `${request.path}: ${what}`);
};
