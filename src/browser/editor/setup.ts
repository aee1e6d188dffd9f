import type { Draft } from "../../lib/draft.ts";
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
}

/** The page of the edited subject. */
export function addressOf({ kind, name }: Setup): string {
  return `${tenantBase}/${kind === "variable" ? "variables" : "servers"}/${encodeURIComponent(name)}`;
}
