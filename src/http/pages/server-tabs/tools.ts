import { APP_FRAME } from "../../app-frame.ts";
import { pathsOf } from "../parts/paths.ts";
import type { ServerTab } from "./tab.ts";

/** The tools, resources and prompts of the server, each to be tried where it stands; `?call=` fills in a retained call's arguments. */
export const toolsTab: ServerTab = {
  id: "tools",
  label: "Tools",
  isFor: ({ catalog }) => catalog !== undefined,
  async view(shown, context, parts) {
    const { base, offersOf, calls } = parts;
    const again = await calls?.again(shown, context);
    return {
      ...(await offersOf(shown.catalog!)),
      path: pathsOf(base, shown.address).endpoint,
      frame: `${base}${APP_FRAME}`,
      again,
    };
  },
};
