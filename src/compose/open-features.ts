import type { FeatureCore, FeatureParts, Meter } from "../features/feature.ts";
import type { ConsentPort } from "../host/calls/consent.ts";
import type { ApprovalPort } from "../host/catalog/approvals.ts";
import type { CallRetention } from "../host/journal/record.ts";
import type { GuestRequests } from "../host/serving/guest-port.ts";
import type { BuiltInServer } from "../host/serving/with-built-in.ts";
import type { CallNatively } from "../mcp/protocol.ts";
import type { ReadableSecrets } from "../secrets/grants.ts";
import { features } from "./features.ts";

export interface OpenedFeatures {
  readonly features: readonly FeatureParts[];
  /** The requests of guest code that any of them answers. */
  readonly guestRequests: GuestRequests;
  readonly metrics: Meter;
  readonly consents: ConsentPort;
  readonly approvals: ApprovalPort | undefined;
  readonly secrets: ReadableSecrets;
  readonly builtIn: BuiltInServer | undefined;
  readonly retention: CallRetention | undefined;
  readonly callNatively: CallNatively | undefined;
  close(): Promise<void>;
}

const NO_METRICS: Meter = { show() {}, now: async () => [] };

/** Without the feature no entry asks for consent, as its field is refused. */
const NO_CONSENTS: ConsentPort = {
  forTool: () => ({ check: async () => ({ refused: "This Berth cannot ask for consent." }) }),
};

/** Likewise no entry names secrets. */
const NO_SECRETS: ReadableSecrets = { list: async () => [], read: async () => undefined };

export async function openFeatures(core: FeatureCore): Promise<OpenedFeatures> {
  const opened = await Promise.all(features.map((feature) => feature.open(core)));
  return {
    features: opened,
    guestRequests: Object.assign({}, ...opened.map((each) => each.guestRequests)),
    metrics: opened.find((each) => each.metrics)?.metrics ?? NO_METRICS,
    consents: opened.find((each) => each.consents)?.consents ?? NO_CONSENTS,
    approvals: opened.find((each) => each.approvals)?.approvals,
    secrets: opened.find((each) => each.secrets)?.secrets ?? NO_SECRETS,
    builtIn: opened.find((each) => each.builtIn)?.builtIn,
    retention: opened.find((each) => each.retention)?.retention,
    callNatively: opened.find((each) => each.callNatively)?.callNatively,
    async close() {
      await Promise.all(opened.map(async (each) => each.close?.()));
    },
  };
}
