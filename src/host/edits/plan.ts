import type { Rights } from "../../access/rights.ts";
import type { Cid } from "../../lib/cid.ts";
import type { Problem } from "../../lib/problem.ts";
import type { Reader } from "../../image/json-source.ts";
import type { McpsLimits } from "../config/mcps.ts";
import type { Directory, ReadMcps } from "../directory.ts";
import { checkDraft, type DraftLimits } from "./draft-checks.ts";
import type { Draft, Subject } from "./edits.ts";
import type { Place } from "./place.ts";
import { planDefinition } from "./plan-definition.ts";
import { planEntry } from "./plan-entry.ts";
import { planVariable, type VariableLimits } from "./plan-variable.ts";
import type { ProposedStore } from "./proposed-store.ts";
import type { ReviewedStore } from "./reviewed-store.ts";

/** What an edit would change of a tenant's names, before anybody asks what that means for its servers. */
export interface Plan {
  /** What stands now, and what would. */
  readonly current: Cid | null;
  readonly next: Cid | null;
  /** What is wrong with the draft itself; then the proposal means nothing. */
  readonly problems: readonly Problem[];
  readonly before: Directory;
  /** The configuration as it would be, where that is known without reading it. */
  readonly mcps?: ReadMcps | undefined;
  readonly proposed: ProposedStore;
  /** A definition that the edit writes, and the server it is for: it has to load. */
  readonly written?: { readonly server: string; readonly definition: Cid } | undefined;
  /** True for a problem with what the edit itself writes, as opposed to something else that it stands beside. */
  readonly isWritten: (problem: Problem) => boolean;
  /** What else can be done where the plan is refused, as a part of a sentence. */
  readonly remedy?: string;
  /** Gives problems their places in the draft. */
  readonly place: Place;
}

/** Asks nothing of a compiler, and changes nothing. `before` is how things stand. */
export function planEdit(
  store: ReviewedStore,
  limits: DraftLimits & PlanRequest["limits"] & VariableLimits,
  tenant: string,
  before: Directory,
  { kind, name }: Subject,
  draft: Draft | null,
  rights: Rights,
): Promise<Plan> {
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
  /** Whether the writer may read all variables. */
  readonly mayReadAll: boolean;
  /** What is wrong with the draft whatever it says. */
  readonly problems: readonly Problem[];
}
