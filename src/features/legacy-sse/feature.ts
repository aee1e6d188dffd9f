import type { Feature } from "../feature.ts";

/** HTTP+SSE, the transport of MCP 2024-11-05, at `/mcp/<server>/sse`. */
export const legacySseFeature: Feature = {
  name: "legacy-sse",
  open: async () => ({
    routes: async () => ({ mcpRoute: (await import("./sse-route.ts")).createSseRoute }),
  }),
};
