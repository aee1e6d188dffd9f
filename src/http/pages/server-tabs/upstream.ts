import type { ContractChange } from "../../../contract/change.ts";
import type { Contract } from "../../../contract/contract.ts";
import {
  byKey,
  withheldKinds,
  listItems,
  type WithheldItem,
  type WithheldKind,
} from "../../../contract/withheld-items.ts";
import type { UpstreamState } from "../../../host/upstreams/hosting.ts";
import { decodeJson, jsonBlock } from "../../../lib/cid.ts";
import { indentedJson } from "../../../lib/json.ts";
import { printable, printableLine } from "../../../lib/printable.ts";
import { mayChange } from "../../access/permit.ts";
import { textDiff } from "../../api/text-diff.ts";
import type { Fragment } from "../fragment.ts";
import type { Pages } from "../pages.ts";
import { byEffect, EFFECTS } from "../parts/change-view.ts";
import type { Fact } from "../parts/health.ts";
import { countOf, timeView } from "../parts/text.ts";
import type { ServerTab } from "./tab.ts";

/** The server that others wrote: how it runs, and what has changed since a person approved it. */
export const upstreamTab: ServerTab = {
  id: "upstream",
  label: "Upstream",
  isFor: ({ isUpstream, isPinned }) => isUpstream && !isPinned,
  async view({ name }, context, { host, pages, tenant, base }) {
    const now = await host.upstreamNow(tenant, name);
    const shown = now && (await upstreamView(pages, base, name, now, mayChange(context, "entry", name)));
    return { upstream: shown?.view, fragments: shown?.fragments ?? [] };
  },
};

/** The view of an upstream: its health, the changes that wait for a person, and those that were taken over without one. */
export async function upstreamView(
  pages: Pick<Pages, "fragment">,
  base: string,
  server: string,
  { name, launcher, health, pending, autoApproved, stderr, node }: UpstreamState,
  mayChange: boolean,
): Promise<{ readonly view: object; readonly fragments: readonly Fragment[] }> {
  const { state, starts, requests, failure, retryAt, protocolVersion, server: own, deviations = [] } = health;
  const facts: Fact[] = [
    { label: isRemote(launcher) ? "Reached at" : "Started from", value: name },
    { label: "By", value: launcher },
    {
      label: "Isolation",
      value: isRemote(launcher) ? "Berth does not run it" : "none: it runs like a process of your own",
    },
    {
      label: isRemote(launcher) ? "Connection" : "Process",
      value: (isRemote(launcher) ? CONNECTIONS : PROCESSES)[state],
    },
    ...(node
      ? [{ label: "Runs once, on the node", value: node.isThis ? `${node.id}, which shows this` : node.id }]
      : []),
    ...(own ? [{ label: "Calls itself", value: `${own.name} ${own.version}` }] : []),
    ...(protocolVersion === undefined ? [] : [{ label: "Speaks MCP", value: protocolVersion }]),
    { label: isRemote(launcher) ? "Connection attempts" : "Starts", value: String(starts) },
    { label: "Requests in progress", value: String(requests) },
    // The head of the page shows the failure of an upstream that is down.
    ...(failure === undefined || state === "failed" ? [] : [{ label: "Last failure", value: failure }]),
    ...(retryAt === undefined ? [] : [{ label: "Next attempt after", value: timeView(retryAt).exact }]),
    ...deviations.slice(0, DEVIATIONS_MAX).map(({ what, count }) => ({
      label: "Deviates",
      value: `${printableLine(what)} (${countOf(count, "time")})`,
    })),
  ];
  const wrote = mayChange ? printable(stderr) : "";
  const waits = pending && { ...pending, before: pending.approved, after: pending.observed };
  const taken = autoApproved && { ...autoApproved, before: autoApproved.reviewed, after: autoApproved.approved };
  const viewOf = async (changed: Changed) => {
    const { groups, ...view } = changesView(base, server, changed);
    return { ...view, groups: await pages.fragment("pending", groups) };
  };
  const waitsView = waits && (await viewOf(waits));
  const takenView = taken && (await viewOf(taken));
  return {
    // One button approves all that the server offers: there are not two.
    view: { facts, wrote, pending: waitsView, autoApproved: takenView && { ...takenView, isAlone: !waitsView } },
    fragments: [waitsView, takenView].flatMap((view) => (view ? [view.groups] : [])),
  };
}

/** Kinds of malformed messages that a page shows. */
const DEVIATIONS_MAX = 10;

