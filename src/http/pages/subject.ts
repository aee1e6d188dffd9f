import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { structuredPatch, type StructuredPatchHunk } from "diff";
import { packageRoot } from "../../config.ts";
import type { Edits, Subject, Version } from "../../edits/edits.ts";
import type { Host } from "../../host/host.ts";
import { isCid } from "../../lib/cid.ts";
import type { CurrentDraft, Draft } from "../../lib/draft.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import { boundsOfDiffs } from "../api/text-diff.ts";
import type { RequestPlace } from "../request-context.ts";
import type { RoutedContext } from "../routed.ts";
import type { Fragment } from "./fragment.ts";
import type { Page, Pages } from "./pages.ts";
import { fileNamesIn } from "./parts/stored-files.ts";
import { authorText, shortCid, timeView } from "./parts/text.ts";

/** The parts that editing pages are made with. */
export interface EditPageOptions {
  readonly edits: Edits;
  readonly pages: Pages;
  /** False on a read-only instance. */
  readonly writable: boolean;
}

/** The same for one request. */
type EditPagePlace = EditPageOptions & RequestPlace;

/** Where a page shows a subject. */
export interface SubjectPlace {
  readonly id: string;
  readonly heading: string;
  /** The address of comparisons, with its other query fields. */
  readonly compareAt: { readonly path: string; readonly fields: readonly { name: string; value: string }[] };
  readonly styleNonce: string;
}

/** The place of a server's definition, or of its entry; versions of both are compared at `/servers`. */
export function placeOfServer(base: string, { kind, name }: Subject, styleNonce: string): SubjectPlace {
  const heading = kind === "definition" ? "Definition" : "Entry in mcps";
  const fields = Object.entries({ server: name, of: kind }).map(([name, value]) => ({ name, value }));
  return { id: kind, heading, compareAt: { path: `${base}/servers`, fields }, styleNonce };
}

/** For a page whose editors make styles. */
export function newNonce(): string {
  return randomBytes(16).toString("base64url");
}

const ROWS_MAX = 30;
/** The newest versions; the JSON API has all. */
const VERSIONS_MAX = 100;

/** The things that an editor is given beside the text. */
interface BesideText {
  /** For the form that an entry has (src/browser/settings/settings-form.tsx). */
  readonly settings?: object;
  /** The names of the files behind CIDs in the text. */
  readonly names?: ReadonlyMap<string, string>;
}

/**
 * One variable, definition or entry as `views/partials/subject.hbs` shows it: the texts, readable without scripts; the
 * setup from which the script builds an editor (src/browser/editor.ts); the versions, to compare and to restore. `current`
 * is the current version, or the draft that a new one begins with.
 */
export async function viewSubject(
  { edits, pages, tenant, base, writable }: EditPagePlace,
  subject: Subject,
  current: CurrentDraft | (Draft & { language: CurrentDraft["language"]; cid: null }),
  place: SubjectPlace,
  { settings, names }: BesideText = {},
) {
  const history = await viewHistory({ edits, tenant, writable }, subject, place);
  const { entry, files, language, cid } = current;
  const api = `${base}/api/${FOLDERS[subject.kind]}/${encodeURIComponent(subject.name)}`;
  // All other files are in the page itself, readable without scripts.
  const apart = Object.entries(files).filter(([, text]) => text.includes("\0"));
  const fits = apart.reduce((sum, [, text]) => sum + text.length, 0) <= APART_UNITS_MAX;
  const setup = {
    ...subject,
    cid,
    entry,
    files: Object.fromEntries(fits ? apart : []),
    language,
    api,
    // HTML would alter texts that do not fit, so they must not be saved.
    readOnly: !writable || !fits,
    styleNonce: place.styleNonce,
    schema: schemaFor(subject),
    settings,
    ...(names && { names: [...names] }),
  };
  const texts: { path: string; text: Fragment; rows: number }[] = [];
  // The main file first.
  for (const [path, text] of Object.entries({ [entry]: files[entry] ?? "", ...files })) {
    await yieldToCalls();
    texts.push({ path, text: await pages.text(text), rows: text.split("\n", ROWS_MAX).length });
  }
  return {
    ...history,
    api,
    texts,
    fragments: texts.map(({ text }) => text),
    setup: JSON.stringify(setup).replaceAll("<", "\\u003c"),
    exists: cid !== null,
  };
}

