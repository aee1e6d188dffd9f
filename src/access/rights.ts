import { BerthError } from "../lib/errors.ts";
import type { Action, Principal } from "./principal.ts";

/** The right that a power needs: an action, on one server or on the tenant as a whole. */
interface Right {
  readonly action: Action;
  readonly of: "server" | "tenant";
  /** For people, as the object of "may". */
  readonly what: string;
  /** The kinds of request that use it; a page sends the same requests. Commands and images are the operator's alone. */
  readonly ways: readonly Way[];
}

type Way =
  | "definition"
  | "entry"
  | "mcps"
  | "restore"
  | "recent"
  | "explore"
  | "variable"
  | "secret"
  | "state"
  | "kept"
  | "withdrawal"
  | "cid"
  | "resource"
  | "approve"
  | "tokens"
  | "audit"
  | "metrics";

const GIVEN = ["entry", "mcps", "restore"] as const;

/**
 * Every power and the right that it needs, in whatever way it is used: `docs/access.md` has the same table, and
 * `test/access/rights.test.ts` tries each way of each power. A new way asks for the power here, and for no action of its own.
 */
export const RIGHTS = {
  source: { action: "edit", of: "server", what: "change a server's source", ways: ["definition", "restore", "recent"] },
  entry: { action: "edit", of: "tenant", what: "change what an entry says", ways: GIVEN },
  secrets: { action: "edit", of: "tenant", what: "change which secrets a server gets", ways: GIVEN },
  network: { action: "edit", of: "tenant", what: "change what a server may reach", ways: GIVEN },
  folders: { action: "edit", of: "tenant", what: "change which folders a server sees", ways: GIVEN },
  variables: { action: "edit", of: "tenant", what: "change which variables a server may read", ways: GIVEN },
  upstream: { action: "edit", of: "tenant", what: "change which remote server is hosted", ways: GIVEN },
  programs: {
    action: "programs",
    of: "server",
    what: "start programs on this machine, and use its environment",
    ways: [...GIVEN, "explore"],
  },
  values: { action: "edit", of: "tenant", what: "set and delete variables", ways: ["variable"] },
  secretValues: { action: "edit", of: "tenant", what: "set and delete secrets", ways: ["secret"] },
  state: { action: "edit", of: "server", what: "read and change a server's state", ways: ["state"] },
  calls: { action: "edit", of: "server", what: "read the calls that a server keeps", ways: ["kept"] },
  withdrawal: { action: "edit", of: "tenant", what: "withdraw and reinstate releases", ways: ["withdrawal"] },
  contents: {
    action: "read",
    of: "tenant",
    what: "read variables, and content by its CID",
    ways: ["variable", "cid", "resource"],
  },
  approvals: {
    action: "admin",
    of: "server",
    what: "approve what an upstream offers",
    ways: ["approve", ...GIVEN],
  },
  tokens: { action: "admin", of: "tenant", what: "list, make and revoke tokens", ways: ["tokens"] },
  audit: { action: "admin", of: "tenant", what: "read the audit log and the metrics", ways: ["audit", "metrics"] },
} as const satisfies Record<string, Right>;

export type Power = keyof typeof RIGHTS;

/**
 * Powers that a browser's cookie alone does not give: a program at another port of the host may have the cookie, too.
 * The page sends the token as a header, once the person has typed it there.
 */
const TOKEN_TYPED: ReadonlySet<Power> = new Set([
  "secrets",
  "network",
  "folders",
  "upstream",
  "programs",
  "secretValues",
  "approvals",
  "tokens",
]);

/** Throws `token_required` if a cookie alone asks for a power that needs a typed token. */
export function checkTyped(principal: Principal | undefined, power: Power): void {
  if (isUntyped(principal, power)) throw tokenAgain(`to ${RIGHTS[power].what}`);
}

function isUntyped(principal: Principal | undefined, power: Power): boolean {
  return principal?.signIn !== undefined && TOKEN_TYPED.has(power);
}

function tokenAgain(doing: string, data?: Record<string, unknown>): BerthError {
  return new BerthError("token_required", `${doing}, type your token again`, { data: { ...data } });
}

/** The rights of the author of a request. Made at the way in, and checked at each change. */
export interface Rights {
  has(power: Power, server: string | undefined): boolean;
  /** The error for an author who lacks the power; `doing` begins the sentence. */
  refusal(power: Power, server: string | undefined, doing: string, data?: Record<string, unknown>): BerthError;
}

export interface OpenAccess {
  /** True when callers that need no token may start programs all the same. */
  readonly openPrograms: boolean;
}

/** Without a principal no token is needed, and the user of this machine may do everything but one thing. */
export function rightsOf(principal: Principal | undefined, { openPrograms }: OpenAccess): Rights {
  return {
    has(power, server) {
      const { action, of } = RIGHTS[power];
      if (!principal) return power !== "programs" || openPrograms;
      if (isUntyped(principal, power)) return false;
      return principal.permits(action, of === "server" ? server : undefined);
    },
    refusal(power, server, doing, data) {
      const { action, of } = RIGHTS[power];
      if (!principal) return new BerthError("programs_refused", `${doing} ${NO_PROGRAMS}`, { data: { ...data } });
      if (isUntyped(principal, power)) return tokenAgain(`${doing} takes more than a sign-in`, data);
      const where = of === "tenant" || server === undefined ? "for the tenant as a whole" : `on the server "${server}"`;
      return new BerthError("forbidden", `${doing} needs "${action}" ${where}`, { data: { ...data, needs: action } });
    },
  };
}

const NO_PROGRAMS =
  'needs "programs", which being on this machine does not give: send a token that permits it ' +
  "(berth token create --can edit,programs), or start Berth with BERTH_UPSTREAM_PROGRAMS=on";
