import type { Principal } from "../access/principal.ts";
import { Gate } from "./gate.ts";
import type { TenantLimits } from "./tenant-limits.ts";

/**
 * Who may have how many requests under way, and begin how many: each tenant, and each token or person of it. It owns
 * the gates and knows no HTTP: whoever takes requests lets them enter, and tells when they are over.
 */
export class Admission {
  readonly #limitsOf: (tenant: string) => TenantLimits;
  readonly #gates = new Map<string, TenantGates>();

  constructor(limitsOf: (tenant: string) => TenantLimits) {
    this.#limitsOf = limitsOf;
  }

  /** Lets one request of the tenant in; gives what its end has to call. Throws `too_many_requests`. */
  enter(tenant: string): () => void {
    const { gate } = this.#gatesOf(tenant);
    gate.enter(performance.now());
    return gate.leave;
  }

  /** The same for the one whose request it is. */
  enterAs(principal: Principal): () => void {
    const { limits, principals } = this.#gatesOf(principal.tenant);
    const now = performance.now();
    let gate = principals.get(principal.id);
    if (!gate) {
      if (principals.size >= PRINCIPALS_MAX) forgetResting(principals, now);
      gate = new Gate(`this token of the tenant "${principal.tenant}"`, {
        requests: limits.principalRequests,
        requestsPerSecond: limits.principalRequestsPerSecond,
        requestBurst: limits.principalRequestBurst,
      });
      principals.set(principal.id, gate);
    }
    gate.enter(now);
    return gate.leave;
  }

  /** The tenant's limits are other ones now, or the tenant is gone. What is under way ends as it began. */
  forget(tenant: string): void {
    this.#gates.delete(tenant);
  }

  #gatesOf(tenant: string): TenantGates {
    const known = this.#gates.get(tenant);
    if (known) return known;
    const limits = this.#limitsOf(tenant);
    const gates = { limits, gate: new Gate(`the tenant "${tenant}"`, limits), principals: new Map<string, Gate>() };
    this.#gates.set(tenant, gates);
    return gates;
  }
}

interface TenantGates {
  readonly limits: TenantLimits;
  readonly gate: Gate;
  readonly principals: Map<string, Gate>;
}

/** Of one tenant, beyond which those at rest are forgotten. */
const PRINCIPALS_MAX = 1_000;

function forgetResting(principals: Map<string, Gate>, now: number): void {
  for (const [id, gate] of principals) if (gate.isAtRest(now)) principals.delete(id);
}
