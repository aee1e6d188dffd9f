import type { Feature } from "../feature.ts";

/** Changes of upstreams' contracts since they were approved (docs/upstreams.md). */
export const driftFeature: Feature = {
  name: "drift",
  open: async () => ({ approvals: await import("./approved.ts") }),
};
