import { APP_FRAME } from "../../app-frame.ts";
import { pathsOf } from "../parts/paths.ts";
import { argumentsAgain, retainedCallOf } from "../../../features/retained-calls/tab.ts";
import type { ServerTab } from "./tab.ts";

/** The tools, resources and prompts of the server, each to be tried where it stands; `?call=` fills in a retained call's arguments. */
export const toolsTab: ServerTab = {
  id: "tools",
  label: "Tools",
  isFor: ({ catalog }) => catalog !== undefined,
  async view(shown, context, parts) {
    const { name, address, catalog } = shown;
    const { base, offersOf } = parts;
    const call = await retainedCallOf(shown, context, parts);
    const given = call && argumentsAgain(call);
    return {
      ...(await offersOf(catalog!)),
      path: pathsOf(base, address).endpoint,
      frame: `${base}${APP_FRAME}`,
      again: given && {
        tool: call.tool,
        arguments: given.text,
        isHidden: given.isHidden,
        call: `${pathsOf(base, name).page}?tab=calls&call=${call.id}`,
      },
    };
  },
};
