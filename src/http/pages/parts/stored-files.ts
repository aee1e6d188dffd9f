import { cidFields, entryFields } from "../../../entry/entry-fields.ts";
import { entryReadBounds, mcpsReadBounds } from "../../../entry/mcps.ts";
import { mainFileOf } from "../../../host/directory/stored-structure.ts";
import type { Host } from "../../../host/host.ts";
import { isCid, type Cid } from "../../../lib/cid.ts";
import { parseObjectYielding } from "../../../lib/json-spans.ts";
import { isObject } from "../../../lib/json.ts";
import { shortCid } from "./text.ts";

/** A file that an entry of `mcps` names by its CID, with the name by which people know it. */
export interface StoredFile {
  readonly field: string;
  readonly file: string;
  readonly cid: Cid;
  readonly short: string;
  readonly href: string;
}

interface FilesPlace {
  readonly host: Pick<Host, "content">;
  readonly tenant: string;
  readonly base: string;
}

type RawEntry = Readonly<Record<string, unknown>>;

/** The files of one entry, in the order of its fields. */
export async function filesOfEntry(place: FilesPlace, server: string, raw: RawEntry): Promise<StoredFile[]> {
  const files: StoredFile[] = [];
  for (const field of cidFields) {
    const cid = raw[field];
    if (typeof cid !== "string" || !isCid(cid)) continue;
    const file =
      field === "definition" ? await mainFileOf(place.host, place.tenant, server, cid) : entryFields[field].cid.file;
    files.push({ field, file, cid, short: shortCid(cid), href: `${place.base}/cid/${cid}` });
  }
  return files;
}

/** No longer list of names is made, where many servers have the same definition. */
const NAMES_UNITS_MAX = 100;

/** Notes the name of a file. Servers with the same definition have a CID in common, and each its own name for it. */
export function nameFile(names: Map<string, string>, { cid, file }: StoredFile): void {
  const known = names.get(cid);
  if (known === undefined) names.set(cid, file);
  else if (known.length < NAMES_UNITS_MAX && !known.split(", ").includes(file)) names.set(cid, `${known}, ${file}`);
}

/** The most servers of `mcps` whose files are named on one page. */
export const NAMED_SERVERS_MAX = 200;

/**
 * The names of the files behind the CIDs in texts of `mcps`, or of the entry of `server`, by CID: of the first servers, and
 * of those first in which the texts differ. A text that cannot be read has none.
 */
export async function fileNamesIn(
  place: FilesPlace,
  texts: readonly string[],
  server?: string,
): Promise<Map<string, string>> {
  const all: ReadonlyMap<string, RawEntry>[] = [];
  for (const text of texts) {
    const read = await parseObjectYielding(text, server === undefined ? mcpsReadBounds() : entryReadBounds()).catch(
      () => undefined,
    );
    const value = isObject(read?.value) ? read.value : {};
    const entries = server === undefined ? Object.entries(value) : [[server, value] as const];
    all.push(new Map(entries.flatMap(([name, raw]) => (isObject(raw) ? [[name, raw] as const] : []))));
  }
  const wanted = all.flatMap((entries) => [...entries].filter(([name, raw]) => isTold(all, name, raw)));
  const names = new Map<string, string>();
  for (const [name, raw] of wanted.slice(0, NAMED_SERVERS_MAX)) {
    for (const file of await filesOfEntry(place, name, raw)) nameFile(names, file);
  }
  return names;
}

/** True for an entry of a single text, and for one whose CIDs differ between texts. */
function isTold(texts: readonly ReadonlyMap<string, RawEntry>[], name: string, raw: RawEntry): boolean {
  return (
    texts.length === 1 || texts.some((other) => cidFields.some((field) => other.get(name)?.[field] !== raw[field]))
  );
}
