import { compareContractsYielding } from "../../../contract/compare.ts";
import type { Contract } from "../../../contract/contract.ts";
import { sanitizeContract } from "../../../contract/sanitize.ts";
import type { ReleaseParts } from "../../../host/catalog/release.ts";
import type { ReleaseVersion } from "../../../host/catalog/releases.ts";
import { storedStructure } from "../../../host/directory/stored-structure.ts";
import type { Host } from "../../../host/host.ts";
import { decodeJsonYielding, type Cid } from "../../../lib/cid.ts";
import { byEffect, changeView } from "./change-view.ts";
import { countOf } from "./text.ts";

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

/** The changes of each of the first `max` releases, in words. They are listed newest first. */
export async function releaseChanges(
  place: Place,
  server: string,
  releases: readonly ReleaseVersion[],
  max: number,
): Promise<object[]> {
  const all: object[] = [];
  const read = contractReader(place);
  for (const [index, { release, contract }] of releases.slice(0, max).entries()) {
    const before = releases[index + 1];
    const now = await read(contract);
    if (!before) {
      all.push({ text: now ? firstText(now) : "", changes: [], more: "", compareAt: "" });
      continue;
    }
    const old = await read(before.contract);
    const changes = old && now && old !== now ? await compareContractsYielding(old, now, STEPS_MAX) : [];
    const more = changes.length - CHANGES_SHOWN;
    const effect = contract === before.contract ? "Clients see no difference. " : old && now ? "" : TOO_LARGE;
    const { text, compareAt } = await changedParts(place, server, before.release, release);
    all.push({
      text: effect + text,
      changes: changes.toSorted(byEffect).slice(0, CHANGES_SHOWN).map(changeView),
      more: more > 0 ? countOf(more, "more change") : "",
      compareAt,
    });
  }
  return all;
}

const TOO_LARGE = "Clients see other tools, resources or prompts; they are too large to compare here. ";

/** Reads contracts until the budget of the page is used up; undefined for those beyond it, and for damaged ones. */
function contractReader({ host, tenant }: Place): (cid: Cid) => Promise<Contract | undefined> {
  let last: { readonly cid: Cid; readonly contract: Contract | undefined } | undefined;
  let bytesLeft = CONTRACT_BYTES_MAX;
  return async (cid) => {
    if (last?.cid === cid) return last.contract;
    const bytes = bytesLeft > 0 ? await host.content(tenant, cid).catch(() => undefined) : undefined;
    bytesLeft -= bytes?.length ?? 0;
    const contract = bytes && bytesLeft >= 0 ? await sanitizeContract(await decodeJsonYielding(bytes)) : undefined;
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

/** `compareAt` is the address that compares both sources; empty if they are the same. */
async function changedParts({ host, tenant, base }: Place, server: string, before: Cid, after: Cid) {
  const old = (await storedStructure(host, tenant, before)) as ReleaseParts | undefined;
  const now = (await storedStructure(host, tenant, after)) as ReleaseParts | undefined;
  if (!old || !now) return { text: "", compareAt: "" };
  const { definition: from, config, packages } = old;
  const { definition: to } = now;
  const words = [
    ...(from === to ? [] : ["source"]),
    // An entry names its definition, so it differs with the source.
    ...(config === now.config || from !== to ? [] : ["entry in mcps"]),
    ...(packages === now.packages ? [] : ["packages"]),
  ];
  const query = new URLSearchParams({ server, of: "definition", from: from ?? "", to: to ?? "" });
  return {
    text: words.length > 0 ? `Changed: ${words.join(", ")}.` : "",
    compareAt: from && to && from !== to ? `${base}/servers?${query.toString()}` : "",
  };
}
