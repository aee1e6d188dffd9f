import type { Access } from "../../access/access.ts";
import { scopesFor } from "../../access/oauth/scopes.ts";
import type { Action } from "../../access/principal.ts";
import { BerthError } from "../../lib/errors.ts";
import type { RequestContext } from "../request-context.ts";
import type { Resources } from "./resources.ts";

/**
 * When a client is refused for want of a token, tells it by `WWW-Authenticate` which one it needs and where to get it.
 * Does nothing for other errors.
 */
export type Challenge = (context: RequestContext, refused: unknown) => void;

/** RFC 6750, section 3, with the parameters of RFC 9728 and of MCP (2026-07-28 `basic/authorization`). */
export function createChallenge(access: Access, resources: Resources): Challenge {
  return (context, refused) => {
    const { response } = context;
    if (!(refused instanceof BerthError) || response.headersSent) return;
    const needs = neededFor(refused);
    if (!needs) return;
    const error = ERRORS[refused.code];
    const parameters = [
      ...(error === undefined ? [] : [`error="${error}"`, `error_description="${quoted(refused.message)}"`]),
      ...whereToAsk(context, needs),
    ];
    response.setHeader("WWW-Authenticate", `Bearer ${parameters.join(", ") || 'realm="Berth"'}`);
  };

  function whereToAsk(context: RequestContext, needs: readonly Action[]): string[] {
    // The answer for a tenant that does not exist must not differ from that for any other.
    const tenant = context.servedTenant;
    const settings = tenant === undefined ? undefined : access.oauth(tenant);
    const asked = settings && resources.of(context);
    if (!settings || !asked) return [];
    const scopes = scopesFor(needs, asked.server, settings);
    return [
      `resource_metadata="${resources.metadataOf(asked.resources[0])}"`,
      ...(scopes.length > 0 ? [`scope="${scopes.join(" ")}"`] : []),
    ];
  }
}

const ERRORS: Readonly<Record<string, string>> = { unauthorized: "invalid_token", forbidden: "insufficient_scope" };

/** The actions that a client needs to do anything at all, or that the refused request needs. */
function neededFor({ code, data }: BerthError): readonly Action[] | undefined {
  if (code === "token_missing" || code === "unauthorized") return ["read", "call"];
  if (code !== "forbidden") return undefined;
  return [(data?.["needs"] as Action | undefined) ?? "call"];
}

/** Replaces characters that a quoted string of a header may not contain (RFC 6750, section 3). */
function quoted(text: string): string {
  return text.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "'");
}
