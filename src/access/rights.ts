import { BerthError } from "../lib/errors.ts";
import type { Action, Principal } from "./principal.ts";

/** The right that a power requires: an action, on one server or on the tenant as a whole. */
interface Right {
  readonly action: Action;
  readonly of: "server" | "tenant";
  /** For people, as the object of "may". */
  readonly what: string;
  /** The kinds of requests that use it; pages send the same requests. Commands and images are only the operator's. */
  readonly ways: readonly RequestKind[];
}

type RequestKind =
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

const ENTRY_CHANGES = ["entry", "mcps", "restore"] as const;

/**
 * Every power and the right that it requires, whichever way it is used: `docs/access.md` has the same table, and
 * `test/access/rights.test.ts` tries each way of using each power. New requests check a power here, and never an action
 * directly.
 */
export const RIGHTS = {
  source: { action: "edit", of: "server", what: "change a server's source", ways: ["definition", "restore", "recent"] },
  entry: { action: "edit", of: "tenant", what: "change what an entry says", ways: ENTRY_CHANGES },
  secrets: { action: "edit", of: "tenant", what: "change which secrets a server gets", ways: ENTRY_CHANGES },
  network: { action: "edit", of: "tenant", what: "change what a server may reach", ways: ENTRY_CHANGES },
  folders: { action: "edit", of: "tenant", what: "change which folders a server sees", ways: ENTRY_CHANGES },
  variables: { action: "edit", of: "tenant", what: "change which variables a server may read", ways: ENTRY_CHANGES },
  upstream: { action: "edit", of: "tenant", what: "change which remote server is hosted", ways: ENTRY_CHANGES },
  programs: {
    action: "programs",
    of: "server",
    what: "start programs on this machine, and use its environment",
    ways: [...ENTRY_CHANGES, "explore"],
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
    ways: ["approve", ...ENTRY_CHANGES],
  },
  tokens: { action: "admin", of: "tenant", what: "list, make and revoke tokens", ways: ["tokens"] },
  audit: { action: "admin", of: "tenant", what: "read the audit log and the metrics", ways: ["audit", "metrics"] },
} as const satisfies Record<string, Right>;

export type Power = keyof typeof RIGHTS;

/**
 * Powers that a browser's cookie alone does not grant: a program on another port of the host may have the cookie, too.
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

/** Throws `token_required` if only a cookie authenticates a use of a power that needs a typed token. */
export function checkTyped(principal: Principal | undefined, power: Power): void {
  if (isUntyped(principal, power)) throw tokenRequired(`to ${RIGHTS[power].what}`);
}

function isUntyped(principal: Principal | undefined, power: Power): boolean {
  return principal?.signIn !== undefined && TOKEN_TYPED.has(power);
}

function tokenRequired(doing: string, data?: Record<string, unknown>): BerthError {
  return new BerthError("token_required", `${doing}, type your token again`, { data: { ...data } });
}

/** The rights of the author of a request; created by the request pipeline and checked at each change. */
export interface Rights {
  has(power: Power, server: string | undefined): boolean;
  /** The error for an author who lacks the power; `doing` starts the sentence. */
  refusal(power: Power, server: string | undefined, doing: string, data?: Record<string, unknown>): BerthError;
}

export interface OpenAccess {
  /** True if callers that need no token may start programs. */
  readonly openPrograms: boolean;
}

/** Without a principal no token is needed, and the user of this machine may do everything except start programs. */
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
      if (isUntyped(principal, power)) return tokenRequired(`${doing} takes more than a sign-in`, data);
      const where = of === "tenant" || server === undefined ? "for the tenant as a whole" : `on the server "${server}"`;
      return new BerthError("forbidden", `${doing} needs "${action}" ${where}`, { data: { ...data, needs: action } });
    },
  };
}

const NO_PROGRAMS =
  'needs "programs", which being on this machine does not give: send a token that permits it ' +
  "(berth token create --can edit,programs), or start Berth with BERTH_UPSTREAM_PROGRAMS=on";
