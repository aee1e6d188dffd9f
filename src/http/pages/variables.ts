import { randomBytes } from "node:crypto";
import type { Subject } from "../../edits/edits.ts";
import { cidFields, SCHEMA_KEY } from "../../entry/fields.ts";
import { mcpsBounds, type McpsLimits } from "../../entry/mcps.ts";
import { isCid } from "../../lib/cid.ts";
import type { Current } from "../../lib/draft.ts";
import { BerthError } from "../../lib/errors.ts";
import { mapInTurns, nextTurn } from "../../lib/event-loop.ts";
import { parseInTurns } from "../../lib/json-spans.ts";
import { isObject } from "../../lib/json.ts";
import { PACKAGES } from "../../packages/package-set.ts";
import { reading } from "../access/permit.ts";
import { namesOnPage, nextAddress, readListPage, type ListPageLimits } from "../list-page.ts";
import type { PageRoute } from "../routed.ts";
import { pathsOf } from "./parts/paths.ts";
import { authorText, bytesText, shortCid, timeView } from "./parts/text.ts";
import { lastDraft, readStanding, viewComparison, viewSubject, type EditPageOptions } from "./subject.ts";

export interface VariablePageOptions extends EditPageOptions {
  readonly limits: ListPageLimits & McpsLimits;
}

/** `GET /variables`: every variable. `?name=` leads to the editor of one, existing or not. */
export const variablesPage: PageRoute<VariablePageOptions> = {
  path: "/variables",
  permit: reading(),
  create(options) {
    const { edits, writable, pages, limits } = options;
    return async (context) => {
      const { request, response } = context;
      const at = { ...options, ...context.place };
      const { tenant, base } = at;
      const { name } = request.query;
      if (typeof name === "string" && name !== "") return response.redirect(303, `${addressOf(base, name)}?new`);
      const all = await edits.names(tenant, "variable");
      const { names, next } = namesOnPage(all, readListPage(request, limits), () => true);
      const variables = await mapInTurns(names, async (each) => {
        const { current, damage } = await readStanding(at, { kind: "variable", name: each });
        return {
          name: each,
          href: addressOf(base, each),
          size: damage ? "damaged" : bytesText(Buffer.byteLength(current?.files[each] ?? "")),
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

/** `GET /variables/:name`: its editor and its versions; `?from=&to=` compares two of them. */
export const variablePage: PageRoute<VariablePageOptions> = {
  path: "/variables/:name",
  permit: reading(),
  create(options) {
    const { pages, writable, limits } = options;
    return async (context) => {
      const { request } = context;
      const at = { ...options, ...context.place };
      const { base } = at;
      const name = request.params["name"]!;
      const subject: Subject = { kind: "variable", name };
      const styleNonce = randomBytes(16).toString("base64url");
      const crumbs = [{ label: "Variables", href: `${base}/variables` }];
      const { from, to } = request.query;
      if (from !== undefined || to !== undefined) {
        const comparison = await viewComparison(at, subject, { from, to }, styleNonce);
        await pages.send(context, "comparison", {
          title: `Two versions of ${name}`,
          section: "variables",
          crumbs: [...crumbs, { label: name, href: addressOf(base, name) }, { label: "Comparison" }],
          scripts: ["editor.js"],
          styleNonce,
          comparison,
        });
        return;
      }
      const { current, damage } = await readStanding(at, subject);
      const last = current ?? (await lastDraft(at, subject));
      if (!last && (!writable || request.query["new"] === undefined)) {
        throw new BerthError("not_found", `there is no variable "${name}"; create it at ${base}/variables`);
      }
      const { entry, files } = last ?? { entry: name, files: { [name]: "" } };
      const begun = { entry, files, language: languageOf(name), cid: null };
      const view = await viewSubject(at, subject, current ?? begun, {
        id: "variable",
        heading: "Value",
        compareAt: { path: addressOf(base, name), fields: [] },
        styleNonce,
      });
      await nextTurn();
      const links = name === "mcps" && current ? await linksOf(base, current, limits) : {};
      await nextTurn();
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
        ...links,
        subject: view,
        fragments: view.fragments,
      });
    };
  },
};

function addressOf(base: string, name: string): string {
  return `${base}/variables/${encodeURIComponent(name)}`;
}

function viewCurrent({ cid, changedAt, by }: Current): object {
  return { cid, short: shortCid(cid), changedAt: timeView(changedAt), by: authorText(by) };
}

function languageOf(name: string): Current["language"] {
  return name === "mcps" || name === PACKAGES || name.endsWith(".json") ? "json" : "text";
}

/** Links for the names and CIDs in the configuration. */
async function linksOf(
  base: string,
  { entry, files }: Current,
  limits: McpsLimits,
): Promise<{ readonly links?: readonly object[]; readonly more?: number }> {
  let value: unknown;
  try {
    ({ value } = await parseInTurns(files[entry] ?? "", mcpsBounds(limits)));
  } catch {
    return {};
  }
  if (!isObject(value)) return {};
  const { [SCHEMA_KEY]: _, ...entries } = value;
  const servers = Object.keys(entries);
  const links = servers.slice(0, LINKED_MAX).map((server) => {
    const raw = isObject(entries[server]) ? entries[server] : {};
    return {
      server,
      paths: pathsOf(base, server),
      edited: "upstream" in raw ? "entry" : "definition",
      cids: cidsIn(raw).map(([field, cid]) => ({ field, cid, short: shortCid(cid), href: `${base}/cid/${cid}` })),
    };
  });
  return { links, more: Math.max(0, servers.length - LINKED_MAX) };
}

/** The most servers whose links the page of `mcps` shows; the list of servers has all. */
const LINKED_MAX = 200;

function cidsIn(raw: Record<string, unknown>): readonly (readonly [field: string, cid: string])[] {
  return [...cidFields, "config_cid"].flatMap((field) => {
    const cid = raw[field];
    return typeof cid === "string" && isCid(cid) ? [[field, cid] as const] : [];
  });
}
