import type { Action, Grant } from "../principal.ts";
import type { OauthSettings } from "./settings.ts";

/** What Berth's own scopes are called: `mcp:call`, and `mcp:call:<server>` for one server alone. */
const OWN = /^mcp:(call|read|edit|admin)(?::(.+))?$/;

/** What scopes permit together; those that nobody knows permit nothing. */
export function grantsOf(scopes: readonly string[], { scopes: mapped }: OauthSettings): Grant[] {
  return scopes.flatMap((scope) => {
    if (mapped) return Object.hasOwn(mapped, scope) ? [mapped[scope]!] : [];
    const [, action, server] = OWN.exec(scope) ?? [];
    if (action === undefined) return [];
    return [{ can: [action as Action], ...(server !== undefined && { servers: [server] }) }];
  });
}

/** The scopes that a client has to ask for, all of them, to do these things to a server. */
export function scopesFor(actions: readonly Action[], server: string | undefined, settings: OauthSettings): string[] {
  const { scopes: mapped } = settings;
  if (!mapped) return actions.map((action) => `mcp:${action}`);
  const permitting = (action: Action): string | undefined =>
    Object.entries(mapped).find(
      ([, { can, servers }]) =>
        can.includes(action) && (!servers || (server !== undefined && servers.includes(server))),
    )?.[0];
  return [...new Set(actions.flatMap((action) => permitting(action) ?? []))];
}
