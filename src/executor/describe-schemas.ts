import type { DescribeSchemas } from "../discover/discovery.ts";
import type { Executor, LoadOutcome } from "./executor.ts";

/** Evaluates schemas in a separate guest process, which has no grants and may make no requests of the host. */
export function createSchemaDescriber(load: Executor["load"], tenant: string): DescribeSchemas {
  return async (bundle, describes) => {
    const outcome = await load({ tenant, code: async () => bundle, describes });
    if (outcome.kind === "loaded" && outcome.described) return outcome.described;
    const isPassing = outcome.kind === "unfinished" ? outcome.lacksTime : !FINAL_KINDS.has(outcome.kind);
    return { fault: explain(outcome), ...(isPassing && { isPassing }) };
  };
}

const FINAL_KINDS: ReadonlySet<LoadOutcome["kind"]> = new Set(["failed", "rejected", "endless"]);

const LOAD_HINT = "; it is loaded without the variables of its entry: read those in the function that needs them";

function explain(outcome: LoadOutcome): string {
  switch (outcome.kind) {
    case "failed":
    case "rejected":
      return outcome.error.message + (outcome.error.reason === "load" ? LOAD_HINT : "");
    case "endless":
      return `its top level took more than ${outcome.loadMs} ms of CPU time`;
    case "unfinished": {
      const reason = outcome.lacksTime ? "the machine is busy" : "move what it awaits into the function that needs it";
      return `its top level had not finished after ${outcome.loadElapsedMs} ms: ${reason}`;
    }
    default:
      return "no guest could be started for it";
  }
}