/** The versions of a subject as `views/partials/history.hbs` shows them. */
export async function viewHistory(
  { edits, tenant, writable }: Pick<EditPagePlace, "edits" | "tenant" | "writable">,
  subject: Subject,
  place: Omit<SubjectPlace, "styleNonce">,
) {
  const versions = (await edits.history(tenant, subject)).slice(0, VERSIONS_MAX);
  return {
    ...place,
    writable,
    versions: versions.map((version, index) => viewVersion(version, index, versions, place)),
    told: versions.length > 1,
    comparable: versions.filter((version) => version.cid !== null).length > 1,
  };
}

/** For texts that HTML cannot hold: in JSON they are six times as long. */
const APART_UNITS_MAX = 512 * 1024;

const FOLDERS = { variable: "variables", definition: "definitions", entry: "entries" } as const;

function viewVersion(
  { cid, changedAt, by }: Version,
  index: number,
  versions: readonly Version[],
  { compareAt }: Pick<SubjectPlace, "compareAt">,
) {
  const before = versions.slice(index + 1).find((version) => version.cid !== null)?.cid;
  const query = new URLSearchParams(compareAt.fields.map(({ name, value }): [string, string] => [name, value]));
  query.set("from", before ?? "");
  query.set("to", cid ?? "");
  return {
    cid,
    short: cid === null ? "" : shortCid(cid),
    changedAt: timeView(changedAt),
    by: authorText(by),
    current: index === 0 && cid !== null,
    from: index === 1,
    to: index === 0,
    changesAt: before == null || cid === null ? "" : `${compareAt.path}?${query.toString()}`,
  };
}

/** The current version, and its damage, if any. A version that went bad on disk has no text, but can be saved again. */
export async function readStanding(
  { edits, tenant }: EditPagePlace,
  subject: Subject,
): Promise<{ current: CurrentDraft | undefined; damage?: string }> {
  try {
    return { current: await edits.read(tenant, subject) };
  } catch (error) {
    if (!(error instanceof BerthError && DAMAGED.has(error.code))) throw error;
    const last = (await edits.history(tenant, subject))[0];
    if (last?.cid == null) throw error;
    const isSource = subject.kind === "definition";
    const entry = isSource ? `${subject.name}.ts` : subject.name;
    const language = isSource ? "typescript" : "text";
    const { cid, changedAt, by } = last;
    return { current: { cid, changedAt, by, language, entry, files: { [entry]: "" } }, damage: error.message };
  }
}

const DAMAGED: ReadonlySet<string> = new Set(["content_corrupt", "content_missing"]);

/** The last version of a subject that was not deleted; undefined when there never was one. */
export async function lastDraft({ edits, tenant }: EditPagePlace, subject: Subject): Promise<Draft | undefined> {
  const last = (await edits.history(tenant, subject)).find(({ cid }) => cid !== null)?.cid;
  return last == null ? undefined : edits.version(tenant, subject, last);
}

export interface ComparisonOptions extends EditPageOptions {
  readonly host: Pick<Host, "content">;
}

/** Sends the page that compares the versions `?from=&to=` of a subject. */
export async function sendComparison(
  at: ComparisonOptions & RequestPlace,
  context: RoutedContext,
  subject: Subject,
  page: Page,
): Promise<void> {
  const { from, to } = context.request.query;
  const styleNonce = newNonce();
  const comparison = await viewComparison(at, subject, { from, to }, styleNonce);
  await at.pages.send(context, "comparison", { ...page, scripts: ["editor.js"], styleNonce, comparison });
}

