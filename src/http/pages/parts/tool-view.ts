import { signatureOf } from "../../../contract/signature.ts";
import type { JsonSchema } from "../../../json.ts";
import type { ToolAnnotations, ToolContract } from "../../../contract/contract.ts";
import type { ToolIdentity } from "../../../host/catalog.ts";
import type { SchemaTable } from "./schema-rows.ts";
import { firstLine, shortCid } from "./text.ts";

/** A tool as `views/partials/tool.hbs` shows it. */
export interface ToolView {
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly summary: string;
  readonly description: string;
  readonly badges: readonly Badge[];
  readonly signature: string;
  /** Tables, where there is anything to show in them. */
  readonly rows: unknown;
  readonly cut: boolean;
  readonly results: unknown;
  readonly json: string;
  /** Its two CIDs: what it looks like, and what carries it out. */
  readonly versions: readonly { readonly label: string; readonly cid: string; readonly short: string }[];
}

export interface Badge {
  readonly label: string;
  readonly tone: "" | "good" | "warn" | "bad" | "accent";
  /** What it means, for who points at it. */
  readonly meaning: string;
}

const SIGNATURE_WIDTH = 76;

export function toolView(
  tool: ToolContract,
  identity: ToolIdentity | undefined,
  tableOf: (schema: JsonSchema) => SchemaTable,
): ToolView {
  const { name, title = "", description = "", annotations = {} } = tool;
  const { rows, cut } = tableOf(tool.inputSchema);
  return {
    id: `tool-${idOf(name)}`,
    name,
    title,
    summary: title || firstLine(description),
    description,
    badges: badgesOf(annotations),
    signature: signatureOf(tool, SIGNATURE_WIDTH),
    rows,
    cut,
    results: tool.outputSchema ? tableOf(tool.outputSchema).rows : "",
    json: JSON.stringify(tool, null, 2),
    versions: identity
      ? [version("contract", identity.contract), version("implementation", identity.implementation)]
      : [],
  };
}

function version(label: string, cid: string): ToolView["versions"][number] {
  return { label, cid, short: shortCid(cid) };
}

/** Names of tools are hardly ever anything else; an id only must not have a space. */
export function idOf(name: string): string {
  return name.replace(/\s/g, "_");
}

function badgesOf({ readOnlyHint, destructiveHint, idempotentHint, openWorldHint }: ToolAnnotations): Badge[] {
  const badges: Badge[] = [];
  if (readOnlyHint) badges.push({ label: "read-only", tone: "good", meaning: "It changes nothing" });
  if (destructiveHint) badges.push({ label: "destructive", tone: "bad", meaning: "It may delete or overwrite" });
  if (idempotentHint)
    badges.push({ label: "idempotent", tone: "", meaning: "Calling it twice does no more than once" });
  if (openWorldHint)
    badges.push({ label: "open world", tone: "", meaning: "It reaches things outside of this server" });
  return badges;
}
