import { clock, type Timer } from "../lib/clock.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import type { OwnUse, SharedLimit, SharedLimits, LimitUse } from "../lib/shared-limits.ts";
import { fixed } from "../limits/fixed.ts";
import type { Cluster } from "./cluster.ts";

/** Limits whose use nodes report to each other; each node enforces further ones alone, in full. */
const bounds = fixed({ reportedLimits: 1_000 });

/** How often nodes report their use of limits. */
const REPORT_MS = 500;
/** Unchanged reports are repeated after this time, and expire after three times as long. */
const REPEAT_MS = 2_000;
const EXPIRY_MS = 3 * REPEAT_MS;
/** If all nodes together use less than this part of a limit, they do not report it: it makes no difference. */
const NEGLIGIBLE_PART = 0.05;

/**
 * Enforces limits across all nodes: each node reports its use every half second, and so knows what the others leave.
 * Unused and hardly used limits are not reported, and a single node reports nothing. This class only exchanges the use;
 * the limits themselves decide what follows from it.
 */
export class Shares implements SharedLimits {
  readonly #cluster: OtherNodes;
  readonly #used = new Map<string, SharedLimit>();
  readonly #reports = new Map<string, { readonly uses: ReadonlyMap<string, LimitUse>; readonly at: number }>();
  #otherUse: ReadonlyMap<string, LimitUse> = new Map();
  #timer: Timer | undefined;
  #polledAt = 0;
  #lastReport = EMPTY_REPORT;
  #reportedAt = -Infinity;

  constructor(cluster: OtherNodes) {
    this.#cluster = cluster;
    cluster.on(TOPIC, (message) => this.#receive(message));
    cluster.onGone((node) => {
      this.#reports.delete(node);
      this.#sum();
    });
  }

  using(limit: SharedLimit): LimitUse | undefined {
    if (this.#cluster.others.size === 0) return undefined;
    if (this.#used.get(limit.key) !== limit) this.#register(limit);
    return this.#otherUse.get(limit.key) ?? NO_USE;
  }

  /** True while this node uses limits that it reports. */
  get isReporting(): boolean {
    return this.#timer !== undefined;
  }

  close(): void {
    this.#timer?.clear();
    this.#timer = undefined;
  }

  #register(limit: SharedLimit): void {
    this.#used.set(limit.key, limit);
    if (this.#timer) return;
    this.#polledAt = clock.now();
    this.#schedulePoll();
  }

  #schedulePoll(): void {
    this.#timer = clock.after(REPORT_MS, () => this.#poll()).unref();
  }

  /** Reports the use since the last poll. Stops when no limits are used any more and all nodes know that. */
  #poll(): void {
    this.#schedulePoll();
    if (this.#cluster.others.size === 0) return this.#stop();
    const now = clock.now();
    const seconds = (now - this.#polledAt) / 1_000;
    this.#polledAt = now;
    const uses: ReportedUse[] = [];
    const nodes = this.#cluster.others.size + 1;
    for (const limit of this.#used.values()) {
      const use = limit.useIn(seconds, now);
      if (!use) this.#used.delete(limit.key);
      else if (use.weight >= NEGLIGIBLE_PART / nodes) uses.push({ ...use, limit });
    }
    this.#removeExpired(now);
    this.#report(selectMostImportant(uses, bounds.reportedLimits), now);
    if (this.#used.size === 0 && this.#lastReport === EMPTY_REPORT && this.#reports.size === 0) this.close();
  }

  /** Stops, as there are no other nodes. */
  #stop(): void {
    this.#used.clear();
    this.#reports.clear();
    this.#sum();
    this.#lastReport = EMPTY_REPORT;
    this.close();
  }

  #report(uses: readonly ReportedUse[], now: number): void {
    const report = JSON.stringify(uses.map(toRow));
    const isRecent = report === this.#lastReport && (report === EMPTY_REPORT || now - this.#reportedAt < REPEAT_MS);
    if (isRecent && !uses.some(({ begun }) => begun > 0)) return;
    this.#lastReport = report;
    this.#reportedAt = now;
    this.#cluster.tell(TOPIC, { from: this.#cluster.id, uses: uses.map(toRow) });
  }

  /** A report is complete: limits that it does not mention are unused. */
  #receive({ from, uses }: JsonObject): void {
    const now = clock.now();
    const reported = new Map((uses as unknown as ReportRow[]).map(([key, ...use]) => [key, fromRow(use)]));
    this.#reports.set(from as string, { uses: reported, at: now });
    this.#sum();
    for (const [key, { begun }] of reported) if (begun > 0) this.#used.get(key)?.charge(begun, now);
    // Keeps the timer running, so that the report expires if its sender stops.
    if (!this.#timer) this.#schedulePoll();
  }

  #removeExpired(now: number): void {
    let isChanged = false;
    for (const [node, { at }] of this.#reports) {
      const isExpired = now - at > EXPIRY_MS || !this.#cluster.others.has(node);
      if (isExpired) isChanged = this.#reports.delete(node);
    }
    if (isChanged) this.#sum();
  }

  #sum(): void {
    const sums = new Map<string, LimitUse>();
    for (const { uses } of this.#reports.values()) {
      for (const [key, use] of uses) {
        const { wanted, underWay, perSecond, begun } = sums.get(key) ?? NO_USE;
        sums.set(key, {
          wanted: wanted + use.wanted,
          underWay: underWay + use.underWay,
          perSecond: perSecond + use.perSecond,
          begun: begun + use.begun,
        });
      }
    }
    this.#otherUse = sums;
  }
}

type OtherNodes = Pick<Cluster, "id" | "others" | "on" | "onGone" | "tell">;

interface ReportedUse extends OwnUse {
  readonly limit: SharedLimit;
}

/** The key and the figures of `LimitUse`. */
type ReportRow = readonly [string, number, number, number, number];

const TOPIC = "shares";
const EMPTY_REPORT = "[]";
const NO_USE: LimitUse = { wanted: 0, underWay: 0, perSecond: 0, begun: 0 };

function toRow({ limit, wanted, underWay, perSecond, begun }: ReportedUse): Json[] {
  return [limit.key, round(wanted), underWay, round(perSecond), begun];
}

function fromRow([wanted, underWay, perSecond, begun]: readonly [number, number, number, number]): LimitUse {
  return { wanted, underWay, perSecond, begun };
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}

/**
 * Selects the most important ones: first one of each owner, then the second of each, and so on, so that an owner with
 * many limits does not displace those of others.
 */
function selectMostImportant(uses: readonly ReportedUse[], max: number): readonly ReportedUse[] {
  if (uses.length <= max) return uses;
  const counts = new Map<string, number>();
  const byWeight = uses.toSorted((one, other) => other.weight - one.weight);
  const ranked = byWeight.map((use) => {
    const rank = counts.get(use.limit.owner) ?? 0;
    counts.set(use.limit.owner, rank + 1);
    return { use, rank };
  });
  return ranked
    .toSorted((one, other) => one.rank - other.rank)
    .slice(0, max)
    .map(({ use }) => use);
}
