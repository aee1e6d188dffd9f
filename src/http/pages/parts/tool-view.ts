import type { ToolAnnotations, ToolContract } from "../../../contract/contract.ts";
import { findIconFault, ICONS_MAX, type Icon } from "../../../contract/icons.ts";
import { renderSignature } from "../../../contract/signature.ts";
import { cutText } from "../../../lib/cut-text.ts";
import type { JsonSchema } from "../../../lib/json.ts";
import type { SchemaTable } from "./schema-rows.ts";
import { firstLine } from "./text.ts";

export interface Badge {
  readonly label: string;
  readonly tone: "" | "good" | "warn" | "bad" | "accent";
  /** The meaning, shown on hover. */
  readonly meaning: string;
}

const SIGNATURE_WIDTH = 76;
/** A longer description is only in the JSON. */
export const DESCRIPTION_MAX = 16_000;

/** A tool as `views/partials/tools.hbs` shows it; `open`: expanded from the start. */
export function toolView(tool: ToolContract, open: boolean, tableOf: (schema: JsonSchema) => SchemaTable) {
  const { name, title = "", description = "", annotations = {}, icons } = tool;
  const { rows, cut } = tableOf(tool.inputSchema);
  return {
    id: `tool-${idOf(name)}`,
    name,
    title: cutText(title, DESCRIPTION_MAX),
    summary: firstLine(title) || firstLine(description),
    description: cutText(description, DESCRIPTION_MAX),
    open,
    badges: badgesOf(annotations),
    signature: renderSignature(tool, SIGNATURE_WIDTH),
    icon: open ? shownIcon(icons) : "",
    rows,
    cut,
    results: tool.outputSchema ? tableOf(tool.outputSchema).rows : "",
    // Relative to the page.
    json: `?tool=${encoded(name)}`,
    try: tryUrl("tool", name),
  };
}

/** The first icon that a page can show without loading it from elsewhere. */
export function shownIcon(icons: readonly unknown[] | undefined): string {
  const shown = (Array.isArray(icons) ? icons.slice(0, ICONS_MAX) : []).find(
    (icon): icon is Icon => findIconFault(icon) === undefined && (icon as Icon).src.startsWith("data:"),
  );
  return shown?.src ?? "";
}

/** The link that opens the page's tester; src/browser/tester/target.ts reads it. */
export function tryUrl(kind: "tool" | "resource" | "prompt", name: string): string {
  return `#${kind}=${encoded(name)}`;
}

/** Half a surrogate pair cannot appear in a URL. */
function encoded(name: string): string {
  return encodeURIComponent(name.replaceAll(/\p{Cs}/gu, "\ufffd"));
}

/** Tool names hardly ever need escaping; an id only must not contain a space. */
export function idOf(name: string): string {
  return name.replace(/\s/g, "_");
}

function badgesOf({ readOnlyHint, destructiveHint, idempotentHint, openWorldHint }: ToolAnnotations): Badge[] {
  const badges: Badge[] = [];
  if (readOnlyHint) badges.push({ label: "read-only", tone: "good", meaning: "It changes nothing" });
  if (destructiveHint) badges.push({ label: "destructive", tone: "bad", meaning: "It may delete or overwrite" });
  if (idempotentHint)
    badges.push({ label: "idempotent", tone: "", meaning: "Calling it twice has the effect of calling it once" });
  if (openWorldHint) badges.push({ label: "open world", tone: "", meaning: "It reaches things outside this server" });
  return badges;
}
