import type { Subject } from "../../../edits/edits.ts";
import { packagesOfRelease } from "../../../host/directory/package-users.ts";
import { storedStructure } from "../../../host/directory/stored-structure.ts";
import type { Host } from "../../../host/host.ts";
import type { Cid } from "../../../lib/cid.ts";
import type { CurrentDraft, Draft } from "../../../lib/draft.ts";
import { isObject } from "../../../lib/json.ts";
import { mayChange } from "../../access/permit.ts";
import type { Page } from "../pages.ts";
import { lastDraft, placeOfServer, readStanding, viewSubject } from "../subject.ts";
import type { ServerPageParts, ServerTab, ShownServer } from "./tab.ts";

/** The server's source: its editor and its versions; of one release its source alone. */
export const codeTab: ServerTab = {
  id: "code",
  label: "Code",
  isFor: ({ isBuiltIn, isUpstream }) => !isBuiltIn && !isUpstream,
  async view(shown, context, parts) {
    const writable = parts.writable && mayChange(context, "source", shown.name);
    const code = await (shown.isPinned ? pinnedCode(shown, parts) : currentCode(shown, { ...parts, writable }));
    const packages = shown.served ? await packagesOfRelease(parts.host, parts.tenant, shown.served.release) : [];
    return { ...code, packages: packages.slice(0, PACKAGES_SHOWN_MAX) };
  },
};

/** The most packages that the page names; the release has all. */
const PACKAGES_SHOWN_MAX = 200;

async function currentCode({ name }: ShownServer, parts: ServerPageParts): Promise<Partial<Page>> {
  const subject: Subject = { kind: "definition", name };
  const { current, damage } = await readStanding(parts, subject);
  const last = current ? undefined : await lastDraft(parts, subject);
  const text = current ?? (last && unsaved(last));
  const place = placeOfServer(parts.base, subject, parts.styleNonce);
  const definition = text && (await viewSubject(parts, subject, text, place));
  return {
    definition,
    damage,
    isDeleted: last !== undefined,
    canBegin: parts.writable && !definition,
    writable: parts.writable,
    fragments: definition?.fragments ?? [],
  };
}

async function pinnedCode({ name, served }: ShownServer, parts: ServerPageParts): Promise<Partial<Page>> {
  const subject: Subject = { kind: "definition", name };
  const cid = await definitionOf(parts.host, parts.tenant, served!.release);
  const draft = cid === undefined ? undefined : await parts.edits.version(parts.tenant, subject, cid);
  const readOnly = { ...parts, writable: false };
  const place = placeOfServer(parts.base, subject, parts.styleNonce);
  const definition = draft && (await viewSubject(readOnly, subject, unsaved(draft), place));
  return {
    definition: definition && { ...definition, versions: [] },
    isDeleted: false,
    canBegin: false,
    // It is not this instance that forbids a change.
    writable: true,
    fragments: definition?.fragments ?? [],
  };
}

/** The definition that a release was made of; undefined where it has none. */
async function definitionOf(host: Pick<Host, "content">, tenant: string, release: Cid): Promise<Cid | undefined> {
  const parts = await storedStructure(host, tenant, release);
  return isObject(parts) && typeof parts["definition"] === "string" ? parts["definition"] : undefined;
}

/** A text that stands nowhere yet, as an editor begins with it. */
function unsaved(draft: Draft): Draft & { readonly language: CurrentDraft["language"]; readonly cid: null } {
  return { ...draft, language: draft.entry.endsWith(".sh") ? "shell" : "typescript", cid: null };
}
