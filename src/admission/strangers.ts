import type { Limits } from "../limits/limits.ts";
import { Gate } from "./gate.ts";

export type StrangerLimits = Pick<
  Limits,
  "strangerRequests" | "strangerRequestsPerSecond" | "strangerRequestBurst" | "strangerAddresses"
>;

/**
 * Requests of those who have not shown who they are, where that is asked: each address has a gate of its own, so that
 * they use up nothing of any tenant's. It remembers so many addresses and no more; those that find no room share a gate.
 */
export class Strangers {
  readonly #limits: StrangerLimits;
  readonly #gates = new Map<string, Gate>();
  readonly #others: Gate;
  #sweptAt = Number.NEGATIVE_INFINITY;

  constructor(limits: StrangerLimits) {
    this.#limits = limits;
    this.#others = this.#newGate();
  }

  /** Lets one request from an address in; gives the gate by which it has to leave. Throws `too_many_requests`. */
  enter(address: string, now = performance.now()): Gate {
    const gate = this.#gates.get(address) ?? this.#gateFor(address, now);
    gate.enter(now);
    return gate;
  }

  #gateFor(address: string, now: number): Gate {
    const { strangerAddresses } = this.#limits;
    // Whoever has many addresses must not have all of them looked through for each.
    if (this.#gates.size >= strangerAddresses && now - this.#sweptAt >= SWEEP_MS) {
      this.#sweptAt = now;
      for (const [known, gate] of this.#gates) if (gate.isAtRest(now)) this.#gates.delete(known);
    }
    if (this.#gates.size >= strangerAddresses) return this.#others;
    const gate = this.#newGate();
    this.#gates.set(address, gate);
    return gate;
  }

  #newGate(): Gate {
    const { strangerRequests, strangerRequestsPerSecond, strangerRequestBurst } = this.#limits;
    return new Gate(
      "your address",
      {
        requests: strangerRequests,
        requestsPerSecond: strangerRequestsPerSecond,
        requestBurst: strangerRequestBurst,
      },
      "requests without a valid token",
    );
  }
}

const SWEEP_MS = 1_000;
