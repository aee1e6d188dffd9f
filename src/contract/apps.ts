import { isObject, type JsonObject } from "../lib/json.ts";

/** MCP Apps (SEP-1865, revision 2026-01-26): HTML that a client shows for the results of a tool, as a `ui://` resource. */
export const APP_MIME_TYPE = "text/html;profile=mcp-app";

/** The older field for a tool's `ui.resourceUri`, the only one that some clients read. */
const OLDER_APP_URI = "ui/resourceUri";

interface WithMeta {
  readonly _meta?: unknown;
}

/** The URI of the app that shows the results of a tool; undefined for a tool without one. */
export function readAppUri({ _meta: meta }: WithMeta): string | undefined {
  if (!isObject(meta)) return undefined;
  const { ui } = meta;
  const uri = isObject(ui) && ui["resourceUri"] !== undefined ? ui["resourceUri"] : meta[OLDER_APP_URI];
  return typeof uri === "string" && uri.startsWith("ui://") ? uri : undefined;
}

/** Who may call a tool: models, apps of its own server, or both, which is the default. */
export function readCallers({ _meta: meta }: WithMeta): { readonly model: boolean; readonly app: boolean } {
  const ui = isObject(meta) ? meta["ui"] : undefined;
  const visibility = isObject(ui) ? ui["visibility"] : undefined;
  if (!Array.isArray(visibility)) return { model: true, app: true };
  return { model: visibility.includes("model"), app: visibility.includes("app") };
}

/** `_meta` of a tool with an app, for newer and older clients. */
export function appMeta(uri: string | undefined, visibility: readonly string[] | undefined): JsonObject {
  const ui = { ...(uri !== undefined && { resourceUri: uri }), ...(visibility && { visibility: [...visibility] }) };
  return { ui, ...(uri !== undefined && { [OLDER_APP_URI]: uri }) };
}

/** The contents of an app of a definition. A byte-order mark of the file is part of its text. */
export function appContents(
  { uri, ui }: { readonly uri: string; readonly ui?: JsonObject },
  text: string,
): { uri: string; mimeType: string; text: string; _meta?: { ui: JsonObject } } {
  return { uri, mimeType: APP_MIME_TYPE, text, ...(ui && { _meta: { ui } }) };
}
