import type { ContractChange } from "../../contract/change.ts";
import { BerthError } from "../../lib/errors.ts";
import { firstProblems, type Problem } from "../../lib/problem.ts";
import type { Store } from "../../store/store.ts";
import { nextTurn } from "../../lib/turns.ts";
import type { Contract } from "../catalog.ts";
import type { ServerEntry } from "../config/entry.ts";
import type { HostedUpstream } from "./hosted.ts";
import type { Hosting } from "./hosting.ts";
import {
  driftOf,
  judge,
  NOTHING_ARRIVED,
  type ApprovedLimits,
  type Arrived,
  type Held,
  type Judgement,
} from "./judge.ts";
import { refused, start } from "./refusal.ts";
import { ifRoom, roomForOthers } from "../release-recorder.ts";
import { cidOf, cidOfContract } from "./structure-cid.ts";
import {
  readContract,
  readRemembered,
  writeRemembered,
  type Remembered,
  type RememberedChanges,
} from "./remembered.ts";

export interface ApprovalDependencies {
  readonly store: Store;
  readonly writable: boolean;
  /** Undefined where nothing of others is started. */
  readonly upstreams?: Hosting;
  /** Nothing of it is remembered: somebody only looks what would be. */
  readonly isTrial: boolean;
  readonly storedBytesOf?: (tenant: string) => number;
  readonly limits: ApprovedLimits;
}

/** What of a server of others may be served. */
export interface Own {
  readonly own: Contract;
  readonly held: Held;
  readonly problems: readonly Problem[];
}

/**
 * What is approved of a server, as far as it still offers that. What was approved before is known without the server,
 * which is started when somebody uses it; one that is not known yet is started now, and all that it offers is approved.
 */
export async function approvedNow(
  tenant: string,
  server: string,
  hosted: HostedUpstream,
  entry: ServerEntry,
  dependencies: ApprovalDependencies,
): Promise<Own> {
  const { store, writable, isTrial, limits } = dependencies;
  const { uri } = hosted.upstream.launch;
  const known = await recall(tenant, server, uri, entry, dependencies);
  if (!known && !hosted.observed) await start(server, hosted, isTrial);

  const seen = hosted.observed?.contract;
  const { approved, arrived, observed } = known ?? asApproved(seen!);
  const judged = await judge(approved, seen ?? observed, entry.schemaValidation, limits, arrived);
  await nextTurn();
  const problems = [...(hosted.observed?.problems ?? []), ...firstProblems(driftProblems(judged))];
  if (!isTrial) {
    const remembered: Remembered = {
      ...(judged.refused ? { approved, arrived } : { approved: judged.approved, arrived: judged.arrived }),
      observed: seen ?? observed,
      locked: entry.contractCid ?? null,
    };
    const changes = await changesOf(remembered, hosted.remembered);
    hosted.remembered = { ...remembered, changes };
    // What is known of it from now on is kept in any case: without it, all that it becomes would count as approved.
    const room = known ? roomForOthers(dependencies, tenant) : {};
    if (writable) await ifRoom(writeRemembered(store, tenant, server, { uri, remembered, by: "load", ...room }));
  }
  if (judged.refused) {
    // Refused for what it once was: whether it still is, only the server itself can tell.
    if (!seen && !isTrial) hosted.upstream.start().catch(() => {});
    throw refused(server, problems);
  }
  return { own: judged.served, held: judged.held, problems };
}

/** What waits for a person: as it was found the last time, where both are what they were. */
async function changesOf(
  { approved, arrived, observed }: Remembered,
  last?: RememberedChanges,
): Promise<readonly ContractChange[]> {
  const [approvedCid, observedCid] = [await cidOfContract(approved), await cidOfContract(observed)];
  const isAsLast = last && cidOf(last.approved) === approvedCid && cidOf(last.observed) === observedCid;
  return isAsLast ? last.changes : driftOf(approved, observed, arrived);
}

/** All of a contract is approved, whether by a person, by a lock, or because nothing was known before. */
function asApproved(contract: Contract): { approved: Contract; arrived: Arrived; observed: Contract } {
  return { approved: contract, arrived: NOTHING_ARRIVED, observed: contract };
}

/**
 * What is known of a server without starting it: what was approved of it and when it was last seen, or what the image
 * has locked, until a person approves something else.
 */
export async function recall(
  tenant: string,
  server: string,
  uri: string,
  entry: ServerEntry,
  { store, writable, upstreams }: Pick<ApprovalDependencies, "store" | "writable" | "upstreams">,
): Promise<Remembered | undefined> {
  const { contractCid } = entry;
  const inMemory = upstreams?.find(tenant, server, entry)?.remembered;
  const remembered = writable || !inMemory ? await readRemembered(store, tenant, server, uri, inMemory) : inMemory;
  if (contractCid === undefined || remembered?.locked === contractCid) return remembered;
  const locked = await readContract(store, tenant, contractCid);
  return locked ? { ...asApproved(locked), locked: contractCid } : remembered;
}

/** What a person decides on: approves exactly the contract that they were shown. Rejects when it is another by now. */
export async function approveUpstream(
  store: Store,
  tenant: string,
  server: string,
  hosted: HostedUpstream,
  { contract, by }: { contract: string; by: string },
): Promise<void> {
  const { remembered } = hosted;
  const observed = hosted.observed?.contract ?? remembered?.observed;
  const current = observed && cidOf(observed);
  if (!observed || current !== contract) {
    const detail = current === undefined ? "nothing is known of the server yet" : `the server offers ${current} now`;
    throw new BerthError("name_moved", detail, { data: { current: current ?? null } });
  }
  const approved = { ...asApproved(observed), locked: remembered?.locked ?? null };
  const { uri } = hosted.upstream.launch;
  await writeRemembered(store, tenant, server, { uri, remembered: approved, by, approved: true });
  hosted.remembered = { ...approved, changes: [] };
}

function driftProblems({ held, changes, refused }: Judgement): Problem[] {
  const [tools, prompts] = [held.tools, held.prompts].map((all) => new Set(all.map(({ name }) => name)));
  const isHeld = ({ subject, name }: ContractChange): boolean =>
    subject === "server" || (subject === "tool" && tools!.has(name)) || (subject === "prompt" && prompts!.has(name));
  return changes
    .filter((change) => (refused && change.effect !== "compatible") || isHeld(change) || change.effect === "breaking")
    .map((change) => driftProblem(change, refused || isHeld(change)));
}

function driftProblem(change: ContractChange, isHeld: boolean): Problem {
  const { subject, name } = change;
  const message = `${subjectText(change)}${change.message}`;
  return {
    code: "contract-changed",
    message: isHeld ? `${message} It is held back until a person approves it.` : message,
    severity: isHeld ? "error" : "warning",
    ...(subject === "tool" && { tool: name }),
  };
}

/** Nothing where the message says it itself. */
function subjectText({ subject, name, message }: ContractChange): string {
  if (subject === "server") return "Of the server itself: ";
  if (name === "") return "";
  return message.includes(`"${name}"`) ? "" : `Of the ${subject} "${name}": `;
}
