import { decodeJson, jsonBlock } from "../../../cid.ts";
import type { ContractChange } from "../../../contract/change.ts";
import type { Contract } from "../../../contract/contract.ts";
import type { PendingChange, UpstreamState } from "../../../host/upstream/hosting.ts";
import { textDiff } from "../../api/text-diff.ts";
import type { Fact } from "./health.ts";
import { countOf, timeView } from "./text.ts";

/** A hosted server of others: how it is, and what of it waits for a person. */
export function upstreamView(base: string, server: string, { name, launcher, health, pending }: UpstreamState): object {
  const { state, starts, requests, failure, retryAt, protocolVersion, server: own } = health;
  const facts: Fact[] = [
    { label: isRemote(launcher) ? "Reached at" : "Started from", value: name },
    { label: "By", value: launcher },
    { label: "Isolation", value: isRemote(launcher) ? "it runs elsewhere" : "none: it is a process like your own" },
    { label: "Process", value: STATES[state] },
    ...(own ? [{ label: "Calls itself", value: `${own.name} ${own.version}` }] : []),
    ...(protocolVersion === undefined ? [] : [{ label: "Speaks MCP", value: protocolVersion }]),
    { label: "Starts so far", value: String(starts) },
    { label: "Requests under way", value: String(requests) },
    ...(failure === undefined ? [] : [{ label: "Failed last", value: failure }]),
    ...(retryAt === undefined ? [] : [{ label: "Not tried again before", value: timeView(retryAt).text }]),
  ];
  return { facts, pending: pending && pendingView(base, server, pending) };
}

function isRemote(launcher: string): boolean {
  return launcher === "http" || launcher === "https";
}

const STATES = {
  idle: "not running; it is started when it is needed",
  starting: "starting",
  running: "running",
  failed: "failed; it is tried again when it is needed",
} as const;

function pendingView(base: string, server: string, { contract, changes, approved, observed }: PendingChange): object {
  const groups = new Map<string, ContractChange[]>();
  for (const change of changes) {
    const key = JSON.stringify([change.subject, change.name]);
    groups.set(key, [...(groups.get(key) ?? []), change]);
  }
  const sorted = [...groups.values()].sort((one, other) => rankOf(one) - rankOf(other));
  return {
    contract,
    approve: `${base}/api/servers/${encodeURIComponent(server)}/approve`,
    count: countOf(changes.length, "change"),
    groups: sorted.map((group) => {
      const { subject, name, renamedTo } = group[0]!;
      return {
        subject: subject === "server" ? "The server itself" : subject,
        name,
        changes: group.toSorted(byEffect).map(({ effect, message }) => {
          const { label, tone } = EFFECTS[effect];
          return { label, tone, message };
        }),
        diff: subject === "tool" ? toolDiff(approved, observed, name, renamedTo ?? name) : "",
      };
    }),
  };
}

const EFFECTS = {
  breaking: { label: "breaking", tone: "bad", rank: 0 },
  review: { label: "for you to judge", tone: "warn", rank: 1 },
  compatible: { label: "compatible", tone: "good", rank: 2 },
} as const;

function rankOf(group: readonly ContractChange[]): number {
  return Math.min(...group.map(({ effect }) => EFFECTS[effect].rank));
}

function byEffect(one: ContractChange, other: ContractChange): number {
  return EFFECTS[one.effect].rank - EFFECTS[other.effect].rank;
}

function toolDiff(approved: Contract, observed: Contract, before: string, after: string): string {
  const [old, now] = [toolText(approved, before), toolText(observed, after)];
  const diff = textDiff({ entry: after, files: { ...old } }, { entry: after, files: { ...now } });
  // The names of files say nothing here.
  return diff.replace(/^--- .*\n\+\+\+ .*\n/, "");
}

function toolText({ tools }: Contract, name: string): Record<string, string> {
  const tool = tools.find((each) => each.name === name);
  // In one order, wherever each of the two comes from.
  return { tool: tool ? `${JSON.stringify(decodeJson(jsonBlock(tool).bytes), undefined, 2)}\n` : "" };
}
