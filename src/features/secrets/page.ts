import { mayChange, reading } from "../../http/access/permit.ts";
import type { PageKit } from "../../http/feature-routes.ts";
import { namesOnPage, nextAddress, readListPage } from "../../http/list-page.ts";
import { inGroups } from "../../http/pages/pages.ts";
import { pathsOf } from "../../http/pages/parts/paths.ts";
import { authorText, countOf, timeView } from "../../http/pages/parts/text.ts";
import type { PageRoute } from "../../http/routed.ts";
import type { ListedSecret, SecretEdits } from "./edits.ts";

/** `GET /secrets`: the secrets, the servers that get them, and a form to set one. No value is ever shown. */
export function secretsPage(secrets: SecretEdits): PageRoute<PageKit> {
  return {
    path: "/secrets",
    permit: reading(),
    create({ pages, ...options }) {
      return async (context) => {
        const { request, tenant, base } = context;
        const writable = options.writable && mayChange(context, "secretValues", "");
        const listed = new Map((await secrets.list(tenant)).map((secret) => [secret.name, secret]));
        const { names, next } = namesOnPage([...listed.keys()], readListPage(request), () => true);
        const shown = (name: string): object => ({ writable, ...viewOf(base, listed.get(name)!) });
        await pages.send(context, "secrets", {
          title: "Secrets",
          section: "secrets",
          scripts: ["secrets.js"],
          secrets: names.length > 0 ? await pages.fragment("secrets", inGroups(names, shown)) : undefined,
          writable,
          next: nextAddress(`${base}/secrets`, request, next),
        });
      };
    },
  };
}

function viewOf(base: string, { name, set, servers, moreServers }: ListedSecret): object {
  return {
    name,
    set: set && { changedAt: timeView(set.changedAt), by: authorText(set.by) },
    servers: servers.map((server) => ({ name: server, page: pathsOf(base, server).page })),
    more: moreServers > 0 ? `and ${countOf(moreServers, "more server")}` : undefined,
  };
}
