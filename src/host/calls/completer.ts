import type { DiscoveredCompletion } from "../../discover/discovery.ts";
import { BerthError } from "../../lib/errors.ts";
import type { OutcomeReader } from "../checks/tasks.ts";
import { guestFailed } from "../offers/call-failures.ts";
import type { Completer, Completion } from "../offers/catalog.ts";
import { completionIn } from "../offers/completion.ts";
import { LongObject } from "../offers/long-result.ts";
import type { Run } from "./run.ts";

/** Completes an argument with a function. A function without parameters returns all values; they are filtered here. */
export function createCompleter(
  { of, argument, call }: DiscoveredCompletion,
  run: Run,
  readOutcome: OutcomeReader,
): Completer {
  const what = `The completion of "${argument}" of ${of}`;
  const returnsAll = call.params.length === 0;
  return {
    async complete(value, others, options) {
      const start = returnsAll ? value : "";
      const read = await readOutcome(await run({ value, others }, options), { as: "completion", start });
      if ("object" in read) return new LongObject(read.object).read() as unknown as Completion;
      if (!read.ok) throw guestFailed(what, read.error);
      const completion = completionIn(read.value, start);
      if (!completion) throw new BerthError("guest_failed", `${what} did not return a list of strings`);
      return completion;
    },
  };
}
