import type { ContractChange } from "../../../contract/change.ts";
import { compareInTurns } from "../../../contract/compare.ts";
import type { Contract } from "../../../contract/contract.ts";
import { soundContract } from "../../../contract/sound.ts";
import type { ReleaseParts } from "../../../host/catalog/release.ts";
import type { ReleaseVersion } from "../../../host/catalog/releases.ts";
import { storedStructure } from "../../../host/catalog/stored-structure.ts";
import type { Host } from "../../../host/host.ts";
import { decodeJsonInTurns, type Cid } from "../../../lib/cid.ts";
import { byEffect, changeView, type ChangeView } from "./change-view.ts";
import { countOf } from "./text.ts";

/** The differences between a release and the one before it, in words. */
export interface ReleaseChanges {
  readonly text: string;
  /** The first changes that clients see, breaking ones first. */
  readonly changes: readonly ChangeView[];
  readonly more: string;
  /** The address that compares both sources; empty if they are the same. */
  readonly compareAt: string;
}

interface Place {
  readonly host: Pick<Host, "content">;
  readonly tenant: string;
  readonly base: string;
}

/** Contracts with more bytes in total are not compared for one page. */
const CONTRACT_BYTES_MAX = 1_000_000;
const CHANGES_SHOWN = 5;
/** Bounds the comparisons of one page to about half a second. */
const STEPS_MAX = 100_000;

/** The changes of each of the first `max` releases, which are listed newest first. */
export async function releaseChanges(
  place: Place,
  server: string,
  releases: readonly ReleaseVersion[],
  max: number,
): Promise<ReadonlyMap<Cid, ReleaseChanges>> {
  const all = new Map<Cid, ReleaseChanges>();
  const contracts = contractReader(place);
  for (const [index, { release, contract }] of releases.slice(0, max).entries()) {
    const before = releases[index + 1];
    const now = await contracts(contract);
    if (!before) {
      all.set(release, { ...NO_CHANGES, text: now ? firstText(now) : "" });
      continue;
    }
    const parts = await changedParts(place, server, before.release, release);
    const old = contract === before.contract ? now : await contracts(before.contract);
    const changes = old && now ? await compareInTurns(old, now, STEPS_MAX) : [];
    const isSameContract = contract === before.contract;
    all.set(release, {
      text: `${isSameContract ? "Clients see no difference. " : old && now ? "" : TOO_LARGE}${parts.text}`,
      ...changesShown(changes),
      compareAt: parts.compareAt,
    });
  }
  return all;
}

const NO_CHANGES = { changes: [], more: "", compareAt: "" };
const TOO_LARGE = "Clients see other tools, resources or prompts; they are too large to compare here. ";

/** Reads contracts until the budget of the page is used up; undefined for those beyond it, and for damaged ones. */
function contractReader({ host, tenant }: Place): (cid: Cid) => Promise<Contract | undefined> {
  let last: { readonly cid: Cid; readonly contract: Contract | undefined } | undefined;
  let bytesLeft = CONTRACT_BYTES_MAX;
  return async (cid) => {
    if (last?.cid === cid) return last.contract;
    const bytes = bytesLeft > 0 ? await host.content(tenant, cid).catch(() => undefined) : undefined;
    bytesLeft -= bytes?.length ?? 0;
    const contract = bytes && bytesLeft >= 0 ? await soundContract(await decodeJsonInTurns(bytes)) : undefined;
    last = { cid, contract };
    return contract;
  };
}

function firstText({ tools, resources, resourceTemplates, prompts }: Contract): string {
  const counts = [
    [tools.length, "tool"],
    [resources.length + resourceTemplates.length, "resource"],
    [prompts.length, "prompt"],
  ] as const;
  const words = counts.filter(([count]) => count > 0).map(([count, noun]) => countOf(count, noun));
  return `The first release${words.length > 0 ? `, with ${words.join(", ")}` : ""}.`;
}

async function changedParts(
  { host, tenant, base }: Place,
  server: string,
  before: Cid,
  after: Cid,
): Promise<{ readonly text: string; readonly compareAt: string }> {
  const [old, now] = [await storedStructure(host, tenant, before), await storedStructure(host, tenant, after)] as [
    ReleaseParts | undefined,
    ReleaseParts | undefined,
  ];
  if (!old || !now) return { text: "", compareAt: "" };
  const differs = (part: keyof ReleaseParts): boolean => old[part] !== now[part];
  const words = [
    ...(differs("definition") ? ["source"] : []),
    // An entry names its definition, so it differs with the source.
    ...(differs("config") && !differs("definition") ? ["entry in mcps"] : []),
    ...(differs("packages") ? ["packages"] : []),
  ];
  const { definition: from } = old;
  const { definition: to } = now;
  const query = new URLSearchParams({ server, of: "definition", from: from ?? "", to: to ?? "" });
  return {
    text: words.length > 0 ? `Changed: ${words.join(", ")}.` : "",
    compareAt: from && to && from !== to ? `${base}/servers?${query.toString()}` : "",
  };
}

function changesShown(changes: readonly ContractChange[]): Pick<ReleaseChanges, "changes" | "more"> {
  const more = changes.length - CHANGES_SHOWN;
  const first = changes.toSorted(byEffect).slice(0, CHANGES_SHOWN);
  return { changes: first.map(changeView), more: more > 0 ? countOf(more, "more change") : "" };
}
