import {
  AggregatorRegistry,
  collectDefaultMetrics,
  Counter,
  Gauge,
  Histogram,
  Registry,
  type MetricObjectWithValues,
  type MetricValue,
  type MetricValueWithName,
} from "prom-client";
import type { CalledTool, CallOutcome } from "../../host/journal/record.ts";
import type { Limits } from "../../limits/limits.ts";
import type { FeatureParts, Figures, Meter } from "../feature.ts";

/**
 * Figures about this process for Prometheus. It owns how many there may be and how they are written. It knows no HTTP,
 * and nothing of the measured parts: `figures.ts` names those.
 */
export interface Metrics extends Meter, Required<Pick<FeatureParts, "onCall" | "onCompiled" | "forget">> {
  /** In the format that `contentType` names; of several processes where `all` has their figures, added up. */
  text(all?: readonly Figures[]): Promise<string>;
  readonly contentType: string;
}

type LibraryFigure = MetricObjectWithValues<MetricValue<string>>;

/** Adds up the counts of ended processes, which may never fall; their other figures end with them. */
export function sumCounts(all: readonly Figures[]): Promise<Figures> {
  const isCount = ({ type }: LibraryFigure): boolean => COUNTS.has(String(type));
  return aggregate(all.map((figures) => (figures as readonly LibraryFigure[]).filter(isCount))).getMetricsAsJSON();
}

function aggregate(all: readonly Figures[]): Registry {
  return AggregatorRegistry.aggregate(all as LibraryFigure[][]);
}

const COUNTS: ReadonlySet<string> = new Set(["counter", "histogram"]);

/** In seconds: from a short compilation to the longest allowed. */
const COMPILE_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export function createMetrics(version: string, { metricTools }: Pick<Limits, "metricTools">): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const info = new Gauge({
    name: "berth_info",
    help: "The running version",
    labelNames: ["version"],
    registers,
    aggregator: "max",
  });
  info.set({ version }, 1);
  const calls = countCalls(registry, metricTools);
  const compilations = new Histogram({
    name: "berth_compile_duration_seconds",
    help: "How long it took to compile definitions, by outcome",
    labelNames: ["outcome"],
    buckets: COMPILE_BUCKETS,
    registers,
  });

  let watches = false;
  const watch = (): void => {
    // Watching the event loop and the garbage collector costs something, so it begins with the first scrape.
    if (!watches) collectDefaultMetrics({ register: registry });
    watches = true;
  };
  return {
    ...calls,
    onCompiled: (ms, outcome) => compilations.observe({ outcome }, ms / 1000),

    show({ name, help, label, isShared = false, read }) {
      const aggregator = isShared ? "max" : "sum";
      const options = { name, help, labelNames: label === undefined ? [] : [label], registers, aggregator } as const;
      const figure = name.endsWith("_total")
        ? new Counter({ ...options, collect: () => collect() })
        : new Gauge({ ...options, collect: () => collect() });
      const collect = async (): Promise<void> => {
        const values = await read();
        figure.reset();
        if (typeof values === "number") figure.inc(values);
        else for (const [key, value] of Object.entries(values)) figure.inc({ [label ?? "of"]: key }, value);
      };
    },

    contentType: registry.contentType,

    async now() {
      watch();
      return registry.getMetricsAsJSON();
    },

    text(all) {
      watch();
      return all ? aggregate(all).metrics() : registry.metrics();
    },
  };
}

/** In seconds: a guest takes some milliseconds, an upstream some seconds, and a task a minute. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const OTHER = "other";
const NAME = "berth_call_duration_seconds";
const HELP = "How long tool calls took, by how they ended (ok, error, invalid, asked)";

type Label = "tenant" | "server" | "tool" | "outcome";
type Labels = Readonly<Record<Label, string>>;

/**
 * Counts and times calls by tenant, server, tool and outcome. Each of the first `metricTools` tools called has figures
 * of its own, and all others share those of the tool `other`: otherwise anyone who may add servers could make the
 * figures grow without end. A deleted tenant leaves its tools' figures to others.
 */
function countCalls(registry: Registry, metricTools: number): Pick<Metrics, "onCall" | "forget"> {
  const all = new Map<string, CallTimes>();
  const known = new Set<string>();
  const ofTool = new WeakMap<CalledTool, Partial<Record<CallOutcome, CallTimes>>>();
  // It registers itself.
  void new CallDurations(registry, all);

  return {
    onCall({ tool, outcome, ms }) {
      let own = ofTool.get(tool);
      if (!own) ofTool.set(tool, (own = {}));
      (own[outcome] ??= timesOf(tool, outcome)).add(ms / 1000);
    },
    forget(tenant) {
      for (const [key, { labels }] of all) if (labels.tenant === tenant) all.delete(key);
      for (const which of known) if ((JSON.parse(which) as string[])[0] === tenant) known.delete(which);
    },
  };

  function timesOf({ tenant, server, tool }: CalledTool, outcome: CallOutcome): CallTimes {
    const which = JSON.stringify([tenant, server, tool]);
    const isOther = known.size >= metricTools && !known.has(which);
    if (!isOther) known.add(which);
    const key = isOther ? `${OTHER} ${outcome}` : `${which} ${outcome}`;
    let times = all.get(key);
    if (!times) {
      const labels = isOther ? { tenant: OTHER, server: OTHER, tool: OTHER } : { tenant, server, tool };
      all.set(key, (times = new CallTimes({ ...labels, outcome })));
    }
    return times;
  }
}

/** The library's own `observe` costs a call several microseconds, most of it garbage; this adds three numbers. */
class CallTimes {
  readonly labels: Labels;
  /** Calls in each bucket, without those in smaller ones; the last is for calls that took longer than all. */
  readonly counts: number[] = Array.from({ length: BUCKETS.length + 1 }, () => 0);
  sum = 0;

  constructor(labels: Labels) {
    this.labels = labels;
  }

  add(seconds: number): void {
    let bucket = 0;
    while (bucket < BUCKETS.length && seconds > BUCKETS[bucket]!) bucket += 1;
    this.counts[bucket]! += 1;
    this.sum += seconds;
  }
}

/** A histogram of the library that reads its figures only on request. */
class CallDurations extends Histogram<Label> {
  readonly #all: ReadonlyMap<string, CallTimes>;

  constructor(registry: Registry, all: ReadonlyMap<string, CallTimes>) {
    super({
      name: NAME,
      help: HELP,
      labelNames: ["tenant", "server", "tool", "outcome"],
      buckets: BUCKETS,
      registers: [registry],
    });
    this.#all = all;
  }

  /** Called by the library whenever it writes the figures. */
  async getForPromString(): Promise<object> {
    return { name: NAME, help: HELP, type: "histogram", values: [...this.#all.values()].flatMap(valuesOf) };
  }

  /** Likewise when it adds them to those of other processes. */
  override async get(): Promise<MetricObjectWithValues<MetricValueWithName<Label>>> {
    return { ...(await this.getForPromString()), aggregator: "sum" } as MetricObjectWithValues<
      MetricValueWithName<Label>
    >;
  }
}

function valuesOf({ labels, counts, sum }: CallTimes): MetricValueWithName<Label>[] {
  let count = 0;
  const buckets = counts.map((more, index) => {
    count += more;
    return { labels: { le: BUCKETS[index] ?? "+Inf", ...labels }, value: count, metricName: `${NAME}_bucket` };
  });
  return [
    ...buckets,
    { labels, value: sum, metricName: `${NAME}_sum` },
    { labels, value: count, metricName: `${NAME}_count` },
  ];
}
