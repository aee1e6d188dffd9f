import { randomBytes } from "node:crypto";
import type { Subject } from "../../edits/edits.ts";
import type { ServerSummary } from "../../host/catalog/overview.ts";
import type { Host } from "../../host/host.ts";
import { cutText } from "../../lib/cut-text.ts";
import type { Current, Draft } from "../../lib/draft.ts";
import { BerthError } from "../../lib/errors.ts";
import { mapInTurns } from "../../lib/event-loop.ts";
import { listedProblems } from "../../lib/problem.ts";
import { checkPermitted, mayKnow, named, reading } from "../access/permit.ts";
import { namesOnPage, nextAddress, readListPage, type ListPageLimits } from "../list-page.ts";
import type { OriginOf } from "../public-origin.ts";
import type { RequestPlace } from "../request-context.ts";
import type { RoutedContext, PageRoute } from "../routed.ts";
import { pathsOf } from "./parts/paths.ts";
import { problemView } from "./parts/problem-view.ts";
import { SERVER_STATES } from "./parts/server-state.ts";
import { countOf, shortCid } from "./parts/text.ts";
import { DESCRIPTION_MAX } from "./parts/tool-view.ts";
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
  readonly limits: ListPageLimits;
}

type ServerPagePlace = ServerPageOptions & RequestPlace;

/**
 * `GET /servers`: every internal server. `?name=` leads to one; with `&new=typescript` or `&new=shell` its editor
 * begins with a starter; `?server=&of=definition|entry&from=&to=` compares two versions. All of that is here because
 * `/servers/<name>` with a query is a call.
 */
export const serversPage: PageRoute<ServerPageOptions> = {
  path: "/servers",
  create(options) {
    const { edits, host, pages, writable, originOf, limits } = options;
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
        if (exists || !writable) return response.redirect(303, pathsOf(base, name).edit);
        return sendServer(at, context, name, language === "shell" ? "shell" : "typescript");
      }
      const { principal } = context;
      const isShown = (each: string): boolean => mayKnow(principal, each);
      const { names, next } = namesOnPage(host.names(tenant), readListPage(request, limits), isShown);
      const place = { base, origin: originOf(request) };
      const servers = await mapInTurns(names, async (each) => {
        const summary = await host.summary(tenant, each);
        if (!summary || summary.isBuiltIn) return [];
        const upstream = host.upstream(tenant, each);
        const label = languageLabel(upstream ? undefined : await edits.language(tenant, each));
        const language = upstream ? `Upstream (${upstream.launcher})` : label;
        const listed = {
          ...summary,
          description: cutText(summary.description ?? "", LISTED_DESCRIPTION_MAX),
          problems: listedProblems(summary.problems),
        };
        return [{ server: viewSummary(listed, place), language }];
      });
      await pages.send(context, "servers", {
        title: "Definitions",
        section: "servers",
        servers: servers.flat(),
        writable,
        next: nextAddress(`${base}/servers`, request, next),
      });
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

async function sendServer(
  options: ServerPagePlace,
  context: RoutedContext,
  name: string,
  starter?: StarterLanguage,
): Promise<void> {
  const { edits, host, tenant, base, pages, writable } = options;
  const [{ current: definition, damage }, entry, summary] = await Promise.all([
    readStanding(options, { kind: "definition", name }),
    edits.read(tenant, { kind: "entry", name }),
    host.summary(tenant, name),
  ]);
  const last =
    definition || starter || (entry && isUpstream(entry))
      ? undefined
      : await lastDraft(options, { kind: "definition", name });
  if (!definition && !entry && !summary && !starter && !last) {
    throw new BerthError("not_found", `there is no server "${name}"; create it at ${base}/servers`);
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
  const begun = definition ?? (starter && starterOf(name, starter)) ?? (last && deleted(last));
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
    section: "servers",
    crumbs: [{ label: "Definitions", href: `${base}/servers` }, { label: name }],
    scripts: ["editor.js"],
    styleNonce,
    isNew: !definition && !entry && !last && !summary?.isBuiltIn,
    isDeleted: last !== undefined,
    damage,
    canBegin: writable && !begun && entry !== undefined && !isUpstream(entry),
    writable,
    server: summary ? viewSummary(summary, { base, origin: options.originOf(context.request) }) : undefined,
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
    section: "servers",
    crumbs: [
      { label: "Definitions", href: `${base}/servers` },
      { label: name, href: pathsOf(base, name).edit },
      { label: "Comparison" },
    ],
    scripts: ["editor.js"],
    styleNonce,
    comparison,
  });
}

/** In a list of up to a thousand servers; the page of each has more. */
const LISTED_DESCRIPTION_MAX = 500;

function viewSummary(
  { name, state, description = "", catalog, problems }: ServerSummary,
  { base, origin }: { base: string; origin: string },
): object {
  const { endpoint, page, edit } = pathsOf(base, name);
  return {
    name,
    state: SERVER_STATES[state],
    description: cutText(description, DESCRIPTION_MAX),
    tools: catalog ? countOf(catalog.contract.tools.length, "tool") : "",
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

function languageLabel(language: Current["language"] | "damaged" | undefined): string {
  if (language === undefined) return "No definition here";
  if (language === "damaged") return "Its definition cannot be read";
  return language === "shell" ? "Shell" : "TypeScript";
}

type StarterLanguage = "typescript" | "shell";

/** The definition that a new server begins with: it works as it is, and shows what makes a tool. */
function starterOf(server: string, language: StarterLanguage): Draft & { language: Current["language"]; cid: null } {
  const entry = `${server}.${language === "shell" ? "sh" : "ts"}`;
  const text = language === "shell" ? SHELL : typescript(identifierOf(server));
  return { entry, files: { [entry]: text }, language, cid: null };
}

const typescript = (name: string): string => `/**
 * Greets somebody. Every exported function is a tool; a model reads this comment.
 *
 * @param who - Whom to greet.
 * @param times - How often.
 * @readOnly
 */
export function ${name}(who: string, times = 1): string {
  return Array.from({ length: times }, () => \`Hello, \${who}!\`).join(" ");
}
`;

const SHELL = `#!/bin/sh
# Greets somebody. The script is one tool; a model reads this comment.
#
# @param {string} who - Whom to greet.
# @readOnly

set -eu
printf 'Hello, %s!\\n' "$who"
`;

/** The function name for a server's name: `word-count` gives `wordCount`. */
function identifierOf(server: string): string {
  const words = server.split(/[^A-Za-z0-9]+/).filter(Boolean);
  const name = words.map((word, index) => (index === 0 ? word : word[0]!.toUpperCase() + word.slice(1))).join("");
  return /^[A-Za-z]/.test(name) && !RESERVED.has(name) ? name : "greet";
}

// Words that cannot name a function in a module.
const RESERVED = new Set(
  (
    "arguments await break case catch class const continue debugger default delete do else enum eval export extends " +
    "false finally for function if implements import in instanceof interface let new null package private protected " +
    "public return static super switch this throw true try typeof var void while with yield"
  ).split(" "),
);