function isRemote(launcher: string): boolean {
  return launcher === "http" || launcher === "https";
}

const PROCESSES = {
  idle: "not running; it starts when it is needed",
  starting: "starting",
  running: "running",
  failed: "failed; it is tried again when it is needed",
} as const;

const CONNECTIONS = {
  ...PROCESSES,
  idle: "not connected; it is reached when it is needed",
  starting: "connecting",
  running: "connected",
} as const;

interface Changed {
  /** CID of the contract that the upstream offers. */
  readonly contract: string;
  readonly changes: readonly ContractChange[];
  readonly before: Contract;
  readonly after: Contract;
}

function changesView(base: string, server: string, { contract, changes, before, after }: Changed) {
  const groups = new Map<string, ContractChange[]>();
  for (const change of changes) {
    const key = JSON.stringify([change.subject, change.name]);
    const group = groups.get(key);
    if (group) group.push(change);
    else groups.set(key, [change]);
  }
  const sorted = [...groups.values()].sort((one, other) => rankOf(one) - rankOf(other));
  const more = sorted.length - GROUPS_MAX;
  return {
    contract,
    approve: `${base}/api/servers/${encodeURIComponent(server)}/approve`,
    count: countOf(changes.length, "change"),
    counts: (["breaking", "review", "compatible"] as const).flatMap((effect) => countView(changes, effect)),
    groups: groupViews(sorted.slice(0, GROUPS_MAX), byKind(before), byKind(after)),
    more:
      more > 0
        ? `There are ${more} more changes: GET ${base}/api/servers/${encodeURIComponent(server)}/upstream lists them.`
        : "",
  };
}

/** No page shows more: a reader of so many knows what to think of the server. */
const GROUPS_MAX = 200;

function countView(changes: readonly ContractChange[], effect: ContractChange["effect"]): object[] {
  const count = changes.filter((change) => change.effect === effect).length;
  const { label, tone } = EFFECTS[effect];
  return count > 0 ? [{ text: `${count} ${label}`, tone }] : [];
}

/** Above this number of changed items, their diffs start closed. */
const OPEN_DIFFS_MAX = 5;

function* groupViews(groups: readonly ContractChange[][], before: Items, after: Items): Generator<object> {
  for (const group of groups) {
    const { subject, name, renamedTo } = group[0]!;
    const [old, now] = [before.get(subject), after.get(subject)];
    yield {
      subject: subject === "server" ? "The server" : subject,
      name,
      changes: group.toSorted(byEffect).map(({ effect, message }) => {
        const { label, tone } = EFFECTS[effect];
        return { label, tone, message };
      }),
      diff: old && now ? diffLines(itemDiff(old.get(name), now.get(renamedTo ?? name))) : [],
      open: groups.length <= OPEN_DIFFS_MAX,
    };
  }
}

function diffLines(diff: string): object[] {
  const lines = diff.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((text) => ({ text, change: LINE_CHANGES[text[0] ?? ""] ?? "same" }));
}

const LINE_CHANGES: Readonly<Record<string, string>> = { "+": "added", "-": "removed", "@": "hunk" };

type Items = ReadonlyMap<ContractChange["subject"], ReadonlyMap<string, WithheldItem>>;

function byKind(contract: Contract): Items {
  return new Map(withheldKinds.map((kind: WithheldKind) => [kind, byKey(kind, listItems(contract, kind))]));
}

function rankOf(group: readonly ContractChange[]): number {
  return Math.min(...group.map(({ effect }) => EFFECTS[effect].rank));
}

function itemDiff(before: WithheldItem | undefined, after: WithheldItem | undefined): string {
  const [old, now] = [itemText(before), itemText(after)];
  if (old === undefined || now === undefined) return "Too long to be compared line by line here.";
  const diff = textDiff({ entry: "item", files: { item: old } }, { entry: "item", files: { item: now } });
  // File names mean nothing here.
  return diff.replace(/^--- .*\n\+\+\+ .*\n/, "");
}

/** The most bytes of an item without indentation; a page has hundreds of these. */
const DIFF_BYTES_MAX = 32 * 1024;

/** The text of a tool, prompt or skill; undefined when it is too long. */
function itemText(item: WithheldItem | undefined): string | undefined {
  if (!item) return "";
  // Fields are in one order, wherever each of the two comes from.
  const { bytes } = jsonBlock(item);
  return bytes.length > DIFF_BYTES_MAX ? undefined : `${indentedJson(decodeJson(bytes))}\n`;
}
