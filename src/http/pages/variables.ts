import type { Subject } from "../../edits/edits.ts";
import { SCHEMA_KEY } from "../../entry/fields.ts";
import { mcpsReadBounds } from "../../entry/mcps.ts";
import { isCid } from "../../lib/cid.ts";
import type { CurrentDraft } from "../../lib/draft.ts";
import { BerthError } from "../../lib/errors.ts";
import { mapYielding, yieldToCalls } from "../../lib/event-loop.ts";
import { parseObjectYielding } from "../../lib/json-spans.ts";
import { isObject } from "../../lib/json.ts";
import { printableText } from "../../lib/printable.ts";
import { PACKAGES } from "../../packages/package-set.ts";
import { mayChange, reading } from "../access/permit.ts";
import { namesOnPage, nextAddress, readListPage } from "../list-page.ts";
import type { RequestPlace } from "../request-context.ts";
import type { PageRoute } from "../routed.ts";
import { pathsOf } from "./parts/paths.ts";
import { filesOfEntry, nameFile, NAMED_SERVERS_MAX } from "./parts/stored-files.ts";
import { authorText, bytesText, firstLine, shortCid, timeView } from "./parts/text.ts";
import { lastDraft, readStanding, newNonce, sendComparison, viewSubject, type ComparisonOptions } from "./subject.ts";

/** `GET /variables`: every variable. `?name=` leads to the editor of one, existing or not. */
export const variablesPage: PageRoute<ComparisonOptions> = {
  path: "/variables",
  permit: reading(),
  create(options) {
    const { edits, pages } = options;
    return async (context) => {
      const { request, response } = context;
      const writable = options.writable && mayChange(context, "values", "");
      const at = { ...options, ...context.place, writable };
      const { tenant, base } = at;
      const { name } = request.query;
      if (typeof name === "string" && name !== "") return response.redirect(303, `${addressOf(base, name)}?new`);
      const all = await edits.names(tenant, "variable");
      const { names, next } = namesOnPage(all, readListPage(request), () => true);
      const variables = await mapYielding(names, async (each) => {
        const { current, damage } = await readStanding(at, { kind: "variable", name: each });
        const text = current?.files[each] ?? "";
        return {
          name: each,
          about: ABOUT[each] ?? "",
          value: ABOUT[each] === undefined ? firstLine(printableText(text.slice(0, PREVIEW_UNITS))) : "",
          href: addressOf(base, each),
          size: damage ? "damaged" : bytesText(Buffer.byteLength(text)),
          changedAt: timeView(current?.changedAt ?? 0),
          by: authorText(current?.by ?? ""),
        };
      });
      await pages.send(context, "variables", {
        title: "Variables",
        section: "variables",
        variables,
        writable,
        next: nextAddress(`${base}/variables`, request, next),
      });
    };
  },
};

/** The variables that Berth itself reads. */
const ABOUT: Readonly<Record<string, string>> = {
  mcps: "The configuration of all servers",
  [PACKAGES]: "The npm packages that definitions may import",
};
/** The beginning of a value that is searched for its first line. */
const PREVIEW_UNITS = 1_000;

/** `GET /variables/:name`: its editor and its versions; `?from=&to=` compares two of them. */
export const variablePage: PageRoute<ComparisonOptions> = {
  path: "/variables/:name",
  permit: reading(),
  create(options) {
    const { pages } = options;
    return async (context) => {
      const { request } = context;
      const writable = options.writable && mayChange(context, "values", "");
      const at = { ...options, ...context.place, writable };
      const { base } = at;
      const name = request.params["name"]!;
      const subject: Subject = { kind: "variable", name };
      const crumbs = [{ label: "Variables", href: `${base}/variables` }];
      const { from, to } = request.query;
      if (from !== undefined || to !== undefined) {
        return sendComparison(at, context, subject, {
          title: `Two versions of ${name}`,
          section: "variables",
          crumbs: [...crumbs, { label: name, href: addressOf(base, name) }, { label: "Comparison" }],
        });
      }
      const { current, damage } = await readStanding(at, subject);
      const last = current ?? (await lastDraft(at, subject));
      if (!last && (!writable || request.query["new"] === undefined)) {
        throw new BerthError("not_found", `there is no variable "${name}"; create it at ${base}/variables`);
      }
      const { entry, files } = last ?? { entry: name, files: { [name]: "" } };
      const begun = { entry, files, language: languageOf(name), cid: null };
      const named = name === "mcps" && current ? await namedIn(at, current) : NOTHING_NAMED;
      await yieldToCalls();
      const styleNonce = newNonce();
      const place = {
        id: "variable",
        heading: "Value",
        compareAt: { path: addressOf(base, name), fields: [] },
        styleNonce,
      };
      const view = await viewSubject(at, subject, current ?? begun, place, { names: named.names });
      await yieldToCalls();
      await pages.send(context, "variable", {
        title: name,
        section: "variables",
        crumbs: [...crumbs, { label: name }],
        scripts: ["editor.js"],
        styleNonce,
        writable,
        isNew: !last,
        isDeleted: last !== undefined && !current,
        damage,
        isMcps: name === "mcps",
        isPackages: name === PACKAGES,
        current: current ? viewCurrent(current) : undefined,
        links: named.links,
        more: named.more,
        subject: view,
        fragments: view.fragments,
      });
    };
  },
};

function addressOf(base: string, name: string): string {
  return `${base}/variables/${encodeURIComponent(name)}`;
}

function viewCurrent({ cid, changedAt, by }: CurrentDraft): object {
  return { cid, short: shortCid(cid), changedAt: timeView(changedAt), by: authorText(by) };
}

function languageOf(name: string): CurrentDraft["language"] {
  return name === "mcps" || name === PACKAGES || name.endsWith(".json") ? "json" : "text";
}

const NOTHING_NAMED = { links: undefined, more: 0, names: new Map<string, string>() };

/**
 * Links for the first servers in the configuration and their CIDs, the number of further servers, and the names of the
 * files by their CIDs.
 */
async function namedIn(at: ComparisonOptions & RequestPlace, { entry, files }: CurrentDraft) {
  let value: unknown;
  try {
    ({ value } = await parseObjectYielding(files[entry] ?? "", mcpsReadBounds()));
  } catch {
    return NOTHING_NAMED;
  }
  if (!isObject(value)) return NOTHING_NAMED;
  const { [SCHEMA_KEY]: _, ...entries } = value;
  const servers = Object.keys(entries);
  const names = new Map<string, string>();
  const links = await mapYielding(servers.slice(0, NAMED_SERVERS_MAX), async (server) => {
    const raw = isObject(entries[server]) ? entries[server] : {};
    const stored = await filesOfEntry(at, server, raw);
    for (const file of stored) nameFile(names, file);
    return {
      server,
      paths: pathsOf(at.base, server),
      edited: "upstream" in raw || "command" in raw ? "entry" : "definition",
      cids: [...stored, ...configOf(at.base, raw)],
    };
  });
  return { links, more: Math.max(0, servers.length - NAMED_SERVERS_MAX), names };
}

/** The entry itself, where it stands elsewhere by its CID. */
function configOf(base: string, { config_cid: cid }: Readonly<Record<string, unknown>>): object[] {
  if (typeof cid !== "string" || !isCid(cid)) return [];
  return [{ field: "config_cid", file: "its entry", short: shortCid(cid), cid, href: `${base}/cid/${cid}` }];
}
