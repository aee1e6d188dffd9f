import { createHash } from "node:crypto";
import type { TenantSnapshot } from "../../store/tenant-copies.ts";
import {
  changeLine,
  contentLine,
  FORMAT,
  FORMAT_VERSION,
  type TenantFileCounts,
  type TenantFileHeader,
} from "./format.ts";

/** A summary of a written tenant file. */
export interface Written extends TenantFileCounts {
  /** The bytes of content, as stored. */
  readonly bytes: number;
  readonly secretNames: readonly string[];
}

/**
 * Yields the lines of a tenant's file, with one content at a time in memory, and returns a summary. Throws
 * `content_corrupt`, after which the lines are useless: they have no end.
 */
export function* tenantFile(
  snapshot: TenantSnapshot,
  { tenant, berth }: { tenant: string; berth: string },
): Generator<string, Written> {
  const digest = createHash("sha256");
  const line = (text: string): string => {
    digest.update(text).update("\n");
    return `${text}\n`;
  };
  const { changedAt, limits } = snapshot;
  const header: TenantFileHeader = {
    format: FORMAT,
    version: FORMAT_VERSION,
    berth,
    tenant,
    changedAt: changedAt === null ? null : new Date(changedAt).toISOString(),
    limits,
  };
  yield line(JSON.stringify(header));

  let [contents, bytes, changes] = [0, 0, 0];
  for (const block of snapshot.contents()) {
    contents += 1;
    bytes += block.bytes.length;
    yield line(contentLine(block.cid, block.bytes));
  }
  for (const change of snapshot.changes()) {
    changes += 1;
    yield line(changeLine(change));
  }
  const secretNames = snapshot.secrets();
  for (const secret of secretNames) yield line(JSON.stringify({ secret }));

  const counts: TenantFileCounts = { contents, changes, secrets: secretNames.length };
  yield `${JSON.stringify({ end: counts, sha256: digest.digest("hex") })}\n`;
  return { ...counts, bytes, secretNames };
}
