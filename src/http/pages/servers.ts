import type { Subject } from "../../edits/edits.ts";
import type { Host } from "../../host/host.ts";
import { checkPermitted, named, reading } from "../access/permit.ts";
import type { PageRoute } from "../routed.ts";
import { newServerAt, pathsOf } from "./parts/paths.ts";
import { sendComparison, type ComparisonOptions } from "./subject.ts";

interface ServersPageOptions extends ComparisonOptions {
  readonly host: Host;
}

/**
 * `GET /servers`: leads to the list of servers. `?name=` leads to one; with `&new=typescript` or `&new=shell` to the page
 * that begins it; `?server=&of=definition|entry&from=&to=` compares two versions. All of that is here because
 * `/servers/<name>` with a query is a call.
 */
export const serversPage: PageRoute<ServersPageOptions> = {
  path: "/servers",
  create(options) {
    const { edits, writable } = options;
    return async (context) => {
      const { request, response } = context;
      const at = { ...options, ...context.place };
      const { tenant, base } = at;
      const { name, new: language, server } = request.query;
      if (typeof server === "string") {
        checkPermitted(context, "read", server);
        const kind = request.query["of"] === "entry" ? "entry" : "definition";
        const href = `${pathsOf(base, server).page}?tab=${kind === "entry" ? "settings" : "code"}`;
        const subject: Subject = { kind, name: server };
        return sendComparison(at, context, subject, {
          title: `Two versions of the ${kind} of ${server}`,
          section: "mcp",
          crumbs: [{ label: "Servers", href: `${base}/mcp` }, { label: server, href }, { label: "Comparison" }],
        });
      }
      if (typeof name === "string" && name !== "") {
        checkPermitted(context, "read", name);
        const exists = (await edits.read(tenant, { kind: "definition", name })) !== undefined;
        if (exists || !writable) return response.redirect(303, pathsOf(base, name).edit);
        const template = language === "shell" ? "shell" : "typescript";
        return response.redirect(303, newServerAt(base, { name, template }));
      }
      const [, query] = request.originalUrl.split("?", 2);
      response.redirect(303, `${base}/mcp${query ? `?${query}` : ""}`);
    };
  },
};

/** `GET /servers/:name` from a browser leads to the editor on the server's page: of its source, or of an upstream's entry. */
export const serverPage: PageRoute<Pick<ServersPageOptions, "host">> = {
  path: "/servers/:name",
  permit: reading(named),
  create({ host }) {
    return ({ request, response, tenant, base }) => {
      const name = request.params["name"]!;
      const isUpstream = host.directory(tenant)?.servers.get(name)?.entry.upstream !== undefined;
      // A request that does not ask for a page calls the server.
      response.vary("Accept");
      response.redirect(303, `${pathsOf(base, name).page}?tab=${isUpstream ? "settings" : "code"}`);
    };
  },
};
