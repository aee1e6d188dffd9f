import { BerthError } from "../errors.ts";
import type { Action, Principal } from "./principal.ts";

/** What a power takes: an action, on one server or on the tenant as a whole. */
interface Right {
  readonly action: Action;
  readonly of: "server" | "tenant";
  /** For people, as the object of "may". */
  readonly what: string;
}

/**
 * Every power and the right that it needs, by whatever way it is used (`docs/access.md` has the same table). Whoever
 * adds a way asks for the power here, and for no action of its own.
 */
export const RIGHTS = {
  source: { action: "edit", of: "server", what: "change the source of a server, or delete the server" },
  entry: { action: "edit", of: "tenant", what: "change what an entry says" },
  secrets: { action: "edit", of: "tenant", what: "change which secrets a server is given" },
  network: { action: "edit", of: "tenant", what: "change what a server may reach" },
  variables: { action: "edit", of: "tenant", what: "change which variables a server may read" },
  upstream: { action: "edit", of: "tenant", what: "change which remote server is hosted" },
  programs: { action: "programs", of: "server", what: "start a program of this machine, or read its environment" },
  values: { action: "edit", of: "tenant", what: "set variables" },
  secretValues: { action: "edit", of: "tenant", what: "set secrets" },
  withdrawal: { action: "edit", of: "tenant", what: "withdraw a release" },
  contents: { action: "read", of: "tenant", what: "read variables, and content by its CID" },
  approvals: { action: "admin", of: "server", what: "approve what an upstream offers" },
  tokens: { action: "admin", of: "tenant", what: "make and revoke tokens" },
  audit: { action: "admin", of: "tenant", what: "read the audit log and the metrics" },
} as const satisfies Record<string, Right>;

export type Power = keyof typeof RIGHTS;

/** What whoever acts may do. Made at the way in, and asked wherever something is changed. */
export interface Rights {
  has(power: Power, server: string | undefined): boolean;
  /** Why something is refused to who has not the power; `doing` begins the sentence. */
  refusal(power: Power, server: string | undefined, doing: string, data?: Record<string, unknown>): BerthError;
}

export interface OpenAccess {
  /** Whether who is asked for no token may start programs all the same. */
  readonly openPrograms: boolean;
}

/** Without a principal nobody is asked for a token, and whoever sits at this machine may do everything but one thing. */
export function rightsOf(principal: Principal | undefined, { openPrograms }: OpenAccess): Rights {
  return {
    has(power, server) {
      const { action, of } = RIGHTS[power];
      if (!principal) return power !== "programs" || openPrograms;
      return principal.permits(action, of === "server" ? server : undefined);
    },
    refusal(power, server, doing, data) {
      const { action, of } = RIGHTS[power];
      if (!principal) return new BerthError("programs_refused", `${doing} ${NO_PROGRAMS}`, { data: { ...data } });
      const where = of === "tenant" || server === undefined ? "for the tenant as a whole" : `on the server "${server}"`;
      return new BerthError("forbidden", `${doing} needs "${action}" ${where}`, { data: { ...data, needs: action } });
    },
  };
}

const NO_PROGRAMS =
  'needs "programs", which nobody has by being on this machine: send a token that permits it ' +
  "(berth token create --can edit,programs), or start Berth with BERTH_UPSTREAM_PROGRAMS=on";
