import type { Cid } from "../../lib/cid.ts";
import type { TenantStaging } from "../../store/tenant-copies.ts";
import type { Problem } from "../../lib/problem.ts";
import { lineStarts, type TenantFileCounts, type TenantFileHeader } from "./format.ts";
import { linesOf, type Line } from "./lines.ts";
import { TenantFileChecks, type CheckOptions } from "./checks.ts";

export interface ReadOptions extends CheckOptions {
  readonly limits: CheckOptions["limits"] & { readonly importBytes: number; readonly importLineBytes: number };
  /** Receives the header before the rest is read. A rejection ends the reading. */
  readonly onHeader?: (header: TenantFileHeader) => Promise<void>;
}

/** The contents of a file, or all its problems. */
export type ReadTenantFile =
  | { readonly problems: readonly Problem[] }
  | {
      readonly problems: undefined;
      readonly header: TenantFileHeader;
      readonly counts: TenantFileCounts;
      /** The bytes of content, as stored. */
      readonly bytes: number;
      /** The value of the variable `mcps`. */
      readonly mcps: Cid | undefined;
      readonly secretNames: readonly string[];
    };

/** The most problems of a file that are listed. */
const PROBLEMS_MAX = 100;

/**
 * Reads a tenant's file, puts its contents into `into`, and checks everything: that each content matches its CID, that
 * names are valid and stand for content of this very file, and that the file is complete and unchanged. One line at a
 * time is in memory. Does not throw for problems of the file.
 */
export async function readTenantFile(
  source: AsyncIterable<Uint8Array>,
  into: Pick<TenantStaging, "put" | "content" | "add">,
  options: ReadOptions,
): Promise<ReadTenantFile> {
  const { importBytes, importLineBytes } = options.limits;
  const checks = new TenantFileChecks(into, options);
  const bounded = new BoundedSource(source, importBytes);
  for await (const line of linesOf(bounded, importLineBytes)) {
    takeLine(checks, line, importLineBytes);
    // If this is no tenant file, further problems would not help.
    if (!checks.header || checks.problems.length >= PROBLEMS_MAX) break;
    if (line.number === 1) await options.onHeader?.(checks.header);
  }
  if (bounded.isTooLong) {
    checks.complain("file-too-long", `The file has more than ${importBytes} bytes (BERTH_IMPORT_BYTES)`);
  } else if (checks.problems.length < PROBLEMS_MAX) checks.end();
  const { problems, header, counts, bytes, mcps, secretNames } = checks;
  if (problems.length > 0 || !header) return { problems };
  return { problems: undefined, header, counts, bytes, mcps, secretNames };
}

function takeLine(checks: TenantFileChecks, { number, bytes, isWhole }: Line, importLineBytes: number): void {
  checks.line = number;
  if (!bytes) {
    checks.leaveOut("line-too-long", `The line has more than ${importLineBytes} bytes (BERTH_IMPORT_LINE_BYTES)`);
  } else if (!isWhole && number > 1) {
    checks.leaveOut("cut-line", "The line is cut: the end of it and of the file is missing");
  } else if (number === 1) {
    checks.takeHeader(bytes);
  } else {
    const start = Buffer.from(bytes.subarray(0, 16)).toString("latin1");
    const [what] = Object.entries(lineStarts).find(([, text]) => start.startsWith(text)) ?? [];
    checks.take(what as keyof typeof lineStarts | undefined, bytes);
  }
}

/** Ends after a number of bytes. */
class BoundedSource {
  isTooLong = false;
  readonly #source: AsyncIterable<Uint8Array>;
  readonly #bytesMax: number;

  constructor(source: AsyncIterable<Uint8Array>, bytesMax: number) {
    this.#source = source;
    this.#bytesMax = bytesMax;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    let total = 0;
    for await (const piece of this.#source) {
      total += piece.length;
      if (total > this.#bytesMax) {
        this.isTooLong = true;
        return;
      }
      yield piece;
    }
  }
}
