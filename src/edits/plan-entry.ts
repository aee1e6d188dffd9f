import { rawBlock } from "../lib/cid.ts";
import { jsonProblems } from "../lib/json-source.ts";
import type { Json } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { entryBounds, readNamedEntry } from "../entry/mcps.ts";
import type { ReadMcps } from "../host/catalog/directory.ts";
import { parseInTurns } from "../lib/json-spans.ts";
import { entryText, rawEntriesIn, readMcpsText, unreadableMcps, withEntry, writeMember } from "./mcps-text.ts";
import { placeIn } from "./place.ts";
import type { EditPlan, PlanRequest } from "./plan.ts";
import { proposeTo } from "./proposed-store.ts";

export async function planEntry(request: PlanRequest): Promise<EditPlan> {
  const { store, tenant, limits, before, name, draft } = request;
  const mcps = await readMcpsText(store, tenant);
  const whole = before.mcps?.cid === mcps.variable ? before.mcps : undefined;
  const entries = await rawEntriesIn(mcps, whole, limits);
  const raw = entries?.get(name);
  const text = draft?.files[draft.entry] ?? "";
  const { value, wrong } = await readWritten(request, text);
  let foreseen: ReadMcps | undefined;
  const problems = [...request.problems, ...wrong, ...unreadableMcps(entries)];
  const proposed = proposeTo(store);
  if (problems.length === 0) {
    const variable = await writeMember(proposed, tenant, mcps, [name], draft ? text.trim() : null);
    foreseen = withEntry(whole, variable, name, value);
  }
  return {
    current: raw === undefined ? null : rawBlock(entryText(raw)).cid,
    next: value === undefined ? null : rawBlock(entryText(value)).cid,
    problems,
    before,
    mcps: foreseen,
    proposed,
    isWritten: ({ pointer }) => pointer !== undefined,
    place: placeIn(request, name, text, [name]),
  };
}

/** The value of a draft, or its problems before it is read as an entry. */
async function readWritten(
  request: PlanRequest,
  text: string,
): Promise<{ readonly value?: Json; readonly wrong: readonly Problem[] }> {
  const { name, draft, limits } = request;
  if (draft === null || request.problems.length > 0) return { wrong: [] };
  const wrong = await jsonProblems(name, text, request);
  if (wrong.length > 0) return { wrong };
  const { value, tooMuch } = await parseInTurns(text, entryBounds(limits));
  if (!tooMuch) return { value: value as Json, wrong };
  return { wrong: readNamedEntry(name, null, { valuesMax: limits.entryValues, isTooLong: true }).problems };
}
