import type { LongReader } from "../../upstream/messages/long-answers.ts";
import { LongObject, LongResult } from "../offers/long-result.ts";
import { LongToolResult } from "../offers/upstream-results.ts";
import type { Checks } from "./checks.ts";
import type { ReadAnswer } from "./tasks.ts";

/** Reads long messages of a tenant's upstreams in the check process. */
export function longReader(
  checks: Pick<Checks, "readUpstream" | "readAnswer" | "scalarsIn">,
  tenant: string,
): LongReader {
  return {
    message: (bytes) => checks.readUpstream(tenant, bytes, false),
    event: (bytes) => checks.readUpstream(tenant, bytes, true),
    scalars: (args, paths) => checks.scalarsIn(tenant, args, paths),
    async toolResult(what, answer) {
      const { tool, transient, warnings } = await checks.readAnswer(tenant, what, "tool", answer);
      return toolResultOf({ tool: tool!, transient, warnings });
    },
    async taskResult(what, answer) {
      const { task, tool, transient, warnings } = await checks.readAnswer(tenant, what, "task", answer);
      if (!tool) return { detail: { ...task }, result: undefined };
      return { detail: { ...task }, result: toolResultOf({ tool, transient, warnings }) };
    },
    async resourceResult(what, answer) {
      return new LongObject((await checks.readAnswer(tenant, what, "resource", answer)).object!);
    },
    async promptResult(what, answer) {
      return new LongObject((await checks.readAnswer(tenant, what, "prompt", answer)).object!);
    },
    async completion(what, answer) {
      return { ...(await checks.readAnswer(tenant, what, "completion", answer)).completion! };
    },
  };
}

function toolResultOf(read: {
  readonly tool: NonNullable<ReadAnswer["tool"]>;
  readonly transient: string | undefined;
  readonly warnings: readonly string[];
}): LongToolResult {
  const { tool, transient, warnings } = read;
  const result = "inputRequests" in tool ? tool : new LongResult(tool);
  return new LongToolResult({ result, ...(transient !== undefined && { transient }) }, warnings);
}
