import type { Rights } from "../access/rights.ts";
import type { Cid } from "../lib/cid.ts";
import type { Problem } from "../lib/problem.ts";
import type { Reader } from "../lib/json-source.ts";
import type { McpsLimits } from "../entry/mcps.ts";
import type { Directory, ReadMcps } from "../host/catalog/directory.ts";
import { checkDraft, type DraftLimits } from "./draft-checks.ts";
import type { Subject } from "./edits.ts";
import type { Draft } from "../lib/draft.ts";
import type { EditPlace } from "./place.ts";
import { planDefinition } from "./plan-definition.ts";
import { planEntry } from "./plan-entry.ts";
import { planVariable, type VariableLimits } from "./plan-variable.ts";
import type { ProposedStore } from "./proposed-store.ts";
import type { ReviewedStore } from "./reviewed-store.ts";

/** The changes that an edit would make to a tenant's names, before their effect on its servers is known. */
export interface EditPlan {
  /** The version that stands now; `next` would replace it. */
  readonly current: Cid | null;
  readonly next: Cid | null;
  /** Problems of the draft itself; with any, the proposal means nothing. */
  readonly problems: readonly Problem[];
  readonly before: Directory;
  /** The configuration as it would be, where that is known without reading it. */
  readonly mcps?: ReadMcps | undefined;
  readonly proposed: ProposedStore;
  /** A definition that the edit writes, and the server it is for: it has to load. */
  readonly written?: { readonly server: string; readonly definition: Cid } | undefined;
  /** True for a problem with what the edit itself writes, not with something beside it. */
  readonly isWritten: (problem: Problem) => boolean;
  /** An alternative if the plan is refused, as a part of a sentence. */
  readonly remedy?: string;
  /** Gives problems their places in the draft. */
  readonly place: EditPlace;
}

/** Neither compiles nor changes anything. `before` is the current directory. */
export function planEdit(
  store: ReviewedStore,
  limits: DraftLimits & PlanRequest["limits"] & VariableLimits,
  tenant: string,
  before: Directory,
  { kind, name }: Subject,
  draft: Draft | null,
  rights: Rights,
): Promise<EditPlan> {
  const request: PlanRequest = {
    store,
    tenant,
    limits,
    before,
    name,
    draft,
    mayReadAll: rights.has("contents", undefined),
    problems: draft ? checkDraft({ kind, name }, draft, limits) : [],
  };
  switch (kind) {
    case "variable":
      return planVariable(request, limits);
    case "entry":
      return planEntry(request);
    case "definition":
      return planDefinition(request);
  }
}

export interface PlanRequest extends Reader {
  readonly store: ReviewedStore;
  readonly limits: McpsLimits & Reader["limits"];
  readonly before: Directory;
  readonly name: string;
  /** Null deletes. */
  readonly draft: Draft | null;
  /** True when the author may read all variables. */
  readonly mayReadAll: boolean;
  /** Problems of the draft that are found without reading it. */
  readonly problems: readonly Problem[];
}
