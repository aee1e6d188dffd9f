import type { DiscoveredTool } from "../discover/discovery.ts";
import { BerthError } from "../errors.ts";
import type { GuestOutcome } from "../executor/executor.ts";
import type { JsonObject } from "../json.ts";
import { lazyValidator } from "./arguments.ts";
import type { Activity } from "./activity.ts";
import type { CallOptions, CallResult, Tool, ToolContract } from "./catalog.ts";
import { failure, sizeOf, toConfiguredResult, toResult, type ReturnedValue } from "./content.ts";
import { guestFailed, messageOf, problemsOf } from "./failures.ts";
import type { Redirects } from "./uris/redirect.ts";

/** Carries out a call whose arguments are valid. Never rejects. */
export type Run = (args: JsonObject, options: CallOptions) => Promise<GuestOutcome>;

/** What a tool has of its server. */
export interface ToolParts {
  readonly redirects: Redirects;
  readonly activity: Activity;
}

/** A tool that is ready to be called: arguments are checked before `run`, failures become results, each call is noted. */
export function createTool(
  contract: ToolContract,
  run: Run,
  parts: ToolParts,
  { task, outputSchema }: Pick<DiscoveredTool, "task" | "outputSchema">,
): Tool {
  const { name } = contract;
  const { redirects, activity } = parts;
  const checkArguments = lazyValidator(contract.inputSchema);
  const checkOutput = contract.outputSchema && lazyValidator(contract.outputSchema);
  const read = checkOutput && outputSchema === null ? toConfiguredResult : toResult;

  return {
    contract,
    ...(task && { task }),
    async call(args, options) {
      const beganAt = performance.now();
      const invalid = problemsOf(checkArguments, args);
      if (invalid) {
        activity.note(name, "invalid", beganAt, 0);
        if (options.invalidRejects) throw new BerthError("invalid_params", `the tool "${name}": ${invalid}`);
        return failure(`Invalid arguments for the tool "${name}": ${invalid}`);
      }

      activity.inFlight += 1;
      const outcome = await run(args, options);
      activity.inFlight -= 1;
      if (!outcome.ok) {
        activity.note(name, "error", beganAt, 0);
        const { error } = outcome;
        const what = `The tool "${name}"`;
        const rejects = error.protocol || (options.failuresReject && error.reason !== "thrown");
        if (rejects) throw guestFailed(what, error);
        return failure(messageOf(what, error));
      }
      if (outcome.value.kind === "asks") {
        activity.note(name, "asked", beganAt, 0);
        return { inputRequests: outcome.value.inputRequests };
      }

      if (outcome.value.kind === "redirect") {
        activity.note(name, "ok", beganAt, 0);
        return redirects.asResult(outcome.value.location, options);
      }

      const result = resultOf(outcome.value);
      activity.note(name, result.isError ? "error" : "ok", beganAt, sizeOf(result));
      return result;
    },
  };

  function resultOf(value: ReturnedValue): CallResult {
    const result = read(value, checkOutput !== undefined);
    if (!checkOutput || result.isError) return result;
    const broken = problemsOf(checkOutput, result.structuredContent ?? null);
    return broken ? failure(`The tool "${name}" returned what its own type does not allow: ${broken}`) : result;
  }
}
