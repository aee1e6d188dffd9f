/** How a tool call ended. `asked`: with questions to the user; repeat it with the answers. */
export type CallOutcome = "ok" | "error" | "invalid" | "asked";

export interface RecentCall {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly tool: string;
  readonly outcome: CallOutcome;
  readonly ms: number;
  /** Size of the result's content in UTF-16 units; bytes count as their base64. */
  readonly size: number;
  /** Retries after transient errors. */
  readonly retries: number;
}

const OUTCOMES: readonly CallOutcome[] = ["ok", "error", "invalid", "asked"];
const CODES: Readonly<Record<CallOutcome, number>> = { ok: 0, error: 1, invalid: 2, asked: 3 };
const FIELDS = 5;

/**
 * One server's calls in flight and its latest calls: times and sizes, never what was said. Noting a call writes a few
 * numbers into a ring that is allocated once, so its cost is not measurable.
 */
export class Activity {
  /** Tool calls under way; the code that carries them out keeps the count. */
  inFlight = 0;
  readonly #callsMax: number;
  #numbers: Float64Array | undefined;
  #tools: string[] = [];
  #noted = 0;

  constructor(callsMax: number) {
    this.#callsMax = callsMax;
  }

  /** Notes a call that began at `beganAt` on the process's clock (`performance.now`) and took `ms`. */
  note(tool: string, outcome: CallOutcome, beganAt: number, ms: number, size: number, retries: number): void {
    if (this.#callsMax === 0) return;
    const numbers = (this.#numbers ??= this.#open());
    const slot = this.#noted % this.#callsMax;
    const at = slot * FIELDS;
    numbers[at] = beganAt;
    numbers[at + 1] = ms;
    numbers[at + 2] = CODES[outcome];
    numbers[at + 3] = size;
    numbers[at + 4] = retries;
    this.#tools[slot] = tool;
    this.#noted += 1;
  }

  /** Newest first. */
  recent(): RecentCall[] {
    const numbers = this.#numbers;
    if (!numbers) return [];
    const count = Math.min(this.#noted, this.#callsMax);
    return Array.from({ length: count }, (_, age) => {
      const slot = (this.#noted - 1 - age) % this.#callsMax;
      const [beganAt = 0, ms = 0, code = 0, size = 0, retries = 0] = numbers.subarray(
        slot * FIELDS,
        (slot + 1) * FIELDS,
      );
      return {
        at: performance.timeOrigin + beganAt,
        tool: this.#tools[slot] ?? "",
        outcome: OUTCOMES[code] ?? "error",
        ms,
        size,
        retries,
      };
    });
  }

  /** Allocated on first use: most servers are never called. */
  #open(): Float64Array {
    this.#tools = Array.from({ length: this.#callsMax }, () => "");
    return new Float64Array(this.#callsMax * FIELDS);
  }
}

/** The activity of every server, kept across its releases. */
export class Activities {
  readonly #callsMax: number;
  readonly #tenants = new Map<string, Map<string, Activity>>();

  constructor(callsMax: number) {
    this.#callsMax = callsMax;
  }

  of(tenant: string, server: string): Activity {
    let servers = this.#tenants.get(tenant);
    if (!servers) this.#tenants.set(tenant, (servers = new Map()));
    let activity = servers.get(server);
    if (!activity) servers.set(server, (activity = new Activity(this.#callsMax)));
    return activity;
  }

  /** Calls under way on all of a tenant's servers. */
  inFlight(tenant: string): number {
    let sum = 0;
    for (const { inFlight } of this.#tenants.get(tenant)?.values() ?? []) sum += inFlight;
    return sum;
  }

  /** Forgets servers that are gone. */
  keepOnly(tenant: string, servers: ReadonlyMap<string, unknown>): void {
    const known = this.#tenants.get(tenant);
    for (const server of known?.keys() ?? []) if (!servers.has(server)) known!.delete(server);
    if (known?.size === 0) this.#tenants.delete(tenant);
  }
}
