import type { Feature } from "../feature.ts";

/** Figures for Prometheus, at `/metrics` (docs/operations.md). */
export const metricsFeature: Feature = {
  name: "metrics",
  open: async (core) => (await import("./figures.ts")).openMetrics(core),
  sumCounts: async (all) => (await import("./metrics.ts")).sumCounts(all),
};
