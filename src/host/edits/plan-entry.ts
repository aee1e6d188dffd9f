import { rawBlock } from "../../cid.ts";
import { parseJsonSource } from "../../image/json-source.ts";
import { entryText, readMcpsText, readRawEntries, unreadableMcps, writeMember } from "./mcps-text.ts";
import { placeIn } from "./place.ts";
import type { Plan, PlanRequest } from "./plan.ts";
import { proposeTo } from "./proposed-store.ts";

export async function planEntry(request: PlanRequest): Promise<Plan> {
  const { store, tenant, before, name, draft } = request;
  const mcps = await readMcpsText(store, tenant);
  const raw = readRawEntries(mcps.text)?.get(name);
  const text = draft?.files[draft.entry] ?? "";
  const parsed = draft ? parseJsonSource(name, text) : { problems: [] };
  const problems = [...request.problems, ...parsed.problems, ...unreadableMcps(mcps)];
  const proposed = proposeTo(store);
  if (problems.length === 0) await writeMember(proposed, tenant, mcps, [name], draft ? text.trim() : null);
  return {
    current: raw === undefined ? null : rawBlock(entryText(raw)).cid,
    next: parsed.root ? rawBlock(entryText(parsed.root.value)).cid : null,
    problems,
    before,
    proposed,
    isWritten: ({ pointer }) => pointer !== undefined,
    place: placeIn(name, text, [name]),
  };
}
