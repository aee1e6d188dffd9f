import type { Directory } from "../../host/directory/directory.ts";
import type { FeatureRoutes } from "../../http/feature-routes.ts";
import { callRoutes } from "./api.ts";
import type { RetainedCalls } from "./retained-calls.ts";
import { callViews } from "./tab.ts";

export function retainedCallRoutes(
  retainedCalls: RetainedCalls,
  directory: (tenant: string) => Directory | undefined,
): FeatureRoutes {
  return {
    api: [{ path: "/servers", create: () => callRoutes(retainedCalls, directory) }],
    calls: callViews(retainedCalls),
  };
}
