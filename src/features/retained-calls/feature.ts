import type { Feature } from "../feature.ts";

/** Calls that are retained with their arguments and results, by the entry field `retain_calls` (docs/retained-calls.md). */
export const retainedCallsFeature: Feature = {
  name: "retained-calls",
  async open({ store, limits, limitsOf, isChosenFor, log, directory }) {
    const { RetainedCalls } = await import("./retained-calls.ts");
    const retention = new RetainedCalls({
      store: store.retainedCalls,
      now: () => store.now(),
      storedBytesOf: (tenant) => limitsOf(tenant).storedBytes,
      mayRemove: () => isChosenFor("retained calls"),
      limits,
      log,
    });
    return {
      retention,
      routes: async () => (await import("./routes.ts")).retainedCallRoutes(retention, directory),
    };
  },
};
