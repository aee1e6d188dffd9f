import { credentialsOf } from "../parts/credentials.ts";
import { pathsOf } from "../parts/paths.ts";
import type { ServerTab } from "./tab.ts";

/** The server's address, and how to give it to each client. */
export const connectTab: ServerTab = {
  id: "connect",
  label: "Connect",
  isFor: ({ catalog }) => catalog !== undefined,
  async view({ name, address, isPinned, catalog }, context, { base, tenant, access, originOf, setups }) {
    const origin = originOf(context.request);
    const { endpoint } = pathsOf(base, address);
    const url = `${origin}${endpoint}`;
    const callAt = isPinned ? "" : `${origin}${pathsOf(base, name).edit}`;
    const credentials = credentialsOf(access, tenant, name);
    const connection = { name, url, tool: catalog!.contract.tools[0], access: credentials.access };
    return { url, callAt, credentials, setups: setups.flatMap((each) => each(connection)) };
  },
};
