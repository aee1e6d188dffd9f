import type { Principal } from "../access/principal.ts";
import { clock } from "../lib/clock.ts";
import { isSameJson } from "../lib/json.ts";
import { shareLimit, type SharedLimits } from "../lib/shared-limits.ts";
import { tenantSetting, type TenantLimits } from "../limits/limits.ts";
import { Gate, type GateLimits, type GateSettings } from "./gate.ts";

/**
 * Limits the concurrent requests and the request rate of each tenant and each of its principals. It owns the gates and
 * knows no HTTP: the request pipeline calls it when a request enters and when it is over.
 */
export class Admission {
  readonly #limitsFor: (tenant: string) => TenantLimits;
  readonly #sharedLimits: SharedLimits | undefined;
  readonly #gates = new Map<string, TenantGates>();

  /** Without `sharedLimits`, each process enforces the limits by itself. */
  constructor(limitsFor: (tenant: string) => TenantLimits, sharedLimits?: SharedLimits) {
    this.#limitsFor = limitsFor;
    this.#sharedLimits = sharedLimits;
  }

  /** Admits one request of the tenant. Returns the gate to call `leave` on. Throws `too_many_requests`. */
  enter(tenant: string): Gate {
    const { gate } = this.#gatesFor(tenant);
    gate.enter(clock.now());
    return gate;
  }

  enterAs(principal: Principal): Gate {
    const { limits, principals } = this.#gatesFor(principal.tenant);
    const gate =
      principals.get(principal.id) ??
      this.#principalGate(principals, principal, {
        requests: limits.principalRequests,
        requestsPerSecond: limits.principalRequestsPerSecond,
        requestBurst: limits.principalRequestBurst,
      });
    gate.enter(clock.now());
    return gate;
  }

  /**
   * Admits one stream, which stays open until its client leaves, for the tenant and the principal. Returns a function
   * to call at its end. Throws `too_many_requests`.
   */
  enterStream(tenant: string, principal: Principal | undefined): () => void {
    const { limits, streams, streamers } = this.#gatesFor(tenant);
    const now = clock.now();
    streams.enter(now);
    if (!principal) return () => streams.leave();
    try {
      const ownGate = this.#principalGate(
        streamers,
        principal,
        { ...NO_RATE, requests: limits.principalStreams },
        "streams",
      );
      ownGate.enter(now);
      return () => {
        ownGate.leave();
        streams.leave();
      };
    } catch (error) {
      streams.leave();
      throw error;
    }
  }

  /** Called when the settings of the tenant changed. Its counters are reset only if its limits changed. */
  follow(tenant: string): void {
    const cached = this.#gates.get(tenant);
    if (cached && !isSameJson(cached.limits, this.#limitsFor(tenant))) this.forget(tenant);
  }

  /** Drops the counters of a tenant, for example when it was deleted. Requests in progress leave the old gates. */
  forget(tenant: string): void {
    this.#gates.delete(tenant);
  }

  #gatesFor(tenant: string): TenantGates {
    const cached = this.#gates.get(tenant);
    if (cached) return cached;
    const limits = this.#limitsFor(tenant);
    const label = `the tenant "${tenant}"`;
    const gates: TenantGates = {
      limits,
      gate: new Gate(label, limits, SETTINGS.requests, "requests", shareLimit(this.#sharedLimits, tenant, "requests")),
      principals: new Map(),
      streams: new Gate(
        label,
        { ...NO_RATE, requests: limits.streams },
        SETTINGS.streams,
        "streams",
        shareLimit(this.#sharedLimits, tenant, "streams"),
      ),
      streamers: new Map(),
    };
    this.#gates.set(tenant, gates);
    return gates;
  }

  #principalGate(gates: Map<string, Gate>, { id, tenant }: Principal, limits: GateLimits, counted = "requests"): Gate {
    const cached = gates.get(id);
    if (cached) return cached;
    if (gates.size >= PRINCIPALS_MAX) removeIdle(gates, clock.now());
    const shared = shareLimit(this.#sharedLimits, tenant, `${counted} of a principal`, id);
    const settings = counted === "streams" ? SETTINGS.principalStreams : SETTINGS.principalRequests;
    const gate = new Gate(`this token of the tenant "${tenant}"`, limits, settings, counted, shared);
    gates.set(id, gate);
    return gate;
  }
}

interface TenantGates {
  readonly limits: TenantLimits;
  readonly gate: Gate;
  readonly principals: Map<string, Gate>;
  readonly streams: Gate;
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

/** Per tenant. Above this number, idle gates are removed. */
const PRINCIPALS_MAX = 1_000;

function removeIdle(principals: Map<string, Gate>, now: number): void {
  for (const [id, gate] of principals) if (gate.isIdle(now)) principals.delete(id);
}
