import type { AuditLinks } from "../../src/audit/audit-entry.ts";
import type { AuditedCall } from "../../src/audit/call-block.ts";
import type { AuditFilter } from "../../src/audit/filter.ts";
import type { AuditRecord } from "../../src/audit/record.ts";
import { searchLog } from "../../src/audit/search.ts";

/** All records of a log, the oldest first. */
export async function recordsOf(
  links: AuditLinks,
  filter: AuditFilter & { tenant?: string } = {},
): Promise<AuditRecord[]> {
  const found = await searchLog(links, { ...filter, limit: 100_000, linksMax: Infinity });
  return found!.records.toReversed();
}

/** A call in the form that observers get. */
export function callOf(some: { tenant?: string; server?: string; tool?: string; text?: string } = {}): AuditedCall {
  const { tenant = "default", server = "echo", tool = "say", text = "hello" } = some;
  return {
    tool: { tenant, server, release: "bafyrelease", tool },
    outcome: "ok",
    beganAt: performance.now(),
    ms: 1.25,
    retries: 0,
    principal: { id: "token:1" },
    trace: { requestId: "request-1" },
    args: { text },
    result: { content: [{ type: "text", text }] },
  };
}
