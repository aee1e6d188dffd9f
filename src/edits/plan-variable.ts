import { isCid, rawBlock } from "../lib/cid.ts";
import { jsonProblems } from "../lib/json-source.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import type { Problem } from "../lib/problem.ts";
import type { NameMove } from "../store/store.ts";
import { textAt } from "./mcps-text.ts";
import { placeIn } from "./place.ts";
import type { EditPlan, PlanRequest } from "./plan.ts";
import { proposeTo } from "./proposed-store.ts";

export type VariableLimits = Pick<Limits, "variablesPerTenant">;

export async function planVariable(request: PlanRequest, { variablesPerTenant }: VariableLimits): Promise<EditPlan> {
  const { store, tenant, before, name, draft } = request;
  const current = (await store.name(tenant, "variable", name))?.cid ?? null;
  const text = draft?.files[draft.entry] ?? "";
  const block = rawBlock(text);
  const next = draft ? block.cid : null;
  const written =
    name === "mcps" && draft && request.problems.length === 0
      ? await configurationIn(request, text)
      : { text, problems: [] };
  const tooMany =
    draft && current === null && name !== "mcps" ? await problemOfNumber(request, variablesPerTenant) : [];
  const proposed = proposeTo(store);
  const set: NameMove[] = [{ kind: "variable", name, cid: next, expected: current }];
  await proposed.change(tenant, { by: "edit", put: draft ? [block] : [], set });
  return {
    current,
    next,
    problems: [...request.problems, ...tooMany, ...written.problems],
    before,
    proposed,
    isWritten: ({ pointer }) => pointer !== undefined,
    place: placeIn(request, "mcps", written.text),
  };
}

/** An existing variable can always be written, and so can `mcps`, without which nothing works. */
async function problemOfNumber({ store, tenant }: PlanRequest, variablesPerTenant: number): Promise<Problem[]> {
  const { length } = await store.names(tenant, "variable");
  if (length < variablesPerTenant) return [];
  const limit = `${variablesPerTenant} (${limitVariable("variablesPerTenant")})`;
  return [{ code: "too-many", message: `There are ${length} variables, and the limit is ${limit}`, severity: "error" }];
}

/** The configuration in a value of `mcps`, or behind the CID in it. */
async function configurationIn(request: PlanRequest, value: string): Promise<{ text: string; problems: Problem[] }> {
  const { store, tenant } = request;
  const cid = value.trim();
  if (!isCid(cid)) return { text: value, problems: await jsonProblems("mcps", value, request) };
  if (await store.content(tenant, cid)) {
    const text = await textAt(store, tenant, cid);
    return { text, problems: await jsonProblems(cid, text, request) };
  }
  const message = `There is no content with the CID ${cid}; save the configuration itself`;
  const problem: Problem = { code: "missing-content", message, severity: "error", file: "mcps", line: 1, column: 1 };
  return { text: "", problems: [problem] };
}
