import type { AuditLinks } from "../../audit/audit-entry.ts";
import { formatHead, parseHead } from "../../audit/chain.ts";
import { type FilterTexts, parseFilter } from "../../audit/filter.ts";
import type { AuditRecord } from "../../audit/record.ts";
import { searchLog } from "../../audit/search.ts";
import { formatFault, verifyLog, type VerifiedLog } from "../../audit/verify.ts";
import { printJson } from "../../commands/print.ts";
import { BerthError } from "../../lib/errors.ts";
import type { WithStore } from "../feature.ts";

interface SearchOptions extends FilterTexts {
  readonly data?: string;
  readonly tenant?: string;
  /** `json` prints one object a line; the default when standard output is not a terminal. */
  readonly format?: string;
}

/** `berth audit`: records of all tenants and of the service, the newest first. */
export function searchAudit(withStore: WithStore, options: SearchOptions): Promise<number> {
  const { tenant, format = process.stdout.isTTY ? "text" : "json" } = options;
  if (format !== "json" && format !== "text") {
    throw new BerthError("invalid_params", `--format is json or text, not "${format}"`);
  }
  const filter = parseFilter(options);
  return withStore(options, async ({ audit: links }) => {
    const found = await searchLog(links, { ...filter, tenant, linksMax: Infinity });
    for (const record of found?.records ?? [])
      if (format === "json") printJson(record);
      else console.log(lineOf(record));
    if (found?.next !== undefined) console.error("There are earlier records: use --until, or a larger --limit.");
    return 0;
  });
}

/** `berth audit verify`: exit code 1, and the first link that does not fit, when the log was changed. */
export function verifyAudit(
  withStore: WithStore,
  options: { readonly data?: string; readonly head?: string; readonly json?: boolean },
): Promise<number> {
  const kept = options.head === undefined ? undefined : parseHead(options.head);
  if (options.head !== undefined && !kept) {
    throw new BerthError("invalid_params", "--head takes what an earlier berth audit verify printed: NUMBER:HASH");
  }
  return withStore(options, async ({ audit: links }, { limits }) => {
    const { fault, ...verified } = await verifyLog(links, kept, limits);
    const { head, ...counts } = fault ? verified : await anchored(links, verified);
    const text = head && formatHead(head);
    if (options.json) {
      printJson({ ok: !fault, fault, head: text, ...counts });
    } else if (fault) {
      console.error(`The log does not fit at ${formatFault(fault)}.`);
    } else {
      if (text !== undefined) console.log(text);
      console.error(counts.links + counts.anchors + counts.removedLinks === 0 ? "The log is empty." : saidOf(counts));
    }
    return fault ? 1 : 0;
  });
}

type Verified = Omit<VerifiedLog, "fault">;

/** With a head that stands for all that was verified, where an anchor can be written. */
async function anchored(links: AuditLinks, verified: Verified): Promise<Verified> {
  try {
    return { ...verified, head: await links.anchor({ now: true, patient: true }), unanchored: 0 };
  } catch {
    return verified;
  }
}

function saidOf(counts: Omit<Verified, "head">): string {
  const { chains, links, unanchored, records, removedRecords, removedLinks } = counts;
  const removed = removedRecords > 0 ? `; retention has removed the contents of ${removedRecords} of them` : "";
  const begins = removedLinks === 0 ? "" : `; retention has removed ${removedLinks} links before them`;
  const rest =
    unanchored === 0 ? "" : `; the store cannot be written, so its head does not stand for ${unanchored} of them`;
  const kept = "Keep its head elsewhere, and give it to --head later: only that shows whether the end was cut off.";
  return `The log is whole: ${records} records in ${links} links, ${chains} chains${removed}${begins}${rest}. ${kept}`;
}

/** As `2026-11-22T08:00:00.000Z  acme  call  ok  {"server":"echo",…}`, with common fields first. */
function lineOf({ at, tenant, kind, outcome, ...facts }: AuditRecord): string {
  const told = Object.entries(facts).map(([name, fact]) => `${name}=${textOf(fact)}`);
  const cells = [
    at,
    (tenant ?? "-").padEnd(10),
    kind.padEnd(9),
    (typeof outcome === "string" ? outcome : "").padEnd(7),
    told.join(" "),
  ];
  return cells
    .join(" ")
    .replace(/\p{Cc}/gu, " ")
    .trimEnd();
}

function textOf(fact: unknown): string {
  if (typeof fact === "string" && /^[^\s"]+$/.test(fact)) return fact;
  return JSON.stringify(fact);
}
