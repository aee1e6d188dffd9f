import { impliedBy, type Action, type AccessGrant } from "../principal.ts";
import type { OauthSettings } from "./settings.ts";

/** Berth's own scopes: `mcp:call`, and `mcp:call:<server>` for one server alone. */
const OWN = /^mcp:(call|read|edit|programs|admin)(?::(.+))?$/;

/** The combined permissions of scopes; unknown scopes permit nothing. */
export function grantsOf(scopes: readonly string[], { scopes: mapped }: OauthSettings): AccessGrant[] {
  return scopes.flatMap((scope) => {
    if (mapped) return Object.hasOwn(mapped, scope) ? [mapped[scope]!] : [];
    const [, action, server] = OWN.exec(scope) ?? [];
    if (action === undefined) return [];
    return [{ can: [action as Action], ...(server !== undefined && { servers: [server] }) }];
  });
}

/**
 * The scopes that a client must ask for, all of them, to do these things to a server: as narrow as the tenant's scopes
 * allow, and none that another of them makes needless.
 */
export function scopesFor(actions: readonly Action[], server: string | undefined, settings: OauthSettings): string[] {
  const { scopes: mapped } = settings;
  if (!mapped) return actions.map((action) => `mcp:${action}`);
  const here = Object.entries(mapped)
    .filter(([, { servers }]) => !servers || (server !== undefined && servers.includes(server)))
    .map(([scope, grant]) => ({ scope, permitted: impliedBy(grant.can), breadth: breadthOf(grant) }))
    .sort((one, other) => one.breadth - other.breadth);
  const picked = new Set(actions.flatMap((action) => here.find(({ permitted }) => permitted.has(action)) ?? []));
  for (const each of picked) {
    const others = [...picked].filter((other) => other !== each);
    const isNeedless = actions.every(
      (action) => !each.permitted.has(action) || others.some(({ permitted }) => permitted.has(action)),
    );
    if (isNeedless) picked.delete(each);
  }
  return Array.from(picked, ({ scope }) => scope);
}

/** A scope for all servers is broader; one for some tools alone may not be enough, and comes last. */
function breadthOf({ can, servers, tools }: AccessGrant): number {
  return impliedBy(can).size * 2 + (servers ? 0 : 1) + (tools ? 100 : 0);
}
