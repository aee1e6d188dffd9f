import { BoundedMap } from "../../lib/bounded-map.ts";
import { fixed } from "../../limits/fixed.ts";

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

const bounds = fixed({
  /** Calls of a server that its page lists: times, outcomes and sizes. */
  recentCalls: 50,
  /** Servers of all tenants whose calls of the last hour are counted; the longest silent are forgotten first. */
  countedServers: 10_000,
});

/** Calls that ended within five minutes. */
export interface CallCount {
  readonly calls: number;
  /** Those that were answered with an error: the tool failed, or its arguments were wrong. */
  readonly errors: number;
}

/** The parts of an hour, of five minutes each, in which calls are counted. */
export const HOUR_PARTS = 12;
const PART_MS = 300_000;

/** How many servers have counts, at most: those that were called last. Each has one `CountedHour`. */
export class CountedHours {
  readonly #hours: BoundedMap<Activity, CountedHour>;

  constructor(servers: number) {
    this.#hours = new BoundedMap(servers);
  }

  count(of: Activity, at: number, isError: boolean): void {
    const hour = this.#hours.get(of) ?? new CountedHour();
    // In order of the latest call, to five minutes.
    if (hour.isBefore(at)) this.#hours.set(of, hour);
    hour.count(at, isError);
  }

  read(of: Activity, now: number): readonly CallCount[] | undefined {
    return this.#hours.get(of)?.read(now);
  }

  forget(of: Activity): void {
    this.#hours.delete(of);
  }
}

/** The calls of one server in the last hour. Times are in milliseconds since the epoch. */
class CountedHour {
  /** Calls and errors of each part; its place is its number modulo `HOUR_PARTS`. */
  readonly #counts = new Uint32Array(HOUR_PARTS * 2);
  #newest = -1;

  isBefore(at: number): boolean {
    return partAt(at) > this.#newest;
  }

  count(at: number, isError: boolean): void {
    const part = partAt(at);
    if (part > this.#newest) {
      // Parts without calls in between are over, too.
      for (let empty = Math.max(this.#newest + 1, part - HOUR_PARTS + 1); empty <= part; empty++) {
        this.#counts.fill(0, placeOf(empty), placeOf(empty) + 2);
      }
      this.#newest = part;
    }
    const place = placeOf(part);
    this.#counts[place]! += 1;
    if (isError) this.#counts[place + 1]! += 1;
  }

  /** Oldest first. The last part is the one that `now` is in. */
  read(now: number): CallCount[] {
    const last = partAt(now);
    return Array.from({ length: HOUR_PARTS }, (_, index) => {
      const part = last - HOUR_PARTS + 1 + index;
      if (part > this.#newest || part <= this.#newest - HOUR_PARTS) return { calls: 0, errors: 0 };
      const place = placeOf(part);
      return { calls: this.#counts[place]!, errors: this.#counts[place + 1]! };
    });
  }
}

function partAt(ms: number): number {
  return Math.floor(ms / PART_MS);
}

function placeOf(part: number): number {
  return (part % HOUR_PARTS) * 2;
}

const OUTCOMES: readonly CallOutcome[] = ["ok", "error", "invalid", "asked"];
const CODES: Readonly<Record<CallOutcome, number>> = { ok: 0, error: 1, invalid: 2, asked: 3 };
const FIELDS = 5;

/**
 * One server's calls in flight, its latest calls, and how many there were in the last hour: times and sizes, never what
 * was said. Noting a call writes a few numbers that are allocated once, so its cost is not measurable.
 */
export class Activity {
  /** Tool calls under way; the code that carries them out keeps the count. */
  inFlight = 0;
  /** When the latest call began, in milliseconds since the epoch; undefined before the first one. */
  latestAt: number | undefined;
  readonly #hours: CountedHours;
  #numbers: Float64Array | undefined;
  #tools: string[] = [];
  #noted = 0;

  constructor(hours: CountedHours = new CountedHours(1)) {
    this.#hours = hours;
  }

  /** Notes a call that began at `beganAt` on the process's clock (`performance.now`) and took `ms`. */
  note(tool: string, outcome: CallOutcome, beganAt: number, ms: number, size: number, retries: number): void {
    const at = performance.timeOrigin + beganAt;
    this.latestAt = at;
    this.#hours.count(this, at + ms, outcome === "error" || outcome === "invalid");
    const numbers = (this.#numbers ??= this.#open());
    const slot = this.#noted % this.#tools.length;
    const first = slot * FIELDS;
    numbers[first] = beganAt;
    numbers[first + 1] = ms;
    numbers[first + 2] = CODES[outcome];
    numbers[first + 3] = size;
    numbers[first + 4] = retries;
    this.#tools[slot] = tool;
    this.#noted += 1;
  }

  /** The last hour in parts of five minutes, oldest first; undefined when nothing is counted. */
  lastHour(now = Date.now()): readonly CallCount[] | undefined {
    return this.#hours.read(this, now);
  }

  /** Newest first. */
  recent(): RecentCall[] {
    const numbers = this.#numbers;
    if (!numbers) return [];
    const callsMax = this.#tools.length;
    const count = Math.min(this.#noted, callsMax);
    return Array.from({ length: count }, (_, age) => {
      const slot = (this.#noted - 1 - age) % callsMax;
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
    const { recentCalls } = bounds;
    this.#tools = Array.from({ length: recentCalls }, () => "");
    return new Float64Array(recentCalls * FIELDS);
  }
}

/** The activity of every server, kept across its releases. */
export class Activities {
  readonly #hours = new CountedHours(bounds.countedServers);
  readonly #tenants = new Map<string, Map<string, Activity>>();

  of(tenant: string, server: string): Activity {
    let servers = this.#tenants.get(tenant);
    if (!servers) this.#tenants.set(tenant, (servers = new Map()));
    let activity = servers.get(server);
    if (!activity) servers.set(server, (activity = new Activity(this.#hours)));
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
    for (const [server, activity] of known ?? []) {
      if (servers.has(server)) continue;
      known!.delete(server);
      this.#hours.forget(activity);
    }
    if (known?.size === 0) this.#tenants.delete(tenant);
  }
}
