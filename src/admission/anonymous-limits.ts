import { clock } from "../lib/clock.ts";
import { shareLimit, type SharedLimits } from "../lib/shared-limits.ts";
import { fixed } from "../limits/fixed.ts";
import { type Limits, limitVariable } from "../limits/limits.ts";
import { Gate } from "./gate.ts";

type AnonymousLimitNumbers = Pick<Limits, "anonymousRequests" | "anonymousRequestsPerSecond" | "anonymousRequestBurst">;

const bounds = fixed({
  /** Addresses whose anonymous requests are counted separately; all others share one count. */
  anonymousAddresses: 10_000,
});

/**
 * Limits requests that lack a required authentication. Each address has its own gate, so anonymous callers use up no
 * tenant's limits. The number of gates is bounded: further addresses share one.
 */
export class AnonymousLimits {
  readonly #limits: AnonymousLimitNumbers;
  readonly #gates = new Map<string, Gate>();
  readonly #sharedGate: Gate;
  readonly #sharedLimits: SharedLimits | undefined;
  #sweptAt = Number.NEGATIVE_INFINITY;

  /** Without `sharedLimits`, each process enforces the limits by itself. */
  constructor(limits: AnonymousLimitNumbers, sharedLimits?: SharedLimits) {
    this.#limits = limits;
    this.#sharedLimits = sharedLimits;
    this.#sharedGate = this.#newGate("others");
  }

  /** Admits one request from an address. Returns the gate to call `leave` on. Throws `too_many_requests`. */
  enter(address: string, now = clock.now()): Gate {
    const gate = this.#gates.get(address) ?? this.#gateFor(address, now);
    gate.enter(now);
    return gate;
  }

  #gateFor(address: string, now: number): Gate {
    const { anonymousAddresses } = bounds;
    // Sweep at most once per `SWEEP_MS`, or a client with many addresses could cause a full sweep per request.
    if (this.#gates.size >= anonymousAddresses && now - this.#sweptAt >= SWEEP_MS) {
      this.#sweptAt = now;
      for (const [candidate, gate] of this.#gates) if (gate.isIdle(now)) this.#gates.delete(candidate);
    }
    if (this.#gates.size >= anonymousAddresses) return this.#sharedGate;
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
      shareLimit(this.#sharedLimits, ANONYMOUS, "requests", address),
    );
  }
}

const SETTINGS = {
  requests: limitVariable("anonymousRequests"),
  requestsPerSecond: limitVariable("anonymousRequestsPerSecond"),
};

const SWEEP_MS = 1_000;
/** Not a valid tenant name. */
const ANONYMOUS = "~strangers";
