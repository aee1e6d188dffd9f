import type { TaskSupport } from "../discover/discovery.ts";
import { BerthError } from "../errors.ts";
import type { GuestOutcome } from "../executor/executor.ts";
import type { JsonObject } from "../json.ts";
import { lazyValidator } from "./arguments.ts";
import type { CallOptions, Tool, ToolContract } from "./catalog.ts";
import { failure, toResult } from "./content.ts";
import { guestFailed, messageOf, problemsOf } from "./failures.ts";
import type { Redirects } from "./uris/redirect.ts";

/** Carries out a call whose arguments are valid. Never rejects. */
export type Run = (args: JsonObject, options: CallOptions) => Promise<GuestOutcome>;

/** A tool that is ready to be called: arguments are checked before `run`, and failures become results. */
export function createTool(contract: ToolContract, run: Run, redirects: Redirects, task?: TaskSupport): Tool {
  const checkArguments = lazyValidator(contract.inputSchema);
  const checkOutput = contract.outputSchema && lazyValidator(contract.outputSchema);

  return {
    contract,
    ...(task && { task }),
    async call(args, options) {
      const invalid = problemsOf(checkArguments, args);
      if (invalid) {
        if (options.invalidRejects) throw new BerthError("invalid_params", `the tool "${contract.name}": ${invalid}`);
        return failure(`Invalid arguments for the tool "${contract.name}": ${invalid}`);
      }

      const outcome = await run(args, options);
      if (!outcome.ok) {
        const { error } = outcome;
        const what = `The tool "${contract.name}"`;
        const rejects = error.protocol || (options.failuresReject && error.reason !== "thrown");
        if (rejects) throw guestFailed(what, error);
        return failure(messageOf(what, error));
      }
      if (outcome.value.kind === "asks") return { inputRequests: outcome.value.inputRequests };

      if (outcome.value.kind === "redirect") return redirects.asResult(outcome.value.location, options);

      const result = toResult(outcome.value, checkOutput !== undefined);
      if (!checkOutput || result.isError) return result;
      const broken = problemsOf(checkOutput, result.structuredContent ?? null);
      return broken
        ? failure(`The tool "${contract.name}" returned what its own type does not allow: ${broken}`)
        : result;
    },
  };
}
