import { clock, type Timer } from "../lib/clock.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import type { OwnUse, SharedLimit, SharedLimits, LimitUse } from "../lib/shared-limits.ts";
import { fixed } from "../limits/fixed.ts";
import type { Cluster } from "./cluster.ts";

/** Limits whose use the nodes report to each other at a time; further ones are enforced by each node alone, in full. */
const bounds = fixed({ toldLimits: 1_000 });

/** How often nodes tell each other what they take of limits. */
const TOLD_MS = 500;
/** Unchanged news is told again after this time; the others forget news that is three times as old. */
const TOLD_AGAIN_MS = 2_000;
const KEPT_MS = 3 * TOLD_AGAIN_MS;
/** All nodes together may take so much of a limit before they tell of it: less makes no difference. */
const SMALL_PART = 0.05;

/**
 * Limits that all nodes keep together: each says every half a second what it takes of those that it uses, and so knows
 * what the others leave. Nothing is said of a limit that nobody uses or of which little is used, and a node alone says
 * nothing at all. It owns who takes what; what a limit makes of that is its own business.
 */
export class Shares implements SharedLimits {
  readonly #cluster: Others;
  /** The limits that this node uses, by key. */
  readonly #used = new Map<string, SharedLimit>();
  /** By node. */
  readonly #heard = new Map<string, { readonly uses: ReadonlyMap<string, LimitUse>; readonly at: number }>();
  /** The sums of all that was heard. */
  #elsewhere: ReadonlyMap<string, LimitUse> = new Map();
  #timer: Timer | undefined;
  #lookedAt = 0;
  #told = NONE;
  #toldAt = -Infinity;

  constructor(cluster: Others) {
    this.#cluster = cluster;
    cluster.on(TOPIC, (letter) => this.#hear(letter));
    cluster.onGone((node) => {
      this.#heard.delete(node);
      this.#sum();
    });
  }

  using(limit: SharedLimit): LimitUse | undefined {
    if (this.#cluster.others.size === 0) return undefined;
    if (this.#used.get(limit.key) !== limit) this.#note(limit);
    return this.#elsewhere.get(limit.key) ?? NOTHING;
  }

  /** False while no limit is used that others have to know of. */
  get isTelling(): boolean {
    return this.#timer !== undefined;
  }

  close(): void {
    this.#timer?.clear();
    this.#timer = undefined;
  }

  #note(limit: SharedLimit): void {
    this.#used.set(limit.key, limit);
    if (this.#timer) return;
    this.#lookedAt = clock.now();
    this.#lookLater();
  }

  #lookLater(): void {
    this.#timer = clock.after(TOLD_MS, () => this.#look()).unref();
  }

  /** Tells what was taken since the last look; ends the looks when nothing is used any more, and all know that. */
  #look(): void {
    this.#lookLater();
    if (this.#cluster.others.size === 0) return this.#rest();
    const now = clock.now();
    const seconds = (now - this.#lookedAt) / 1_000;
    this.#lookedAt = now;
    const uses: Told[] = [];
    const nodes = this.#cluster.others.size + 1;
    for (const limit of this.#used.values()) {
      const use = limit.useIn(seconds, now);
      if (!use) this.#used.delete(limit.key);
      else if (use.weight >= SMALL_PART / nodes) uses.push({ ...use, limit });
    }
    this.#forgetOld(now);
    this.#tell(first(uses, bounds.toldLimits), now);
    if (this.#used.size === 0 && this.#told === NONE && this.#heard.size === 0) this.close();
  }

  /** Nobody is there to hear of anything. */
  #rest(): void {
    this.#used.clear();
    this.#heard.clear();
    this.#sum();
    this.#told = NONE;
    this.close();
  }

  #tell(uses: readonly Told[], now: number): void {
    const told = JSON.stringify(uses.map(asTold));
    const isKnown = told === this.#told && (told === NONE || now - this.#toldAt < TOLD_AGAIN_MS);
    if (isKnown && !uses.some(({ begun }) => begun > 0)) return;
    this.#told = told;
    this.#toldAt = now;
    this.#cluster.tell(TOPIC, { from: this.#cluster.id, uses: uses.map(asTold) });
  }

  /** All that the sender takes: what it does not name, it takes no more. */
  #hear({ from, uses }: JsonObject): void {
    const now = clock.now();
    const heard = new Map((uses as unknown as TellingOfOne[]).map(([key, ...use]) => [key, useOf(use)]));
    this.#heard.set(from as string, { uses: heard, at: now });
    this.#sum();
    for (const [key, { begun }] of heard) if (begun > 0) this.#used.get(key)?.charge(begun, now);
    // So that it is forgotten if its sender says no more.
    if (!this.#timer) this.#lookLater();
  }

  #forgetOld(now: number): void {
    let isLess = false;
    for (const [node, { at }] of this.#heard) {
      const isOver = now - at > KEPT_MS || !this.#cluster.others.has(node);
      if (isOver) isLess = this.#heard.delete(node);
    }
    if (isLess) this.#sum();
  }

  #sum(): void {
    const sums = new Map<string, LimitUse>();
    for (const { uses } of this.#heard.values()) {
      for (const [key, use] of uses) {
        const { wanted, underWay, perSecond, begun } = sums.get(key) ?? NOTHING;
        sums.set(key, {
          wanted: wanted + use.wanted,
          underWay: underWay + use.underWay,
          perSecond: perSecond + use.perSecond,
          begun: begun + use.begun,
        });
      }
    }
    this.#elsewhere = sums;
  }
}

type Others = Pick<Cluster, "id" | "others" | "on" | "onGone" | "tell">;

interface Told extends OwnUse {
  readonly limit: SharedLimit;
}

/** The key, and the figures of `LimitUse`. */
type TellingOfOne = readonly [string, number, number, number, number];

const TOPIC = "shares";
const NONE = "[]";
const NOTHING: LimitUse = { wanted: 0, underWay: 0, perSecond: 0, begun: 0 };

function asTold({ limit, wanted, underWay, perSecond, begun }: Told): Json[] {
  return [limit.key, round(wanted), underWay, round(perSecond), begun];
}

function useOf([wanted, underWay, perSecond, begun]: readonly [number, number, number, number]): LimitUse {
  return { wanted, underWay, perSecond, begun };
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}

/** Those that matter most; first one of each owner, then the second of each: many of one owner keep out no other's. */
function first(uses: readonly Told[], max: number): readonly Told[] {
  if (uses.length <= max) return uses;
  const places = new Map<string, number>();
  const byWeight = uses.toSorted((one, other) => other.weight - one.weight);
  const placed = byWeight.map((use) => {
    const place = places.get(use.limit.owner) ?? 0;
    places.set(use.limit.owner, place + 1);
    return { use, place };
  });
  return placed
    .toSorted((one, other) => one.place - other.place)
    .slice(0, max)
    .map(({ use }) => use);
}
