import type { Feature } from "../feature.ts";
import { registerUpstreamCommands } from "./commands/register.ts";

/** Upstreams reached from the command line, saved as profiles, or explored by a model (docs/profiles.md). */
export const profilesFeature: Feature = {
  name: "profiles",
  commands: (program, { run }) => registerUpstreamCommands(program, run, () => import("./commands/pipes.ts")),
  open: async (core) => (core.config.explore ? (await import("./explore/explore-server.ts")).openExplore(core) : {}),
};
