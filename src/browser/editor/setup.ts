import { tenantBase } from "../shared/base.ts";
import type { Draft } from "./draft.ts";

/** What the page says about an editor that stands in it. */
export interface Setup extends Draft {
  readonly kind: "variable" | "definition" | "entry";
  readonly name: string;
  /** What stands; null: nothing yet. */
  readonly cid: string | null;
  readonly language: string;
  readonly api: string;
  readonly readOnly: boolean;
  readonly styleNonce: string;
}

/** The page about what is edited. */
export function addressOf({ kind, name }: Setup): string {
  return `${tenantBase}/${kind === "variable" ? "variables" : "servers"}/${encodeURIComponent(name)}`;
}
