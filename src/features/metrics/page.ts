import { checkChange } from "../../http/access/permit.ts";
import type { PageRoute } from "../../http/routed.ts";
import { BerthError } from "../../lib/errors.ts";
import { DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import type { Figures } from "../feature.ts";
import type { Metrics } from "./metrics.ts";

/**
 * `GET /metrics`: metrics of all tenants, so only for administrators of the default tenant, who run the service, and
 * for users of its machine.
 */
export function metricsPage(metrics: Metrics, figuresOfAll?: () => Promise<readonly Figures[]>): PageRoute<unknown> {
  return {
    path: "/metrics",
    permit(context) {
      if (context.tenant !== DEFAULT_TENANT) throw new BerthError("not_found", "metrics are only at /metrics");
      checkChange(context, "audit");
    },
    create:
      () =>
      async ({ response }) => {
        const text = await metrics.text(await figuresOfAll?.());
        response.setHeader("Cache-Control", "no-store");
        // Express would add a second charset to the type required by the format.
        response.setHeader("Content-Type", metrics.contentType);
        response.end(text);
      },
  };
}
