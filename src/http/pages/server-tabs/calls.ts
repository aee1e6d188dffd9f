import { mayChange, toolsShown } from "../../access/permit.ts";
import { callViews, lineViews } from "../parts/health.ts";
import type { ServerTab } from "./tab.ts";

/** The calls in progress, those that the server retains or the latest ones, and the lines of its functions. */
export const callsTab: ServerTab = {
  id: "calls",
  label: "Calls",
  isFor: ({ isPinned }) => !isPinned,
  async view(shown, context, { host, tenant, cluster, calls, writable }) {
    const { name, served, isBuiltIn } = shown;
    const activity = host.activity(tenant, name);
    const isShown = toolsShown(context.principal, served ?? { server: name });
    const retained = await calls?.tab(shown, context);
    return {
      inFlight: activity.inFlight,
      calls: callViews(activity.recent().filter(({ tool }) => isShown(tool))),
      lines: mayChange(context, "source", name) ? lineViews(activity.lines()) : [],
      isOneOfSeveral: cluster.others.size > 0,
      mayKeep: calls !== undefined && !retained && !isBuiltIn && writable && mayChange(context, "entry", name),
      ...(retained ?? { keptFor: "", kept: undefined, call: undefined }),
    };
  },
};
