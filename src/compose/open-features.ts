import type { FeatureCore, FeatureParts } from "../features/feature.ts";
import type { GuestRequests } from "../host/serving/guest-port.ts";
import { features } from "./features.ts";

export interface OpenedFeatures {
  readonly features: readonly FeatureParts[];
  /** The requests of guest code that any of them answers. */
  readonly guestRequests: GuestRequests;
}

export async function openFeatures(core: FeatureCore): Promise<OpenedFeatures> {
  const opened = await Promise.all(features.map((feature) => feature.open(core)));
  return { features: opened, guestRequests: Object.assign({}, ...opened.map((each) => each.guestRequests)) };
}
