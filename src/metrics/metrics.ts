import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import { countCalls, type CallFigures } from "./call-figures.ts";

/**
 * Figures about this process for Prometheus. It owns how many there may be and how they are written. It knows no HTTP,
 * and nothing of the measured parts: `figures.ts` names those.
 */
export interface Metrics {
  /** Counts and times each call. */
  readonly calls: CallFigures;
  /** Shows the value of `read` at each scrape. */
  show(figure: Figure): void;
  /** Returns a function that records how long each piece of work took, and how it ended. */
  timer(name: FigureName, help: string): (ms: number, outcome: string) => void;
  /** In the format that `contentType` names. */
  text(): Promise<string>;
  readonly contentType: string;
}

type FigureName = `berth_${string}`;

export interface Figure {
  /** A name that ends in `_total` belongs to a counter. */
  readonly name: FigureName;
  readonly help: string;
  /** Tells several values apart, such as `state`. */
  readonly label?: string;
  /** The value, or one for each value of the label. */
  readonly read: () => Values | Promise<Values>;
}

type Values = number | Readonly<Record<string, number>>;

export interface MetricLimits {
  /** The number of tools that have figures of their own. */
  readonly metricTools: number;
}

/** In seconds: from a short compilation to the longest allowed. */
const TIMER_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export function createMetrics(version: string, { metricTools }: MetricLimits): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const info = new Gauge({ name: "berth_info", help: "The version that runs", labelNames: ["version"], registers });
  info.set({ version }, 1);

  let watches = false;
  return {
    calls: countCalls(registry, metricTools),

    show({ name, help, label, read }) {
      const options = { name, help, labelNames: label === undefined ? [] : [label], registers };
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

    timer(name, help) {
      const histogram = new Histogram({ name, help, labelNames: ["outcome"], buckets: TIMER_BUCKETS, registers });
      return (ms, outcome) => histogram.observe({ outcome }, ms / 1000);
    },

    contentType: registry.contentType,

    text() {
      // Watching the event loop and the garbage collector costs something, so it begins with the first scrape.
      if (!watches) collectDefaultMetrics({ register: registry });
      watches = true;
      return registry.metrics();
    },
  };
}
