import { mayChange } from "../../access/permit.ts";
import { healthFacts, releaseViews } from "../parts/health.ts";
import type { ServerTab } from "./tab.ts";

/** The release that is served, and those before it. */
export const releasesTab: ServerTab = {
  id: "releases",
  label: "Releases",
  isFor: () => true,
  async view({ name, isUpstream, served }, context, { host, tenant, base, isolation, originOf, ...parts }) {
    const writable = parts.writable && mayChange(context, "source", name);
    const releases = await host.releases(tenant, name);
    const now = {
      base,
      // An upstream is not guest code: its own tab tells how it runs.
      isolation: isUpstream ? undefined : isolation,
      since: releases.find(({ release }) => release === served?.release),
    };
    return {
      facts: served ? healthFacts(served, now) : [],
      releases: await releaseViews(releases, name, { host, tenant, origin: originOf(context.request), base, writable }),
    };
  },
};
