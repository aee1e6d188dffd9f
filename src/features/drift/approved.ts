import type { ContractChange } from "../../contract/change.ts";
import { withheldKinds, listItems, itemKey } from "../../contract/withheld-items.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { ApprovalDependencies, ApprovedContract } from "../../host/catalog/approvals.ts";
import { unlessFull, upstreamQuota } from "../../host/catalog/release-recorder.ts";
import { refused, start } from "../../host/catalog/upstream-catalog.ts";
import type { Contract } from "../../host/offers/catalog.ts";
import { cidOf, cidOfContract } from "../../host/offers/contract-cids.ts";
import type { HostedUpstream } from "../../host/upstreams/hosted.ts";
import type { Remembered, RememberedChanges } from "../../host/upstreams/remembered.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import { firstProblems, type Problem } from "../../lib/problem.ts";
import type { Store } from "../../store/store.ts";
import { driftOf, judge, NOTHING_ARRIVED, type Judgement } from "./drift.ts";
import { readContract, readRemembered, rememberedCid, writeRemembered } from "./upstream-record.ts";

/**
 * Resolves with what is approved of an upstream and still offered. An upstream that was approved before is known
 * without starting it, and starts when a client uses it; a new one starts now, and all that it offers is approved.
 */
export function readApproved(
  tenant: string,
  server: string,
  hosted: HostedUpstream,
  entry: ServerEntry,
  dependencies: ApprovalDependencies,
): Promise<ApprovedContract> {
  return unlessOvertaken(async () => {
    const { store, writable, isTrial } = dependencies;
    const { uri } = hosted.upstream.launch;
    const expected = await rememberedCid(store, tenant, server);
    const known = await recall(tenant, server, uri, entry, dependencies);
    if (!known && !hosted.observed) await start(server, hosted, isTrial);

    const seen = hosted.observed?.contract;
    const { approved, arrived, observed, reviewed }: Approved = known ?? asApproved(seen!);
    const judged = await judge(approved, seen ?? observed, { hold: entry.hold, arrived, reviewed });
    await yieldToCalls();
    const problems = [...(hosted.observed?.problems ?? []), ...firstProblems(driftProblems(judged))];
    if (!isTrial) {
      const autoApproved = judged.refused ? [] : judged.autoApproved;
      const remembered: Remembered = {
        ...(judged.refused ? { approved, arrived } : { approved: judged.approved, arrived: judged.arrived }),
        reviewed: reviewed ?? (autoApproved.length > 0 ? approved : undefined),
        observed: seen ?? observed,
        locked: entry.contractCid ?? null,
      };
      const all = await changesOf(remembered, hosted.remembered);
      // The first record is kept whatever the room: without it, all that the upstream becomes would count as approved.
      const room = known ? upstreamQuota(dependencies, tenant) : {};
      const by = autoApproved.length > 0 ? "hold" : "load";
      const put = { uri, remembered, expected, by, autoApproved, ...room };
      // What two processes see of it may differ for good: each writes it once, and not in answer to the other.
      const isWritten = known !== undefined && hosted.hasWritten(seen, entry);
      const isKept = writable && !isWritten && (await unlessFull(writeRemembered(store, tenant, server, put)));
      hosted.remember({ ...remembered, ...all }, isKept ? { seen, entry } : undefined);
    }
    if (judged.refused) {
      // Refused for what was last seen of it: only the upstream itself can tell if that still holds.
      if (!seen && !isTrial) hosted.start().catch(() => {});
      throw refused(server, problems);
    }
    return { own: judged.served, held: judged.held, skills: judged.approved.skills ?? [], problems };
  });
}

/**
 * The changes that wait for a person, and those that were taken over; those found the last time if the contracts are the
 * same.
 */
async function changesOf(
  { approved, arrived, observed, reviewed }: Remembered,
  last?: RememberedChanges,
): Promise<Pick<RememberedChanges, "changes" | "autoApproved">> {
  const [approvedCid, observedCid] = [await cidOfContract(approved), await cidOfContract(observed)];
  const reviewedCid = reviewed && (await cidOfContract(reviewed));
  const hasApproved = last !== undefined && cidOf(last.approved) === approvedCid;
  const hasReviewed = hasApproved && (last.reviewed && cidOf(last.reviewed)) === reviewedCid;
  return {
    changes:
      hasApproved && cidOf(last.observed) === observedCid ? last.changes : await driftOf(approved, observed, arrived),
    autoApproved: hasReviewed ? last.autoApproved : reviewed ? await driftOf(reviewed, approved) : [],
  };
}

