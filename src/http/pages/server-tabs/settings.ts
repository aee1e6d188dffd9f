import type { Subject } from "../../../edits/edits.ts";
import { cidFields } from "../../../entry/fields.ts";
import { storedStructure } from "../../../host/catalog/stored-structure.ts";
import { isCid, isStructure, type Cid } from "../../../lib/cid.ts";
import type { Current, Draft } from "../../../lib/draft.ts";
import { isObject, type JsonObject } from "../../../lib/json.ts";
import { mayChange, mayKnow } from "../../access/permit.ts";
import type { RoutedContext } from "../../routed.ts";
import { shortCid } from "../parts/text.ts";
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
    const settings = await settingsOf(shown, context, parts);
    const entry = await viewSubject(parts, subject, current ?? noEntry(name), place, settings);
    const ungranted = ungrantedView(
      shown.served?.ungranted,
      rawEntry(name, parts),
      parts.writable && mayChange(context, "secrets", name) && mayChange(context, "network", name),
    );
    const hasEntry = current !== undefined;
    return { entry, hasEntry, ungranted, writable: parts.writable, fragments: entry.fragments };
  },
};

/** The draft of an entry that `mcps` does not have: such a server is discovered by itself. */
function noEntry(name: string): Draft & { language: Current["language"]; cid: null } {
  return { entry: name, files: { [name]: "{\n}\n" }, language: "json", cid: null };
}

/** The most names that the form suggests. */
const SUGGESTED_MAX = 500;

/** The form's knowledge beside the entry: `KnownSettings` of src/browser/settings/settings-form.tsx. */
async function settingsOf(
  { name, isUpstream, served }: ShownServer,
  { principal }: RoutedContext,
  parts: ServerPageParts,
): Promise<object> {
  const { edits, secrets, tenant, base } = parts;
  const mayKnowNames = mayKnow(principal);
  const raw = rawEntry(name, parts);
  const cid = raw["definition"];
  const definition = typeof cid === "string" && isCid(cid) ? await mainFile(name, cid, parts) : "";
  return {
    base,
    isUpstream,
    ...(served?.functions && { functions: served.functions }),
    ...(mayKnowNames && {
      secrets: (await secrets.list(tenant))
        .slice(0, SUGGESTED_MAX)
        .map((each) => ({ name: each.name, isSet: each.set !== undefined })),
      variables: (await edits.names(tenant, "variable")).slice(0, SUGGESTED_MAX),
    }),
    files: cidFields.flatMap((field) => {
      const cid = raw[field];
      if (typeof cid !== "string" || !isCid(cid)) return [];
      const file = field === "definition" ? definition : FILES[field];
      return [{ field, file, cid, short: shortCid(cid), href: `${base}/cid/${cid}` }];
    }),
  };
}

function rawEntry(name: string, { host, tenant }: ServerPageParts): JsonObject {
  return host.directory(tenant)?.servers.get(name)?.entry.raw ?? {};
}

/** The name of a definition's main file. A definition of one file is named after its server. */
async function mainFile(name: string, cid: Cid, { edits, host, tenant }: ServerPageParts): Promise<string> {
  if (!isStructure(cid)) return `${name}.${(await edits.language(tenant, name)) === "shell" ? "sh" : "ts"}`;
  const tree = await storedStructure(host, tenant, cid);
  return isObject(tree) && typeof tree["entry"] === "string" ? tree["entry"] : name;
}

const FILES = {
  contract_cid: "the approved contract",
  tools_transform_cid: "a module that adds tools",
  resources_transform_cid: "a module that adds resources",
  prompts_transform_cid: "a module that adds prompts",
} as const;
