import { mayChange, toolsShown } from "../../access/permit.ts";
import { callViews, lineViews } from "../parts/health.ts";
import type { ServerTab } from "./tab.ts";

/** The calls under way and the latest ones, with the lines of the server's functions. */
export const callsTab: ServerTab = {
  id: "calls",
  label: "Calls",
  isFor: ({ isPinned }) => !isPinned,
  async view({ name, served }, context, { host, tenant, cluster }) {
    const activity = host.activity(tenant, name);
    const isShown = toolsShown(context.principal, served ?? { server: name });
    return {
      inFlight: activity.inFlight,
      calls: callViews(activity.recent().filter(({ tool }) => isShown(tool))),
      lines: mayChange(context, "source", name) ? lineViews(host.recentLines(tenant, name)) : [],
      isOneOfSeveral: cluster.others.size > 0,
    };
  },
};
