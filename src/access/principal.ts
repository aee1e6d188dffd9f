import { rawBlock } from "../lib/cid.ts";

/**
 * The author of a request and its permissions. This folder owns who may do what: tokens, what they are valid for, and
 * the statements of an authorization server. It knows no HTTP and no MCP: the way in finds the principal of each
 * request, hands it on, and asks it. An undefined principal means that no token is needed here, and everything is
 * permitted.
 */
export interface Principal {
  /** The same for all requests of one token, or of one client of one person; suitable for limits, logs and audits. */
  readonly id: string;
  /** Its tenant; it permits nothing of any other. */
  readonly tenant: string;
  /** When it expires, in milliseconds since the epoch; undefined if it never expires by itself. */
  readonly until?: number;
  /**
   * The browser sign-in that it came from, which may end before its token does. Its cookie goes to every port of the
   * host: actions that need a typed token (rights.ts) are not permitted.
   */
  readonly signIn?: string;
  /**
   * True when it may do this: to one tool, to a server as such, or without a server to the tenant as a whole. If only
   * some tools of a server may be called, `call` is permitted for the server as such; without a server, only a grant
   * that is limited to no server and no tool permits anything.
   */
  permits(action: Action, server?: string, tool?: string): boolean;
  /** Equal for principals with equal permissions, as far as their grants are worded alike. */
  readonly rights: string;
  /** Plain JSON, from which `readPrincipal` makes it anew in another process. */
  readonly written: WrittenPrincipal;
}

export interface WrittenPrincipal {
  readonly id: string;
  readonly tenant: string;
  readonly until?: number;
  readonly grants: readonly AccessGrant[];
  /** The sign-in that it came from, if any. */
  readonly signIn?: { readonly id: string; readonly until: number };
}

/** Permits what the principal did that was written. */
export function readPrincipal({ signIn, grants, ...whose }: WrittenPrincipal): Principal {
  const principal = createPrincipal(whose, grants);
  return signIn ? bySignIn(principal, signIn) : principal;
}

export const ACTIONS = ["call", "read", "edit", "programs", "admin"] as const;

/**
 * `read`: lists, resources, prompts and pages. `edit`: the hosted servers. `programs`: which programs of this machine
 * are started. `admin`: tokens, tenants and approvals.
 */
export type Action = (typeof ACTIONS)[number];

/** The permissions of a token or a scope: actions, on these servers alone or on all of them. */
export interface AccessGrant {
  readonly can: readonly Action[];
  readonly servers?: readonly string[];
  /** Only tools of these names can be called, on whatever server. */
  readonly tools?: readonly string[];
}

/**
 * The actions that an action implies: an editor sees what it edits, and an administrator could make itself a token for
 * the rest.
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

/** A principal that permits whatever any of the grants does. */
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
      // No list and an empty list mean different things.
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

/** The principal of a request that only a cookie authenticates. It can start no program of the machine in any way. */
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
