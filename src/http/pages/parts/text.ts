import { relativeTime } from "../../../lib/relative-time.ts";

const LINE_MAX = 140;

/** The first line of a text, cut where it would be too long to scan. */
export function firstLine(text: string): string {
  const line = text.trim().split("\n", 1)[0]!;
  return line.length > LINE_MAX ? `${line.slice(0, LINE_MAX).trimEnd()}…` : line;
}

/** `bafkreia…4ofqu`: enough of a CID to tell two apart by eye. */
export function shortCid(cid: string): string {
  return cid.length <= 20 ? cid : `${cid.slice(0, 8)}…${cid.slice(-6)}`;
}

const numbers = new Intl.NumberFormat("en");

export function countOf(count: number, noun: string): string {
  return `${numbers.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A time as `views/partials/time.hbs` shows it: how long ago, and exactly on hover. */
export interface TimeView {
  readonly iso: string;
  /** `5 min ago` */
  readonly text: string;
  /** `2026-11-26 15:53 UTC`; scripts show it in the reader's time zone. */
  readonly exact: string;
}

export function timeView(ms: number, now = Date.now()): TimeView {
  const iso = new Date(ms).toISOString();
  return { iso, text: relativeTime(ms, now), exact: `${iso.slice(0, 16).replace("T", " ")} UTC` };
}

/** The author of a change, for readers: some changes are Berth's own. */
export function authorText(by: string): string {
  return AUTHORS.get(by) ?? by.replace(/^page, /, "").replace(/^api, (.*)$/, "$1 (API)");
}

const AUTHORS: ReadonlyMap<string, string> = new Map([
  ["load", "Berth, on first use"],
  ["image", "the boot image"],
  ["hold", "Berth, as hold allows"],
  ["page", "a browser"],
  ["api", "the API"],
]);

/** `1.2 kB` */
export function bytesText(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} kB`;
  return bytes < 1_000_000_000 ? `${(bytes / 1_000_000).toFixed(1)} MB` : `${(bytes / 1_000_000_000).toFixed(1)} GB`;
}

/** Quotes a text as one shell word, whatever it contains. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
