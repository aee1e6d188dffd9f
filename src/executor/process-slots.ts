import { TokenBuckets } from "../lib/token-buckets.ts";
import type { GuestSession } from "./session.ts";

/**
 * Decides if one more process may start: within what all tenants may have together, what its own tenant may have, and
 * how many may be started in a minute. Where it is full, the one that was idle longest makes way.
 */
export interface ProcessSlotLimits {
  /** How many processes one tenant may have. */
  processesOf(tenant: string): number;
  /** How many may be started for one tenant in a minute; 0 for no limit. */
  startsPerMinuteOf(tenant: string): number;
}

export interface ProcessSlot {
  /** 0: now, and the place is taken. `Infinity`: when another process is idle. */
  readonly startsInMs: number;
  /** The session whose place it takes: that process has to end first. */
  readonly instead?: GuestSession;
}

const none: ProcessSlot = { startsInMs: Infinity };

export class ProcessSlots {
  readonly #sessions: ReadonlyMap<string, GuestSession>;
  readonly #processes: number;
  readonly #limits: ProcessSlotLimits;
  readonly #buckets: TokenBuckets;

  /** `sessions` are those that take up room now. */
  constructor(sessions: ReadonlyMap<string, GuestSession>, processes: number, limits: ProcessSlotLimits) {
    this.#sessions = sessions;
    this.#processes = processes;
    this.#limits = limits;
    this.#buckets = new TokenBuckets((tenant) => ({
      perMinute: limits.startsPerMinuteOf(tenant),
      burst: limits.processesOf(tenant),
    }));
  }

  take(tenant: string): ProcessSlot {
    const own = this.#limits.processesOf(tenant);
    const isFull = own < this.#processes && this.#takenBy(tenant) >= own;
    const needsOther = isFull || this.#sessions.size >= this.#processes;
    const instead = needsOther ? this.#idleLongest(isFull ? tenant : undefined) : undefined;
    if (needsOther && !instead) return none;
    const startsInMs = this.#buckets.take(tenant, performance.now());
    return instead ? { startsInMs, instead } : { startsInMs };
  }

  #takenBy(tenant: string): number {
    let count = 0;
    for (const { program } of this.#sessions.values()) if (program.tenant === tenant) count += 1;
    return count;
  }

  /** The session of one tenant, or of any, that was idle longest; undefined when all work. */
  #idleLongest(tenant?: string): GuestSession | undefined {
    let oldest: GuestSession | undefined;
    for (const session of this.#sessions.values()) {
      if (tenant !== undefined && session.program.tenant !== tenant) continue;
      if (session.callsInFlight === 0 && (!oldest || session.lastUsedAt < oldest.lastUsedAt)) oldest = session;
    }
    return oldest;
  }
}
