import type { Draft } from "../../lib/draft.ts";
import type { KnownSettings } from "../settings/settings-form.tsx";
import { tenantBase } from "../shared/dom.ts";

/** The setup of an editor, from the page. */
export interface Setup extends Draft {
  readonly kind: "variable" | "definition" | "entry";
  readonly name: string;
  /** The current version; null if there is none yet. */
  readonly cid: string | null;
  readonly language: string;
  readonly api: string;
  readonly readOnly: boolean;
  readonly styleNonce: string;
  /** For an entry that has a form beside its text. */
  readonly settings?: KnownSettings;
  /** The names of files behind CIDs in the text. */
  readonly names?: readonly (readonly [cid: string, file: string])[];
}

/** The page of the edited subject. */
export function addressOf({ kind, name }: Setup): string {
  const word = encodeURIComponent(name);
  if (kind === "variable") return `${tenantBase}/variables/${word}`;
  return `${tenantBase}/mcp/meta/${word}?tab=${kind === "entry" ? "settings" : "code"}`;
}
