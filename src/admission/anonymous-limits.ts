import { clock } from "../lib/clock.ts";
import { sharing, type SharedLimits } from "../lib/shared-limits.ts";
import { fixed } from "../limits/fixed.ts";
import { type Limits, limitVariable } from "../limits/limits.ts";
import { Gate } from "./gate.ts";

type AnonymousLimitNumbers = Pick<Limits, "anonymousRequests" | "anonymousRequestsPerSecond" | "anonymousRequestBurst">;

const bounds = fixed({
  /** Addresses whose anonymous requests are counted separately; all others count together. */
  anonymousAddresses: 10_000,
});

/**
 * Limits requests from callers that have not authenticated where they must: each address has a gate of its own, so that
 * they use up nothing of any tenant's. The number of addresses is bounded; those that find no room share a gate.
 */
export class AnonymousLimits {
  readonly #limits: AnonymousLimitNumbers;
  readonly #gates = new Map<string, Gate>();
  readonly #others: Gate;
  readonly #by: SharedLimits | undefined;
  #sweptAt = Number.NEGATIVE_INFINITY;

  /** Each process has its own limits unless they are shared `by` some means. */
  constructor(limits: AnonymousLimitNumbers, by?: SharedLimits) {
    this.#limits = limits;
    this.#by = by;
    this.#others = this.#newGate("others");
  }

  /** Admits one request from an address; returns the gate by which it must leave. Throws `too_many_requests`. */
  enter(address: string, now = clock.now()): Gate {
    const gate = this.#gates.get(address) ?? this.#gateFor(address, now);
    gate.enter(now);
    return gate;
  }

  #gateFor(address: string, now: number): Gate {
    const { anonymousAddresses } = bounds;
    // A client with many addresses must not cause a sweep of them all for each one.
    if (this.#gates.size >= anonymousAddresses && now - this.#sweptAt >= SWEEP_MS) {
      this.#sweptAt = now;
      for (const [known, gate] of this.#gates) if (gate.isAtRest(now)) this.#gates.delete(known);
    }
    if (this.#gates.size >= anonymousAddresses) return this.#others;
    const gate = this.#newGate(address);
    this.#gates.set(address, gate);
    return gate;
  }

  #newGate(address: string): Gate {
    const { anonymousRequests, anonymousRequestsPerSecond, anonymousRequestBurst } = this.#limits;
    return new Gate(
      "your address",
      {
        requests: anonymousRequests,
        requestsPerSecond: anonymousRequestsPerSecond,
        requestBurst: anonymousRequestBurst,
      },
      SETTINGS,
      "requests without a valid token",
      sharing(this.#by, STRANGERS, "requests", address),
    );
  }
}

const SETTINGS = {
  requests: limitVariable("anonymousRequests"),
  requestsPerSecond: limitVariable("anonymousRequestsPerSecond"),
};

const SWEEP_MS = 1_000;
/** No tenant can have this name. */
const STRANGERS = "~strangers";
