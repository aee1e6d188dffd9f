import type { RequestHandler } from "express";
import type { Host } from "../../host/host.ts";
import type { Pages } from "./pages.ts";

/** `GET /mcp`: what is hosted here and how to connect (C6). */
export function mcpPage(options: { host: Host; pages: Pages; tenant: string; isolation: string }): RequestHandler {
  return async (request, response) => {
    const servers = await options.host.list(options.tenant);
    await options.pages.send(request, response, "mcp", {
      title: "MCP servers",
      section: "mcp",
      origin: `${request.protocol}://${request.headers.host}`,
      isolation: options.isolation,
      problems: options.host.problems(options.tenant),
      servers: servers.map(({ name, state, description, catalog, problems }) => ({
        name,
        note: state === "ready" ? "" : state,
        description: description ?? "",
        url: `/mcp/${encodeURIComponent(name)}`,
        release: catalog?.release ?? "",
        tools: (catalog?.contract.tools ?? []).map((tool) => ({
          name: tool.name,
          description: tool.description ?? "",
        })),
        problems: problems.map((problem) => problem.message),
      })),
    });
  };
}
