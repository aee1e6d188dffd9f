import { impliedBy, type Action, type AccessGrant } from "../principal.ts";
import type { OauthSettings } from "./settings.ts";

/** Berth's own scopes: `mcp:call`, or `mcp:call:<server>` for a single server. */
const OWN_SCOPE = /^mcp:(call|read|edit|programs|admin)(?::(.+))?$/;

/** The combined permissions of scopes; unknown scopes permit nothing. */
export function grantsOf(scopes: readonly string[], { scopes: mapped }: OauthSettings): AccessGrant[] {
  return scopes.flatMap((scope) => {
    if (mapped) return Object.hasOwn(mapped, scope) ? [mapped[scope]!] : [];
    const [, action, server] = OWN_SCOPE.exec(scope) ?? [];
    if (action === undefined) return [];
    return [{ can: [action as Action], ...(server !== undefined && { servers: [server] }) }];
  });
}

/**
 * The scopes that a client must request, all of them, to perform these actions on a server: as narrow as the tenant's
 * scopes allow, and without redundant ones.
 */
export function scopesFor(actions: readonly Action[], server: string | undefined, settings: OauthSettings): string[] {
  const { scopes: mapped } = settings;
  if (!mapped) return actions.map((action) => `mcp:${action}`);
  const applicable = Object.entries(mapped)
    .filter(([, { servers }]) => !servers || (server !== undefined && servers.includes(server)))
    .map(([scope, grant]) => ({ scope, permitted: impliedBy(grant.can), breadth: breadth(grant) }))
    .sort((one, other) => one.breadth - other.breadth);
  const picked = new Set(actions.flatMap((action) => applicable.find(({ permitted }) => permitted.has(action)) ?? []));
  for (const each of picked) {
    const others = [...picked].filter((other) => other !== each);
    const isRedundant = actions.every(
      (action) => !each.permitted.has(action) || others.some(({ permitted }) => permitted.has(action)),
    );
    if (isRedundant) picked.delete(each);
  }
  return Array.from(picked, ({ scope }) => scope);
}

/** A scope for all servers is broader; one for only some tools may not suffice, and comes last. */
function breadth({ can, servers, tools }: AccessGrant): number {
  return impliedBy(can).size * 2 + (servers ? 0 : 1) + (tools ? 100 : 0);
}
