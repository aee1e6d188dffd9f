import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RequestHandler } from "express";
import handlebars from "handlebars";
import { packageRoot } from "../../config.ts";
import type { Host } from "../../host/host.ts";

const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** `GET /mcp`: what is hosted here and how to connect (C6). Handlebars escapes every value. */
export function mcpPage(options: { host: Host; tenant: string; isolation: string }): RequestHandler {
  const render = handlebars.compile(readFileSync(join(packageRoot, "views/mcp.html"), "utf8"), { strict: true });

  return async (request, response) => {
    const servers = await options.host.list(options.tenant);
    response.setHeader("Content-Security-Policy", POLICY);
    response.type("html").send(
      render({
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
      }),
    );
  };
}