/** Two versions of a subject, side by side. Rejects with `not_found` for a version that it never had. */
export async function viewComparison(
  { edits, tenant, base, host }: ComparisonOptions & RequestPlace,
  subject: Subject,
  query: { readonly from: unknown; readonly to: unknown },
  styleNonce: string,
) {
  const draftOf = async (cid: unknown): Promise<Draft> => {
    const draft = typeof cid === "string" && isCid(cid) ? await edits.version(tenant, subject, cid) : undefined;
    if (!draft) throw new BerthError("not_found", `${subject.kind} ${subject.name} has no version ${String(cid)}`);
    return draft;
  };
  const [before, after] = [await draftOf(query.from), await draftOf(query.to)];
  const [from, to] = [String(query.from), String(query.to)];
  const names = await namesIn({ host, tenant, base }, subject, [before, after]);
  const history = await edits.history(tenant, subject);
  const versionOf = (cid: string) => {
    const version = history.find((each) => each.cid === cid);
    return version && { changedAt: timeView(version.changedAt), by: authorText(version.by) };
  };
  const files = compareDrafts(before, after, names);
  return {
    from,
    to,
    fromShort: shortCid(from),
    toShort: shortCid(to),
    fromVersion: versionOf(from),
    toVersion: versionOf(to),
    files,
    same: files.length === 0,
    setup: JSON.stringify({
      styleNonce,
      language: subject.kind === "definition" ? "typescript" : "json",
      names: [...names],
      files: files.map(({ path, tooLong }) =>
        tooLong ? null : { path, before: before.files[path] ?? "", after: after.files[path] ?? "" },
      ),
    }).replaceAll("<", "\\u003c"),
  };
}

/** The names of files behind the CIDs in drafts of `mcps`, or of an entry of it; other texts have none. */
async function namesIn(
  place: Parameters<typeof fileNamesIn>[0],
  { kind, name }: Subject,
  drafts: readonly Draft[],
): Promise<ReadonlyMap<string, string>> {
  if (kind === "definition" || (kind === "variable" && name !== "mcps")) return new Map();
  const texts = drafts.map(({ entry, files }) => files[entry] ?? "");
  return fileNamesIn(place, texts, kind === "entry" ? name : undefined);
}

const SCHEMA = join(packageRoot, "reference_templates/mcps.schema.json");
let mcpsSchema: { readonly $defs: object } | undefined;

/** The schema that the editor completes from: of `mcps` as a whole, or of one entry of it. */
function schemaFor({ kind, name }: Subject): object | undefined {
  if (kind === "definition" || (kind === "variable" && name !== "mcps")) return undefined;
  mcpsSchema ??= JSON.parse(readFileSync(SCHEMA, "utf8")) as { $defs: object };
  return kind === "variable" ? mcpsSchema : { $defs: mcpsSchema.$defs, $ref: "#/$defs/entry" };
}

const CHANGES: Readonly<Record<string, "added" | "removed">> = { "+": "added", "-": "removed" };

/** The files that differ, by path, each with its changed lines and some context. */
export function compareDrafts(from: Draft, to: Draft, names: ReadonlyMap<string, string> = new Map()) {
  const boundsOf = boundsOfDiffs();
  const paths = [...new Set([...Object.keys(from.files), ...Object.keys(to.files)])].sort();
  return paths
    .filter((path) => from.files[path] !== to.files[path])
    .map((path) => {
      const [before, after] = [from.files[path] ?? "", to.files[path] ?? ""];
      const bounds = boundsOf(before, after);
      const patch = bounds && structuredPatch(path, path, before, after, undefined, undefined, bounds);
      const tooLong = bounds === undefined;
      return {
        path,
        // Empty for a file that is too long, or too different to compare line by line.
        hunks: hunksOf(patch?.hunks ?? [], names),
        tooDifferent: !tooLong && patch === undefined,
        tooLong,
      };
    });
}

function hunksOf(hunks: readonly StructuredPatchHunk[], names: ReadonlyMap<string, string>) {
  return hunks.map(({ oldStart, oldLines, newStart, newLines, lines }) => ({
    heading: `@@ -${oldStart},${oldLines} +${newStart},${newLines} @@`,
    lines: lines.map((line) => {
      const cid = /"(b[a-z2-7]{58})"/.exec(line)?.[1] ?? "";
      const name = names.get(cid) ?? "";
      const text = line.slice(1);
      const change = CHANGES[line[0] ?? ""] ?? "same";
      return { change, sign: line[0] ?? " ", text: name ? text.replace(cid, shortCid(cid)) : text, name };
    }),
  }));
}
