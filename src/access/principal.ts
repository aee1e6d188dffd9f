import { rawBlock } from "../lib/cid.ts";

/**
 * The author of a request and its permissions. This folder owns authorization: tokens, what they are valid for, and
 * tokens of authorization servers. It knows neither HTTP nor MCP: the request pipeline finds the principal of each
 * request, passes it on, and checks it. If the principal is undefined, no token is needed and everything is permitted.
 */
export interface Principal {
  /** The same for all requests of one token, or of one client of one person; suitable for limits, logs and audits. */
  readonly id: string;
  /** Its tenant; it permits nothing in any other. */
  readonly tenant: string;
  /** When it expires, in milliseconds since the epoch; undefined if never. */
  readonly until?: number;
  /**
   * The browser login that it came from, which may end before its token expires. Its cookie is sent to every port of
   * the host, so actions that need a typed token (rights.ts) are not permitted.
   */
  readonly signIn?: string;
  /**
   * Returns true if it permits this action: on one tool, on a server as such, or without a server on the tenant as a
   * whole. If only some tools of a server may be called, `call` is permitted for the server as such; without a server,
   * only a grant without servers and tools permits anything.
   */
  permits(action: Action, server?: string, tool?: string): boolean;
  /** Equal for principals with equal permissions, if their grants are written in the same way. */
  readonly rights: string;
  /** Plain JSON, from which `readPrincipal` recreates it in another process. */
  readonly written: WrittenPrincipal;
}

export interface WrittenPrincipal {
  readonly id: string;
  readonly tenant: string;
  readonly until?: number;
  readonly grants: readonly AccessGrant[];
  /** The login that it came from, if any. */
  readonly signIn?: { readonly id: string; readonly until: number };
}

/** Recreates a principal with the same permissions. */
export function readPrincipal({ signIn, grants, ...identity }: WrittenPrincipal): Principal {
  const principal = createPrincipal(identity, grants);
  return signIn ? bySignIn(principal, signIn) : principal;
}

export const ACTIONS = ["call", "read", "edit", "programs", "admin"] as const;

/**
 * `read`: lists, resources, prompts and pages. `edit`: the hosted servers. `programs`: which programs of this machine
 * are started. `admin`: tokens, tenants and approvals.
 */
export type Action = (typeof ACTIONS)[number];

/** The permissions of a token or a scope: actions on these servers, or on all if absent. */
export interface AccessGrant {
  readonly can: readonly Action[];
  readonly servers?: readonly string[];
  /** Only tools with these names can be called, on any permitted server. */
  readonly tools?: readonly string[];
}

/**
 * The actions that an action implies: an editor sees what it edits, and an administrator could create itself a token
 * for the rest.
 */
const IMPLIED: Readonly<Record<Action, readonly Action[]>> = {
  call: ["call"],
  read: ["read"],
  edit: ["edit", "read"],
  programs: ["programs"],
  admin: ACTIONS,
};

/** All actions that these imply. */
export function impliedBy(can: readonly Action[]): ReadonlySet<Action> {
  return new Set(can.flatMap((action) => IMPLIED[action]));
}

/** A principal that permits everything that any of the grants permits. */
export function createPrincipal(
  { id, tenant, until }: Pick<Principal, "id" | "tenant" | "until">,
  grants: readonly AccessGrant[],
): Principal {
  const rules = grants.map(({ can, servers, tools }) => ({
    can: impliedBy(can),
    servers: servers && new Set(servers),
    tools: tools && new Set(tools),
  }));
  let rights: string | undefined;
  return {
    id,
    tenant,
    ...(until !== undefined && { until }),
    written: { id, tenant, ...(until !== undefined && { until }), grants },
    get rights() {
      // No list and an empty list differ.
      return (rights ??= rawBlock(
        JSON.stringify(
          rules.map(({ can, servers, tools }) =>
            [can, servers, tools].map((names) => (names ? [...names].sort() : null)),
          ),
        ),
      ).cid);
    },
    permits(action, server, tool) {
      for (const { can, servers, tools } of rules) {
        if (!can.has(action)) continue;
        if (servers && (server === undefined || !servers.has(server))) continue;
        if (tools && action === "call" && (tool === undefined ? server === undefined : !tools.has(tool))) continue;
        return true;
      }
      return false;
    },
  };
}

/** The principal of a request that is authenticated only by a cookie. It can never start programs of the machine. */
export function bySignIn(principal: Principal, signIn: { readonly id: string; readonly until: number }): Principal {
  return {
    id: principal.id,
    tenant: principal.tenant,
    until: signIn.until,
    signIn: signIn.id,
    written: { ...principal.written, signIn },
    get rights() {
      return `${principal.rights} by sign-in`;
    },
    permits: (action, server, tool) => action !== "programs" && principal.permits(action, server, tool),
  };
}
