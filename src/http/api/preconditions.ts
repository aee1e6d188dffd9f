import type { Request } from "express";
import { rightsOf, type OpenAccess } from "../../access/rights.ts";
import type { SaveOptions } from "../../edits/edits.ts";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { RoutedContext } from "../routed.ts";

/** The version that a writer expects (RFC 9110, 13.1): a given one, none, or any. */
export type Precondition =
  | { readonly kind: "version"; readonly expected: Cid }
  | { readonly kind: "absent" }
  | { readonly kind: "any" };

/** Reads the precondition; undefined without such a header. Throws `invalid_request` for any other value. */
export function readPrecondition({ headers }: Pick<Request, "headers">): Precondition | undefined {
  const match = headers["if-match"];
  const noneMatch = headers["if-none-match"];
  if (match !== undefined && noneMatch !== undefined) {
    throw new BerthError("invalid_request", "If-Match and If-None-Match exclude each other here");
  }
  if (noneMatch !== undefined) {
    if (noneMatch.trim() === "*") return { kind: "absent" };
    throw new BerthError("invalid_request", "If-None-Match can only be * here, for a name that does not exist yet");
  }
  if (match === undefined) return undefined;
  if (match.trim() === "*") return { kind: "any" };
  const cid = /^"([^"]+)"$/.exec(match.trim())?.[1];
  if (cid === undefined) throw new BerthError("invalid_request", 'If-Match must be one ETag, "CID", or *');
  return { kind: "version", expected: cid };
}

/** Like `readPrecondition`, but required: otherwise two people silently overwrite each other. */
export function requirePrecondition(request: Pick<Request, "headers">): Precondition {
  const precondition = readPrecondition(request);
  if (precondition) return precondition;
  const remedy = "send If-Match with the ETag that you read, If-None-Match: * to create, or If-Match: *";
  throw new BerthError("precondition_required", remedy);
}

export function saveOptions(
  context: RoutedContext,
  precondition: Precondition | undefined,
  access: OpenAccess,
): SaveOptions {
  const { headers, query } = context.request;
  const allowed = headers["berth-allow-breaking"] ?? query["allow_breaking"];
  return {
    ...(precondition?.kind === "version" && { expected: precondition.expected }),
    ...(precondition?.kind === "absent" && { expected: null }),
    ...(precondition?.kind === "any" && { mustExist: true }),
    allowBreaking: allowed === "true" || allowed === "1",
    by: writerOf(context),
    rights: rightsOf(context.principal, access),
  };
}

/** The author of a change: its way in, and the principal if there is one. */
export function writerOf({ request, principal }: RoutedContext): string {
  // Only browsers send this header, and only for their pages.
  const way = request.headers["sec-fetch-site"] === undefined ? "api" : "page";
  return principal ? `${way}, ${principal.id}` : way;
}

export function etagOf(cid: Cid): string {
  return `"${cid}"`;
}
