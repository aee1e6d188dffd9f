import type { FeatureCore, FeatureParts } from "../feature.ts";
import { createStateEdits } from "./edits.ts";
import { stateRequests, stateRules } from "./guest-requests.ts";

export function openState(core: FeatureCore): FeatureParts {
  const rules = stateRules(core);
  const edits = createStateEdits({ ...rules, store: core.store.values, directory: core.directory });
  return {
    guestRequests: stateRequests(rules),
    routes: async () => (await import("./routes.ts")).stateFeatureRoutes(edits),
  };
}
