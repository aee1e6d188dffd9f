import { rawBlock } from "../lib/cid.ts";

/**
 * Who makes a request, and what that permits. This folder owns who may do what: tokens, what they are good for, and
 * what an authorization server says. It knows no HTTP and no MCP: whoever takes requests finds the principal of each,
 * hands it on, and asks it. An undefined principal means that nobody is asked for a token here, and may do everything.
 */
export interface Principal {
  /** The same for all requests of one token, or of one client of one person; good for limits, logs and audits. */
  readonly id: string;
  /** The tenant whose it is; it permits nothing of any other. */
  readonly tenant: string;
  /** When it ends, in milliseconds since the epoch; undefined for one that ends when somebody ends it. */
  readonly until?: number;
  /**
   * The browser's sign-in that it came by, which may end before its token does. Its cookie goes to every port of the host:
   * what takes a token that was typed for it (rights.ts) is not permitted.
   */
  readonly signIn?: string;
  /**
   * Whether it may do this: to one tool, to a server as such, or without a server to the tenant as a whole. A server
   * of which only some tools may be called permits `call` as such; without a server only what is limited to no server
   * and no tool permits anything.
   */
  permits(action: Action, server?: string, tool?: string): boolean;
  /** The same for all that permit the same, as far as their grants say it in the same way. */
  readonly rights: string;
}

export const ACTIONS = ["call", "read", "edit", "programs", "admin"] as const;

/**
 * `read`: lists, resources, prompts and pages. `edit`: what is hosted. `programs`: which programs of this machine are
 * started. `admin`: tokens, tenants and approvals.
 */
export type Action = (typeof ACTIONS)[number];

/** What a token or a scope permits: what it can, on these servers alone or on all of them. */
export interface Grant {
  readonly can: readonly Action[];
  readonly servers?: readonly string[];
  /** Only tools of these names can be called, whatever server has them. */
  readonly tools?: readonly string[];
}

/** What comes with what: an editor sees what it edits, and an administrator can make itself a token for the rest. */
const IMPLIED: Readonly<Record<Action, readonly Action[]>> = {
  call: ["call"],
  read: ["read"],
  edit: ["edit", "read"],
  programs: ["programs"],
  admin: ACTIONS,
};

/** All that whoever can do these things can do. */
export function impliedBy(can: readonly Action[]): ReadonlySet<Action> {
  return new Set(can.flatMap((action) => IMPLIED[action]));
}

/** Whose requests permit what any of the grants does. */
export function createPrincipal(
  { id, tenant, until }: Pick<Principal, "id" | "tenant" | "until">,
  grants: readonly Grant[],
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
    get rights() {
      return (rights ??= rawBlock(
        JSON.stringify(rules.map(({ can, servers, tools }) => [can, servers, tools].map(sorted))),
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

/** Whose request it is where a cookie alone says so. No program of the machine is started for it, by whatever way. */
export function bySignIn(principal: Principal, signIn: { readonly id: string; readonly until: number }): Principal {
  return {
    id: principal.id,
    tenant: principal.tenant,
    until: signIn.until,
    signIn: signIn.id,
    get rights() {
      return `${principal.rights} by sign-in`;
    },
    permits: (action, server, tool) => action !== "programs" && principal.permits(action, server, tool),
  };
}

/** Of no list is something else than of an empty one. */
function sorted(names: ReadonlySet<string> | undefined): readonly string[] | null {
  return names ? [...names].sort() : null;
}
