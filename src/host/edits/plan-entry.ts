import { rawBlock } from "../../cid.ts";
import { jsonProblems } from "../../image/json-source.ts";
import type { Json } from "../../json.ts";
import type { ReadMcps } from "../directory.ts";
import { entryText, rawEntriesIn, readMcpsText, unreadableMcps, withEntry, writeMember } from "./mcps-text.ts";
import { placeIn } from "./place.ts";
import type { Plan, PlanRequest } from "./plan.ts";
import { proposeTo } from "./proposed-store.ts";

export async function planEntry(request: PlanRequest): Promise<Plan> {
  const { store, tenant, before, name, draft } = request;
  const mcps = await readMcpsText(store, tenant);
  const whole = before.mcps?.cid === mcps.variable ? before.mcps : undefined;
  const entries = rawEntriesIn(mcps, whole);
  const raw = entries?.get(name);
  const text = draft?.files[draft.entry] ?? "";
  const isRead = draft !== null && request.problems.length === 0;
  const wrong = isRead ? await jsonProblems(name, text, request) : [];
  const value = isRead && wrong.length === 0 ? (JSON.parse(text) as Json) : undefined;
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
