import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { UpstreamError } from "../../upstream/upstream-error.ts";
import { lazyValidator } from "../calls/arguments.ts";
import type { CallOptions, CallResult, InputRequired, Tool, ToolContract } from "../catalog/catalog.ts";
import { failure } from "../calls/content.ts";
import { problemsOf } from "../calls/failures.ts";
import type { CallNotes } from "../calls/observe.ts";

/** Carries out a call whose arguments are valid; what it throws is the tool's failure. */
export type Work = (args: JsonObject, options: CallOptions) => Promise<CallResult | InputRequired>;

/** A tool of Berth's own: it checks arguments first, turns failures into results and notes each call. */
export function builtInTool(contract: ToolContract, notes: CallNotes, work: Work): Tool {
  const { name } = contract;
  const check = lazyValidator(contract.inputSchema);
  return {
    contract,
    async call(args: JsonObject, options) {
      const beganAt = performance.now();
      const invalid = problemsOf(check, args);
      if (invalid) {
        notes.ended("invalid", beganAt, args, options, undefined);
        if (options.invalidRejects) throw new BerthError("invalid_params", `the tool "${name}": ${invalid}`);
        return failure(`Invalid arguments for the tool "${name}": ${invalid}`);
      }
      const busy = notes.enter();
      if (busy !== undefined) return notes.ended("error", beganAt, args, options, failure(busy));
      try {
        const result = await work(args, options);
        if ("inputRequests" in result) notes.ended("asked", beganAt, args, options, undefined);
        else notes.ended(result.isError ? "error" : "ok", beganAt, args, options, result);
        return result;
      } catch (error) {
        notes.ended("error", beganAt, args, options, undefined);
        if (!(error instanceof BerthError) || options.failuresReject) throw error;
        return failure(messageOf(error));
      } finally {
        notes.left();
      }
    },
  };
}

/** The error with the end of the program's stderr, which usually says why it does not run. */
function messageOf(error: BerthError): string {
  const stderr = error instanceof UpstreamError ? error.stderr.trim() : "";
  return stderr === "" ? error.message : `${error.message}\n\nThe end of its stderr:\n${stderr}`;
}
