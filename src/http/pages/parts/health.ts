import type { ReleaseVersion } from "../../../host/catalog/releases.ts";
import type { RecentCall, RecentLine } from "../../../host/journal/activity.ts";
import type { CallOutcome } from "../../../host/journal/record.ts";
import type { Catalog } from "../../../host/offers/catalog.ts";
import { printable, printableText } from "../../../lib/printable.ts";
import { pathsOf } from "./paths.ts";
import { releaseChanges } from "./release-changes.ts";
import { authorText, bytesText, shortCid, timeView, type TimeView } from "./text.ts";

export interface Fact {
  readonly label: string;
  readonly value: string;
  readonly href?: string;
  /** All of a value that is shown short. */
  readonly whole?: string;
  /** The use of the value. */
  readonly use?: string;
  /** A time, shown in place of the value. */
  readonly at?: TimeView;
}

export function healthFacts(
  { release, contractCid, hidden }: Catalog,
  now: { base: string; isolation: string | undefined; since: ReleaseVersion | undefined },
): Fact[] {
  const cid = (label: string, value: string, use: string): Fact => ({
    label,
    value: shortCid(value),
    whole: value,
    href: `${now.base}/cid/${value}`,
    use,
  });
  return [
    cid("Release", release, "the source, the entry in mcps and the contract"),
    cid("Contract", contractCid, "the tools, resources and prompts that clients see"),
    ...(now.since ? [{ label: "Since", value: "", at: timeView(now.since.changedAt) }] : []),
    ...(now.isolation === undefined ? [] : [{ label: "Guest code runs", value: now.isolation }]),
    ...(hidden.length > 0 ? [{ label: "Hidden by its code", value: hidden.map(({ name }) => name).join(", ") }] : []),
  ];
}

/** The most releases listed; earlier ones keep their addresses all the same. */
const RELEASES_MAX = 50;

export async function releaseViews(
  releases: readonly ReleaseVersion[],
  server: string,
  place: Parameters<typeof releaseChanges>[0] & { readonly origin: string; readonly writable: boolean },
): Promise<object[]> {
  const { origin, base, writable } = place;
  const changes = await releaseChanges(place, server, releases, RELEASES_MAX);
  return releases.slice(0, RELEASES_MAX).map(({ release, changedAt, by, current, withdrawn }, index) => {
    const pinned = pathsOf(base, `${server}@${release}`);
    return {
      release,
      short: shortCid(release),
      page: pinned.page,
      url: `${origin}${pinned.endpoint}`,
      since: timeView(changedAt),
      by: authorText(by),
      current,
      withdrawn,
      changes: changes[index],
      restore:
        current || withdrawn || !writable
          ? ""
          : `${base}/api/servers/${encodeURIComponent(server)}/releases/${release}/restore`,
    };
  });
}

const TONES: Readonly<Record<CallOutcome, string>> = { ok: "good", error: "bad", invalid: "warn", asked: "accent" };
const WORDS: Readonly<Record<CallOutcome, string>> = {
  ok: "ok",
  error: "error",
  invalid: "bad arguments",
  asked: "asked the user",
};

export function callViews(calls: readonly RecentCall[]): object[] {
  return calls.map(({ at, tool, outcome, ms, size, retries }) => ({
    at: timeView(at),
    tool,
    ...callOutcome(outcome, retries),
    ms: msText(ms),
    size: bytesText(size),
  }));
}

export function callOutcome(
  outcome: CallOutcome,
  retries: number,
): { readonly outcome: string; readonly tone: string } {
  const word = WORDS[outcome];
  return { outcome: retries === 0 ? word : `${word}, tried ${retries + 1} times`, tone: TONES[outcome] };
}

export function msText(ms: number): string {
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

const LINE_TONES: Readonly<Partial<Record<RecentLine["kind"], string>>> = {
  failed: "bad",
  emergency: "bad",
  alert: "bad",
  critical: "bad",
  error: "bad",
  warning: "warn",
};

export function lineViews(lines: readonly RecentLine[]): object[] {
  return lines.map(({ at, tool, kind, message, location = "" }) => ({
    at: timeView(at),
    tool,
    kind,
    tone: LINE_TONES[kind] ?? "",
    message: printableText(message),
    location: printable(location),
  }));
}
