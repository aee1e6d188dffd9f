import type { RequestHandler } from "express";
import type { ListedSecret, SecretEdits } from "../../host/secret-edits.ts";
import { placeOf } from "../place.ts";
import type { Pages } from "./pages.ts";
import { pathsOf } from "./parts/origin.ts";
import { authorText, timeView } from "./parts/text.ts";

export interface SecretsPageOptions {
  readonly secrets: SecretEdits;
  readonly pages: Pages;
  /** False on a read-only instance. */
  readonly writable: boolean;
}

/** `GET /secrets`: which there are, which servers are given them, and a form to set one. No value is ever shown. */
export function secretsPage({ secrets, pages, writable }: SecretsPageOptions): RequestHandler {
  return async (request, response) => {
    const { tenant, base } = placeOf(request);
    const listed = await secrets.list(tenant);
    await pages.send(request, response, "secrets", {
      title: "Secrets",
      section: "secrets",
      scripts: ["secrets.js"],
      secrets: listed.map((secret) => viewOf(base, secret)),
      writable,
    });
  };
}

function viewOf(base: string, { name, set, servers }: ListedSecret): object {
  return {
    name,
    set: set && { changedAt: timeView(set.changedAt), by: authorText(set.by) },
    servers: servers.map((server) => ({ name: server, page: pathsOf(base, server).page })),
  };
}