type Approved = Pick<Remembered, "approved" | "arrived" | "observed" | "reviewed">;

/** Approves all of a contract: by a person, by a lock, or because nothing was known before. */
function asApproved(contract: Contract): Approved {
  return { approved: contract, arrived: NOTHING_ARRIVED, observed: contract };
}

/**
 * Recalls an upstream without starting it: what was approved and last seen of it, or the contract that the image has
 * locked, until a person approves another.
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

/** Approves exactly the contract that a person was shown. Rejects when the upstream offers another by now. */
export function approve(
  store: Store,
  tenant: string,
  server: string,
  hosted: HostedUpstream,
  { contract, by }: { contract: string; by: string },
): Promise<void> {
  return unlessOvertaken(async () => {
    const { uri } = hosted.upstream.launch;
    const expected = await rememberedCid(store, tenant, server);
    // Another process may have seen it last.
    const remembered = (await readRemembered(store, tenant, server, uri, hosted.remembered)) ?? hosted.remembered;
    const seen = (): Contract | undefined => hosted.observed?.contract ?? remembered?.observed;
    // The node that runs it may not have told of it yet.
    if (seen() && cidOf(seen()!) !== contract && hosted.runsElsewhere) await hosted.start().catch(() => {});
    const offered = seen();
    const current = offered && cidOf(offered);
    if (!offered || current !== contract) {
      const detail = current === undefined ? "nothing is known of the server yet" : `the server now offers ${current}`;
      throw new BerthError("name_conflict", detail, { data: { current: current ?? null } });
    }
    const approved = { ...asApproved(offered), locked: remembered?.locked ?? null };
    await writeRemembered(store, tenant, server, { uri, remembered: approved, expected, by, approved: true });
    hosted.remember({ ...approved, ...(await changesOf(approved)) });
  });
}

/** Takes over what another process wrote of an upstream; true if that changes what is served. */
export async function follow(store: Store, tenant: string, server: string, hosted: HostedUpstream): Promise<boolean> {
  const last = hosted.remembered;
  const now = await readRemembered(store, tenant, server, hosted.upstream.launch.uri, last);
  if (!now || !last) return now !== undefined;
  const isOther = (one: Contract, other: Contract): boolean => one !== other && cidOf(one) !== cidOf(other);
  const isSeenThere = !hosted.observed && isOther(now.observed, last.observed);
  if (!isSeenThere && !isOther(now.approved, last.approved)) return false;
  hosted.remember({ ...now, ...(await changesOf(now, last)) });
  return true;
}

/** Tries again when another process has judged the upstream at the same time (`name_conflict`): its judgement counts. */
async function unlessOvertaken<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const isConflict = error instanceof BerthError && error.code === "name_conflict";
      if (!isConflict || error.data?.["kind"] !== "upstream" || attempt === ATTEMPTS_MAX) throw error;
    }
  }
}

const ATTEMPTS_MAX = 10;

function driftProblems({ held, changes, refused }: Judgement): Problem[] {
  const items = new Set(
    withheldKinds.flatMap((kind) => listItems(held, kind).map((item) => `${kind} ${itemKey(kind, item)}`)),
  );
  const isHeld = ({ subject, name, pointer }: ContractChange): boolean => {
    // The tools that show an app are withheld.
    const isOfApp = subject === "resource" && pointer === "/contents";
    return subject === "server" || isOfApp || items.has(`${subject} ${name}`);
  };
  return changes
    .filter((change) => (refused && change.effect !== "compatible") || isHeld(change) || change.effect === "breaking")
    .map((change) => driftProblem(change, refused || isHeld(change)));
}

function driftProblem(change: ContractChange, isHeld: boolean): Problem {
  const { subject, name } = change;
  const message = `${subjectText(change)}${change.message}`;
  return {
    code: "contract-changed",
    message: isHeld ? `${message} It is withheld until a person approves it.` : message,
    severity: isHeld ? "error" : "warning",
    ...(subject === "tool" && { tool: name }),
  };
}

/** Empty where the message names the subject itself. */
function subjectText({ subject, name, message }: ContractChange): string {
  if (subject === "server") return "The server itself: ";
  if (name === "") return "";
  return message.includes(`"${name}"`) ? "" : `The ${subject} "${name}": `;
}
