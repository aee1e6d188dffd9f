import { randomBytes } from "node:crypto";
import type { Subject } from "../../edits/edits.ts";
import type { ServerSummary } from "../../host/catalog/overview.ts";
import type { Host } from "../../host/host.ts";
import { cutText } from "../../lib/cut-text.ts";
import type { Current, Draft } from "../../lib/draft.ts";
import { BerthError } from "../../lib/errors.ts";
import { checkPermitted, mayChange, named, reading } from "../access/permit.ts";
import type { OriginOf } from "../public-origin.ts";
import type { RequestPlace } from "../request-context.ts";
import type { RoutedContext, PageRoute } from "../routed.ts";
import { NEW_SERVER, newServerAt, pathsOf } from "./parts/paths.ts";
import { problemView } from "./parts/problem-view.ts";
import { SERVER_STATES } from "./parts/server-state.ts";
import { shortCid } from "./parts/text.ts";
import { DESCRIPTION_MAX } from "./parts/tool-view.ts";
import { ungrantedView } from "./parts/ungranted.ts";
import {
  lastDraft,
  readStanding,
  viewComparison,
  viewSubject,
  type EditPageOptions,
  type SubjectPlace,
} from "./subject.ts";

interface ServerPageOptions extends EditPageOptions {
  readonly host: Host;
  readonly originOf: OriginOf;
}

type ServerPagePlace = ServerPageOptions & RequestPlace;

/**
 * `GET /servers`: leads to the list of servers. `?name=` leads to one; with `&new=typescript` or `&new=shell` to the page
 * that begins it; `?server=&of=definition|entry&from=&to=` compares two versions. All of that is here because
 * `/servers/<name>` with a query is a call.
 */
export const serversPage: PageRoute<ServerPageOptions> = {
  path: "/servers",
  create(options) {
    const { edits, writable } = options;
    return async (context) => {
      const { request, response } = context;
      const at = { ...options, ...context.place };
      const { tenant, base } = at;
      const { name, new: language, server } = request.query;
      if (typeof server === "string") checkPermitted(context, "read", server);
      if (typeof server === "string") return sendComparison(at, context, server);
      if (typeof name === "string" && name !== "") {
        checkPermitted(context, "read", name);
        const exists = (await edits.read(tenant, { kind: "definition", name })) !== undefined;
        // The address of a server of that name is the page that makes servers.
        if (exists && name === NEW_SERVER) return sendServer(at, context, name);
        if (exists || !writable) return response.redirect(303, pathsOf(base, name).edit);
        const template = language === "shell" ? "shell" : "typescript";
        return response.redirect(303, newServerAt(base, { name, template }));
      }
      const [, query] = request.originalUrl.split("?", 2);
      response.redirect(303, `${base}/mcp${query ? `?${query}` : ""}`);
    };
  },
};

/**
 * `GET /servers/:name` from a browser: the editors of its definition and of its entry in `mcps`, and their versions.
 */
export const serverPage: PageRoute<ServerPageOptions> = {
  path: "/servers/:name",
  permit: reading(named),
  create(options) {
    return (context) => {
      // A request that does not ask for a page calls the server.
      context.response.vary("Accept");
      return sendServer({ ...options, ...context.place }, context, context.request.params["name"]!);
    };
  },
};

async function sendServer(options: ServerPagePlace, context: RoutedContext, name: string): Promise<void> {
  const { edits, host, tenant, base, pages, writable } = options;
  const [{ current: definition, damage }, entry, summary] = await Promise.all([
    readStanding(options, { kind: "definition", name }),
    edits.read(tenant, { kind: "entry", name }),
    host.summary(tenant, name),
  ]);
  const last =
    definition || (entry && isUpstream(entry)) ? undefined : await lastDraft(options, { kind: "definition", name });
  if (!definition && !entry && !summary && !last) {
    throw new BerthError("not_found", `there is no server "${name}"; create it at ${newServerAt(base, { name })}`);
  }
  const styleNonce = randomBytes(16).toString("base64url");
  const place = (of: "definition" | "entry", heading: string): SubjectPlace => ({
    id: of,
    heading,
    compareAt: {
      path: `${base}/servers`,
      fields: [
        { name: "server", value: name },
        { name: "of", value: of },
      ],
    },
    styleNonce,
  });
  const begun = definition ?? (last && deleted(last));
  const views = {
    definition:
      begun && (await viewSubject(options, { kind: "definition", name }, begun, place("definition", "Definition"))),
    // A new server gets its definition first.
    entry:
      !definition && !entry
        ? undefined
        : await viewSubject(options, { kind: "entry", name }, entry ?? noEntry(name), place("entry", "Entry in mcps")),
  };
  await pages.send(context, "server", {
    title: name,
    section: "mcp",
    crumbs: [{ label: "Servers", href: `${base}/mcp` }, { label: name }],
    scripts: ["editor.js"],
    styleNonce,
    isDeleted: last !== undefined,
    damage,
    canBegin: writable && !begun && entry !== undefined && !isUpstream(entry),
    writable,
    server: summary ? viewSummary(summary, { base, origin: options.originOf(context.request) }) : undefined,
    ungranted: ungrantedView(
      summary?.catalog?.ungranted,
      host.directory(tenant)?.servers.get(name)?.entry.raw ?? {},
      writable && mayChange(context, "secrets", name) && mayChange(context, "network", name),
    ),
    ...views,
    fragments: [...(views.definition?.fragments ?? []), ...(views.entry?.fragments ?? [])],
    hasEntry: entry !== undefined,
  });
}

async function sendComparison(options: ServerPagePlace, context: RoutedContext, name: string): Promise<void> {
  const { base } = options;
  const { of, from, to } = context.request.query;
  const subject: Subject = { kind: of === "entry" ? "entry" : "definition", name };
  const styleNonce = randomBytes(16).toString("base64url");
  const comparison = await viewComparison(options, subject, { from, to }, styleNonce);
  await options.pages.send(context, "comparison", {
    title: `Two versions of ${of === "entry" ? "the entry" : "the definition"} of ${name}`,
    section: "mcp",
    crumbs: [
      { label: "Servers", href: `${base}/mcp` },
      { label: name, href: pathsOf(base, name).edit },
      { label: "Comparison" },
    ],
    scripts: ["editor.js"],
    styleNonce,
    comparison,
  });
}

function viewSummary(
  { name, state, description = "", catalog, problems }: ServerSummary,
  { base, origin }: { base: string; origin: string },
): object {
  const { endpoint, page, edit } = pathsOf(base, name);
  return {
    name,
    state: SERVER_STATES[state],
    description: cutText(description, DESCRIPTION_MAX),
    release: catalog?.release ?? "",
    releaseShort: catalog ? shortCid(catalog.release) : "",
    problems: problems.map(problemView),
    edit,
    page,
    endpoint: origin + endpoint,
    callAt: origin + edit,
  };
}

function deleted(last: Draft): Draft & { language: Current["language"]; cid: null } {
  return { ...last, language: last.entry.endsWith(".sh") ? "shell" : "typescript", cid: null };
}

/** The draft of an entry that `mcps` does not have: such a server is discovered by itself. */
function noEntry(name: string): Draft & { language: Current["language"]; cid: null } {
  return { entry: name, files: { [name]: "{\n}\n" }, language: "json", cid: null };
}

/** True for an upstream: there is no source to edit. */
function isUpstream({ entry, files }: Current): boolean {
  try {
    return "upstream" in JSON.parse(files[entry] ?? "");
  } catch {
    return false;
  }
}
