import type { Power, Rights } from "../access/rights.ts";
import { isSameJson, type Json } from "../lib/json.ts";
import { turnTaker } from "../lib/event-loop.ts";
import type { Directory, DirectoryEntry } from "../host/catalog/directory.ts";
import { programOf } from "../host/serving/tenant-rules.ts";

/** One change that an edit makes to what a server is or is given. */
interface PowerChange {
  readonly server: string;
  readonly power: Power;
  /** The field of the entry; absent for a source. */
  readonly field?: string;
  readonly before?: Json | undefined;
  readonly after?: Json | undefined;
}

/**
 * Refuses an edit that changes what its author may not change, whatever way it came: all that a server is given is
 * compared, before and after. Nothing has been compiled or started for the edit yet. `remedy` ends the message. Rejects
 * with `forbidden` or `programs_refused`, with the changes as data.
 */
export async function checkRights(
  tenant: string,
  names: readonly string[],
  { before, after, remedy = "" }: { before: Directory; after: Directory; remedy?: string | undefined },
  rights: Rights,
): Promise<void> {
  const takeTurns = turnTaker();
  for (const name of names) {
    await takeTurns();
    const [was, would] = [before.servers.get(name), after.servers.get(name)];
    const changes = changesOf(tenant, name, was, would);
    const refused = changes.filter(({ power }) => !rights.has(power, name));
    const [first] = refused;
    if (first) {
      const words = [...new Set(refused.map(({ field }) => `"${field ?? "source"}"`))].join(", ");
      const doing = `the server "${name}" would have another ${words}${remedy}; that`;
      throw rights.refusal(first.power, name, doing, { changes: refused });
    }
    if (changes.some(({ power }) => power === "source")) checkVariables(name, would, rights);
  }
}

function changesOf(
  tenant: string,
  server: string,
  was: DirectoryEntry | undefined,
  would: DirectoryEntry | undefined,
): PowerChange[] {
  // A deleted server loses all that it was given.
  if (!would) return [{ server, power: "source" }];
  const changes: PowerChange[] = [];
  const program = programOf(tenant, would);
  if (program !== undefined && program !== (was && programOf(tenant, was))) {
    changes.push({ server, power: "programs", field: "upstream", after: would.entry.upstream });
  }
  const [before, after] = [was?.entry.raw ?? {}, would.entry.raw];
  for (const field of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (field === "definition" || isSameJson(before[field], after[field])) continue;
    // Only a principal that may do everything sets what a new server may read; any author may let it read nothing.
    if (!was && field === "variables" && isSameJson(after[field], [])) continue;
    const change = { server, field, before: before[field], after: after[field] };
    const power = powerOf(field, before[field], after[field]);
    changes.push({ ...change, power });
    // An approval by an entry also needs the right to change the entry.
    if (power === "approvals") changes.push({ ...change, power: "entry" });
  }
  if (was && was.enabled !== would.enabled && was.entry.enabled === would.entry.enabled) {
    changes.push({ server, power: "entry", field: "enabled", before: was.enabled, after: would.enabled });
  }
  if (was?.definition !== would.definition) changes.push({ server, power: "source" });
  return changes;
}

function powerOf(field: string, before: Json | undefined, after: Json | undefined): Power {
  switch (field) {
    case "secrets":
    case "network":
    case "variables":
    case "upstream":
      return field;
    // Another lock approves what an upstream offers, and without a lock its first offer counts as approved.
    case "contract_cid":
      return "approvals";
    case "schema_validation":
      return strictnessOf(after) < strictnessOf(before) ? "approvals" : "entry";
    default:
      return "entry";
  }
}

/** Ranks how much of an upstream's offer waits for approval. */
function strictnessOf(validation: Json | undefined): number {
  return validation === "ignore" ? 0 : validation === "error" ? 2 : 1;
}

/** Code reads for its author, so it must not read what the author may not. */
function checkVariables(server: string, would: DirectoryEntry | undefined, rights: Rights): void {
  if (!would || would.entry.variables !== undefined) return;
  if (rights.has("contents", undefined)) return;
  const doing =
    `the code of the server "${server}" may read every variable until its entry in mcps names those that it may read ` +
    '("variables": ["…"], or [] for none); to write such code';
  throw rights.refusal("contents", undefined, doing);
}
