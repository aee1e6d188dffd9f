import type { FailureReason, GuestLog } from "../../executor/executor.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { jsonPrefix, cutText } from "../../lib/cut-text.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import { fixed } from "../../limits/fixed.ts";
import type { CallOutcome, CallRecord } from "./record.ts";

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

/** A failure of a server's function, or a line that it logged or printed. */
export interface RecentLine {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly tool: string;
  readonly kind: LogLevel | "failed";
  readonly message: string;
  /** `file:line:column` in the sources of the definition, where it is known. */
  readonly location?: string;
}

/** Calls that ended within five minutes. */
export interface CallCount {
  readonly calls: number;
  /** Those that were answered with an error: the tool failed, or its arguments were wrong. */
  readonly errors: number;
}

interface PartCount {
  readonly part: number;
  calls: number;
  errors: number;
}

const bounds = fixed({
  /** Calls of a server that its page lists: times, outcomes and sizes. */
  recentCalls: 50,
  /** Servers of all tenants whose calls of the last hour are counted; the longest silent are forgotten first. */
  countedServers: 10_000,
  /** Failures of a server's functions and their log lines, together, that its page shows its authors. */
  recentLines: 20,
  /** Servers of all tenants for which such lines are kept in memory; the longest silent are forgotten first. */
  recentLinesServers: 1_000,
});

/** The parts of an hour, of five minutes each, in which calls are counted. */
export const HOUR_PARTS = 12;
const PART_MS = 300_000;
const MESSAGE_UNITS_MAX = 1_000;
/** Failures that say nothing about the function. */
const NOT_ITS_OWN: ReadonlySet<FailureReason> = new Set(["cancelled", "descriptors", "busy", "evicted"]);
/** Read once: it is no plain field. */
const STARTED_AT = performance.timeOrigin;
const NO_CALLS: CallCount = { calls: 0, errors: 0 };

/** The activity of every server, retained across its releases, in memory. */
export class Activities {
  readonly #tenants = new Map<string, Map<string, Activity>>();
  /** The calls of the last hour, by part modulo `HOUR_PARTS`; ordered by the latest call, to five minutes. */
  readonly hours = new BoundedMap<Activity, PartCount[]>(bounds.countedServers);
  /** Ordered by the latest line. */
  readonly lines = new BoundedMap<Activity, RecentLine[]>(bounds.recentLinesServers);

  of(tenant: string, server: string): Activity {
    let servers = this.#tenants.get(tenant);
    if (!servers) this.#tenants.set(tenant, (servers = new Map()));
    let activity = servers.get(server);
    if (!activity) servers.set(server, (activity = new Activity(this)));
    return activity;
  }

  /** Calls in progress on all of a tenant's servers. */
  inFlight(tenant: string): number {
    let sum = 0;
    for (const { inFlight } of this.#tenants.get(tenant)?.values() ?? []) sum += inFlight;
    return sum;
  }

  /** Forgets servers that were removed. */
  keepOnly(tenant: string, servers: ReadonlyMap<string, unknown>): void {
    const known = this.#tenants.get(tenant);
    for (const [server, activity] of known ?? []) {
      if (servers.has(server)) continue;
      known!.delete(server);
      this.hours.delete(activity);
      this.lines.delete(activity);
    }
    if (known?.size === 0) this.#tenants.delete(tenant);
  }
}

/** One server's calls in progress, its latest calls, and how many there were in the last hour; its latest lines. */
export class Activity {
  /** Tool calls in progress; the code that runs them counts. */
  inFlight = 0;
  /** When the latest call began, in milliseconds since the epoch; undefined before the first one. */
  latestAt: number | undefined;
  readonly #all: Pick<Activities, "hours" | "lines">;
  readonly #calls: RecentCall[] = [];
  #next = 0;

  constructor(all: Pick<Activities, "hours" | "lines"> = new Activities()) {
    this.#all = all;
  }

  record({ tool: { tool }, outcome, beganAt, ms, size, retries, failure }: CallRecord): void {
    const at = STARTED_AT + beganAt;
    this.latestAt = at;
    this.#count(at + ms, outcome === "error" || outcome === "invalid");
    this.#calls[this.#next] = { at, tool, outcome, ms, size, retries };
    this.#next = (this.#next + 1) % bounds.recentCalls;
    if (!failure || NOT_ITS_OWN.has(failure.reason)) return;
    this.#addLine(tool, "failed", cutText(failure.message, MESSAGE_UNITS_MAX), failure.stack);
  }

  addLine(tool: string, { level, message }: GuestLog): void {
    const text = typeof message === "string" ? message : jsonPrefix(message, MESSAGE_UNITS_MAX);
    const shown = cutText(text, MESSAGE_UNITS_MAX);
    // A printed error, or a rejection that nothing handled, has its stack in the line.
    this.#addLine(tool, level, shown, level === "error" ? shown : undefined);
  }

  /** The last hour in parts of five minutes, oldest first; undefined when nothing is counted. */
  lastHour(now = Date.now()): readonly CallCount[] | undefined {
    const counts = this.#all.hours.get(this);
    const first = partAt(now) - HOUR_PARTS + 1;
    return counts && Array.from({ length: HOUR_PARTS }, (_, index) => countIn(counts, first + index) ?? NO_CALLS);
  }

  /** Newest first. */
  recent(): RecentCall[] {
    return [...this.#calls.slice(this.#next), ...this.#calls.slice(0, this.#next)].toReversed();
  }

  /** The latest failures of its functions, and the latest lines that they log or print; newest first. */
  lines(): RecentLine[] {
    return (this.#all.lines.get(this) ?? []).toReversed();
  }

  #count(at: number, isError: boolean): void {
    const counts = this.#all.hours.get(this) ?? [];
    const part = partAt(at);
    let count = countIn(counts, part);
    if (!count) {
      counts[part % HOUR_PARTS] = count = { part, calls: 0, errors: 0 };
      this.#all.hours.set(this, counts);
    }
    count.calls += 1;
    if (isError) count.errors += 1;
  }

  #addLine(tool: string, kind: RecentLine["kind"], message: string, stack: string | undefined): void {
    const lines = this.#all.lines.get(this) ?? [];
    const location = placeThrownAt(stack);
    lines.push({ at: Date.now(), tool, kind, message, ...(location && { location }) });
    if (lines.length > bounds.recentLines) lines.shift();
    this.#all.lines.set(this, lines);
  }
}

function partAt(ms: number): number {
  return Math.floor(ms / PART_MS);
}

/** Undefined if the slot of the part still has the counts of an earlier hour. */
function countIn(counts: readonly PartCount[], part: number): PartCount | undefined {
  const count = counts[part % HOUR_PARTS];
  return count?.part === part ? count : undefined;
}

/** The first place in the definition's own files: `file:line:column`. A stack may hold anything that a guest writes. */
export function placeThrownAt(stack: string | undefined): string | undefined {
  return /^[ \t]+at (?:.*\()?(?:definition:)?([^\s()]+:\d+:\d+)\)?$/m.exec(stack ?? "")?.[1];
}
