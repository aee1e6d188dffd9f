import type { Principal } from "../access/principal.ts";
import { clock } from "../lib/clock.ts";
import { isSameJson } from "../lib/json.ts";
import { sharing, type SharedLimits } from "../lib/shared-limits.ts";
import { tenantSetting, type TenantLimits } from "../limits/limits.ts";
import { Gate, type GateLimits, type GateSettings } from "./gate.ts";

/**
 * Limits how many requests each tenant, and each token or person of it, may have under way and may begin. It owns the
 * gates and knows no HTTP: the way in lets requests enter, and tells when they are over.
 */
export class Admission {
  readonly #limitsOf: (tenant: string) => TenantLimits;
  readonly #by: SharedLimits | undefined;
  readonly #gates = new Map<string, TenantGates>();

  /** Each process has its own limits unless they are shared `by` some means. */
  constructor(limitsOf: (tenant: string) => TenantLimits, by?: SharedLimits) {
    this.#limitsOf = limitsOf;
    this.#by = by;
  }

  /** Admits one request of the tenant; returns the gate by which it must leave. Throws `too_many_requests`. */
  enter(tenant: string): Gate {
    const { gate } = this.#gatesOf(tenant);
    gate.enter(clock.now());
    return gate;
  }

  /** The same for the request's principal. */
  enterAs(principal: Principal): Gate {
    const { limits, principals } = this.#gatesOf(principal.tenant);
    const gate =
      principals.get(principal.id) ??
      this.#gateIn(principals, principal, {
        requests: limits.principalRequests,
        requestsPerSecond: limits.principalRequestsPerSecond,
        requestBurst: limits.principalRequestBurst,
      });
    gate.enter(clock.now());
    return gate;
  }

  /**
   * Counts one stream that stays open until its client leaves, for the tenant and for the principal; returns a function
   * to call at its end. Throws `too_many_requests`.
   */
  enterStream(tenant: string, principal: Principal | undefined): () => void {
    const { limits, streams, streamers } = this.#gatesOf(tenant);
    const now = clock.now();
    streams.enter(now);
    if (!principal) return () => streams.leave();
    try {
      const own = this.#gateIn(streamers, principal, { ...NO_RATE, requests: limits.principalStreams }, "streams");
      own.enter(now);
      return () => {
        own.leave();
        streams.leave();
      };
    } catch (error) {
      streams.leave();
      throw error;
    }
  }

  /** The tenant's settings changed. If its limits are the same, its earlier use still counts. */
  follow(tenant: string): void {
    const known = this.#gates.get(tenant);
    if (known && !isSameJson(known.limits, this.#limitsOf(tenant))) this.forget(tenant);
  }

  /** The tenant is gone. Requests under way end as they began. */
  forget(tenant: string): void {
    this.#gates.delete(tenant);
  }

  #gatesOf(tenant: string): TenantGates {
    const known = this.#gates.get(tenant);
    if (known) return known;
    const limits = this.#limitsOf(tenant);
    const who = `the tenant "${tenant}"`;
    const gates: TenantGates = {
      limits,
      gate: new Gate(who, limits, SETTINGS.requests, "requests", sharing(this.#by, tenant, "requests")),
      principals: new Map(),
      streams: new Gate(
        who,
        { ...NO_RATE, requests: limits.streams },
        SETTINGS.streams,
        "streams",
        sharing(this.#by, tenant, "streams"),
      ),
      streamers: new Map(),
    };
    this.#gates.set(tenant, gates);
    return gates;
  }

  #gateIn(gates: Map<string, Gate>, { id, tenant }: Principal, limits: GateLimits, what = "requests"): Gate {
    const known = gates.get(id);
    if (known) return known;
    if (gates.size >= PRINCIPALS_MAX) forgetResting(gates, clock.now());
    const shared = sharing(this.#by, tenant, `${what} of a principal`, id);
    const settings = what === "streams" ? SETTINGS.principalStreams : SETTINGS.principalRequests;
    const gate = new Gate(`this token of the tenant "${tenant}"`, limits, settings, what, shared);
    gates.set(id, gate);
    return gate;
  }
}

interface TenantGates {
  readonly limits: TenantLimits;
  readonly gate: Gate;
  readonly principals: Map<string, Gate>;
  readonly streams: Gate;
  /** The same for each principal. */
  readonly streamers: Map<string, Gate>;
}

const SETTINGS = {
  requests: { requests: tenantSetting("requests"), requestsPerSecond: tenantSetting("requestsPerSecond") },
  principalRequests: {
    requests: tenantSetting("principalRequests"),
    requestsPerSecond: tenantSetting("principalRequestsPerSecond"),
  },
  streams: { requests: tenantSetting("streams"), requestsPerSecond: "" },
  principalStreams: { requests: tenantSetting("principalStreams"), requestsPerSecond: "" },
} as const satisfies Record<string, GateSettings>;

const NO_RATE = { requestsPerSecond: 0, requestBurst: 0 };

/** For one tenant; above this, gates at rest are forgotten. */
const PRINCIPALS_MAX = 1_000;

function forgetResting(principals: Map<string, Gate>, now: number): void {
  for (const [id, gate] of principals) if (gate.isAtRest(now)) principals.delete(id);
}
