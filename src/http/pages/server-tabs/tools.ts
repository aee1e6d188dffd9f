import { pathsOf } from "../parts/paths.ts";
import type { ServerTab } from "./tab.ts";

/** The tools, resources and prompts of the server, each to be tried where it stands. */
export const toolsTab: ServerTab = {
  id: "tools",
  label: "Tools",
  isFor: ({ catalog }) => catalog !== undefined,
  async view({ address, catalog }, _context, { base, offersOf }) {
    return { ...(await offersOf(catalog!)), path: pathsOf(base, address).endpoint };
  },
};
