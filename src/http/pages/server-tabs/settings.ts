import type { Subject } from "../../../edits/edits.ts";
import { entryFieldList } from "../../../entry/entry-fields.ts";
import { hasFeature } from "../../../entry/features.ts";
import type { CurrentDraft, Draft } from "../../../lib/draft.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { mayChange, mayKnow } from "../../access/permit.ts";
import type { RoutedContext } from "../../routed.ts";
import { filesOfEntry, type StoredFile } from "../parts/stored-files.ts";
import { ungrantedView } from "../parts/ungranted.ts";
import { placeOfServer, viewSubject } from "../subject.ts";
import type { ServerPageParts, ServerTab, ShownServer } from "./tab.ts";

/** The server's entry in the variable `mcps`, and its versions. */
export const settingsTab: ServerTab = {
  id: "settings",
  label: "Settings",
  isFor: ({ isBuiltIn, isPinned }) => !isBuiltIn && !isPinned,
  async view(shown, context, parts) {
    const { name } = shown;
    const subject: Subject = { kind: "entry", name };
    const current = await parts.edits.read(parts.tenant, subject);
    const place = placeOfServer(parts.base, subject, parts.styleNonce);
    const writable = parts.writable && mayChange(context, "entry", name);
    const files = await filesOfEntry(parts, name, rawEntry(name, parts));
    const settings = await settingsOf(shown, files, context, parts);
    const names = new Map(files.map(({ cid, file }) => [cid, file]));
    const entry = await viewSubject({ ...parts, writable }, subject, current ?? noEntry(name), place, {
      settings,
      names,
    });
    const ungranted = ungrantedView(
      shown.served?.ungranted,
      rawEntry(name, parts),
      parts.writable && mayChange(context, "secrets", name) && mayChange(context, "network", name),
    );
    const hasEntry = current !== undefined;
    return { entry, hasEntry, ungranted, writable, fragments: entry.fragments };
  },
};

/** The draft of an entry that `mcps` does not have: such a server is discovered by itself. */
function noEntry(name: string): Draft & { language: CurrentDraft["language"]; cid: null } {
  return { entry: name, files: { [name]: "{\n}\n" }, language: "json", cid: null };
}

/** The most names that the form suggests. */
const SUGGESTED_MAX = 500;

/** The form's knowledge beside the entry: `KnownSettings` of src/browser/settings/settings-form.tsx. */
async function settingsOf(
  { isUpstream, served }: ShownServer,
  files: readonly StoredFile[],
  { principal }: RoutedContext,
  parts: ServerPageParts,
): Promise<object> {
  const { edits, secrets, tenant, base } = parts;
  const form = entryFieldList.flatMap(([field, { form, only, feature }]) => {
    const isMeant = !only || (only[0] === "upstreams") === isUpstream;
    return form && isMeant && (feature === undefined || hasFeature(feature)) ? [{ field, ...form }] : [];
  });
  const known = { base, isUpstream, form, files, ...(served?.functions && { functions: served.functions }) };
  if (!mayKnow(principal)) return known;
  const all = ((await secrets?.list(tenant)) ?? []).slice(0, SUGGESTED_MAX);
  return {
    ...known,
    secrets: all.map(({ name, set }) => ({ name, isSet: set !== undefined })),
    variables: (await edits.names(tenant, "variable")).slice(0, SUGGESTED_MAX),
  };
}

function rawEntry(name: string, { host, tenant }: ServerPageParts): JsonObject {
  return host.directory(tenant)?.servers.get(name)?.entry.raw ?? {};
}
