import type { FeatureCore, FeatureParts, Meter } from "../features/feature.ts";
import type { GuestRequests } from "../host/serving/guest-port.ts";
import { features } from "./features.ts";

export interface OpenedFeatures {
  readonly features: readonly FeatureParts[];
  /** The requests of guest code that any of them answers. */
  readonly guestRequests: GuestRequests;
  readonly metrics: Meter;
}

const NO_METRICS: Meter = { show() {}, now: async () => [] };

export async function openFeatures(core: FeatureCore): Promise<OpenedFeatures> {
  const opened = await Promise.all(features.map((feature) => feature.open(core)));
  return {
    features: opened,
    guestRequests: Object.assign({}, ...opened.map((each) => each.guestRequests)),
    metrics: opened.find((each) => each.metrics)?.metrics ?? NO_METRICS,
  };
}
