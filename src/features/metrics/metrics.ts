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
 * Metrics of this process for Prometheus. It bounds their number and writes them. It knows neither HTTP nor the
 * measured parts, which `figures.ts` names.
 */
export interface Metrics extends Meter, Required<Pick<FeatureParts, "onCall" | "onCompiled" | "forget">> {
  /** In the format of `contentType`; with `all`, the sum over several processes. */
  text(all?: readonly Figures[]): Promise<string>;
  readonly contentType: string;
}

type LibraryFigure = MetricObjectWithValues<MetricValue<string>>;

/** Sums the counters of ended processes, which must never decrease; their other metrics end with them. */
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

  let isWatching = false;
  const startWatching = (): void => {
    // Watching the event loop and the garbage collector has a cost, so it starts with the first scrape.
    if (!isWatching) collectDefaultMetrics({ register: registry });
    isWatching = true;
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
      startWatching();
      return registry.getMetricsAsJSON();
    },

    text(all) {
      startWatching();
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
 * Counts and times calls by tenant, server, tool and outcome. The first `metricTools` tools called have metrics of
 * their own, and all others share those of the tool `other`: otherwise anyone who may add servers could make the
 * metrics grow without bound. When a tenant is deleted, other tools can take the place of its tools.
 */
function countCalls(registry: Registry, metricTools: number): Pick<Metrics, "onCall" | "forget"> {
  const all = new Map<string, CallTimes>();
  const tracked = new Set<string>();
  const byTool = new WeakMap<CalledTool, Partial<Record<CallOutcome, CallTimes>>>();
  // It registers itself.
  void new CallDurations(registry, all);

  return {
    onCall({ tool, outcome, ms }) {
      let outcomes = byTool.get(tool);
      if (!outcomes) byTool.set(tool, (outcomes = {}));
      (outcomes[outcome] ??= findTimes(tool, outcome)).add(ms / 1000);
    },
    forget(tenant) {
      for (const [key, { labels }] of all) if (labels.tenant === tenant) all.delete(key);
      for (const key of tracked) if ((JSON.parse(key) as string[])[0] === tenant) tracked.delete(key);
    },
  };

  function findTimes({ tenant, server, tool }: CalledTool, outcome: CallOutcome): CallTimes {
    const which = JSON.stringify([tenant, server, tool]);
    const isOther = tracked.size >= metricTools && !tracked.has(which);
    if (!isOther) tracked.add(which);
    const key = isOther ? `${OTHER} ${outcome}` : `${which} ${outcome}`;
    let times = all.get(key);
    if (!times) {
      const labels = isOther ? { tenant: OTHER, server: OTHER, tool: OTHER } : { tenant, server, tool };
      all.set(key, (times = new CallTimes({ ...labels, outcome })));
    }
    return times;
  }
}

/** The library's own `observe` costs several microseconds per call, mostly garbage; this adds three numbers. */
class CallTimes {
  readonly labels: Labels;
  /** Calls in each bucket, excluding smaller ones; the last is for calls that took longer than all. */
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

/** A histogram of the library that reads its values only on request. */
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

  /** Called by the library when it writes the metrics. */
  async getForPromString(): Promise<object> {
    return { name: NAME, help: HELP, type: "histogram", values: [...this.#all.values()].flatMap(toValues) };
  }

  /** Called by the library when it adds them to those of other processes. */
  override async get(): Promise<MetricObjectWithValues<MetricValueWithName<Label>>> {
    return { ...(await this.getForPromString()), aggregator: "sum" } as MetricObjectWithValues<
      MetricValueWithName<Label>
    >;
  }
}

function toValues({ labels, counts, sum }: CallTimes): MetricValueWithName<Label>[] {
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
