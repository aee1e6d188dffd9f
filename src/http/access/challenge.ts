import type { IncomingMessage, ServerResponse } from "node:http";
import type { Access } from "../../access/access.ts";
import { scopesFor } from "../../access/oauth/scopes.ts";
import type { Action, Principal } from "../../access/principal.ts";
import { BerthError } from "../../errors.ts";
import { tenantOf } from "../place.ts";
import type { Resources } from "./resources.ts";

/**
 * Tells a client by `WWW-Authenticate` what token it needs and where it gets one, when it was refused for want of one.
 * For other errors nothing is told. `principal` is whose request it was, where that is known apart from the request.
 */
export type Challenge = (
  request: IncomingMessage,
  response: ServerResponse,
  refused: unknown,
  principal?: Principal,
) => void;

/** RFC 6750, section 3, with the parameters of RFC 9728 and of MCP (2026-07-28 `basic/authorization`). */
export function createChallenge(access: Access, resources: Resources): Challenge {
  return (request, response, refused) => {
    if (!(refused instanceof BerthError) || response.headersSent) return;
    const needs = neededFor(refused);
    if (!needs) return;
    const error = ERRORS[refused.code];
    const parameters = [
      ...(error === undefined ? [] : [`error="${error}"`, `error_description="${quoted(refused.message)}"`]),
      ...whereToAsk(request, needs),
    ];
    response.setHeader("WWW-Authenticate", `Bearer ${parameters.join(", ") || 'realm="Berth"'}`);
  };

  function whereToAsk(request: IncomingMessage, needs: readonly Action[]): string[] {
    const tenant = servedTenant(request);
    const settings = tenant === undefined ? undefined : access.oauth(tenant);
    const asked = settings && resources.of(request);
    if (!settings || !asked) return [];
    const scopes = scopesFor(needs, asked.server, settings);
    return [
      `resource_metadata="${resources.metadataOf(asked.resources[0])}"`,
      ...(scopes.length > 0 ? [`scope="${scopes.join(" ")}"`] : []),
    ];
  }
}

/** Undefined for a tenant that there is not; what is told of it must be what is told of any other. */
function servedTenant(request: IncomingMessage): string | undefined {
  try {
    return tenantOf(request);
  } catch {
    return undefined;
  }
}

const ERRORS: Readonly<Record<string, string>> = { unauthorized: "invalid_token", forbidden: "insufficient_scope" };

/** With what a client gets on at all, or what the one thing needs that was refused. */
function neededFor({ code, data }: BerthError): readonly Action[] | undefined {
  if (code === "token_missing" || code === "unauthorized") return ["read", "call"];
  if (code !== "forbidden") return undefined;
  return [(data?.["needs"] as Action | undefined) ?? "call"];
}

/** What a quoted text of a header may have (RFC 6750, section 3). */
function quoted(text: string): string {
  return text.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "'");
}
