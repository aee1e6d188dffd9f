import type { DiscoveredCompletion } from "../../discover/discovery.ts";
import type { GuestValue } from "../../executor/executor.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Json } from "../../lib/json.ts";
import type { OutcomeReader } from "../checks/tasks.ts";
import { guestFailed } from "../offers/call-failures.ts";
import type { Completer, Completion } from "../offers/catalog.ts";
import { LongObject } from "../offers/long-result.ts";
import type { Run } from "./run.ts";

/** How many values one answer may have (2026-07-28 `server/utilities/completion`). */
const VALUES_MAX = 100;

/** Completes an argument by a function. One without parameters returns all values, which are filtered here. */
export function createCompleter(
  { of, argument, call }: DiscoveredCompletion,
  run: Run,
  readOutcome: OutcomeReader,
): Completer {
  const what = `The completion of "${argument}" of ${of}`;
  const isWhole = call.params.length === 0;
  return {
    async complete(value, others, options) {
      const start = isWhole ? value : "";
      const read = await readOutcome(await run({ value, others }, options), { as: "completion", start });
      if ("object" in read) return new LongObject(read.object).read() as unknown as Completion;
      if (!read.ok) throw guestFailed(what, read.error);
      const completion = completionIn(read.value, start);
      if (!completion) throw new BerthError("guest_failed", `${what} did not return a list of strings`);
      return completion;
    },
  };
}

/** The texts that begin with `start`; undefined when the value is not a list of strings. */
export function completionIn(value: GuestValue, start: string): Completion | undefined {
  const texts = value.kind === "json" ? textsOf(value.value) : undefined;
  const all = start === "" ? texts : texts?.filter((each) => startsWith(each, start));
  return all && { values: all.slice(0, VALUES_MAX), total: all.length, hasMore: all.length > VALUES_MAX };
}

function textsOf(value: Json): string[] | undefined {
  return Array.isArray(value) && value.every((each) => typeof each === "string") ? value : undefined;
}

function startsWith(text: string, start: string): boolean {
  return text.toLowerCase().startsWith(start.toLowerCase());
}
