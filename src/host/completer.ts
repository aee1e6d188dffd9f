import type { DiscoveredCompletion } from "../discover/discovery.ts";
import { BerthError } from "../errors.ts";
import type { Json } from "../json.ts";
import type { Completer, Completion } from "./catalog.ts";
import { guestFailed } from "./failures.ts";
import type { Run } from "./tool.ts";

/** How many values one answer may have (2026-07-28 `server/utilities/completion`). */
const VALUES_MAX = 100;

/** A function that completes an argument. One without parameters gives all there is, and is filtered here. */
export function createCompleter({ of, argument, call }: DiscoveredCompletion, run: Run): Completer {
  const what = `The completion of "${argument}" of ${of}`;
  const isWhole = call.params.length === 0;
  return {
    async complete(value, others, options) {
      const outcome = await run({ value, others }, options);
      if (!outcome.ok) throw guestFailed(what, outcome.error);
      const all = outcome.value.kind === "json" ? textsOf(outcome.value.value) : undefined;
      if (!all) throw new BerthError("guest_failed", `${what} did not return a list of texts`);
      return completionOf(isWhole ? all.filter((each) => startsWith(each, value)) : all);
    },
  };
}

function completionOf(all: readonly string[]): Completion {
  return { values: all.slice(0, VALUES_MAX), total: all.length, hasMore: all.length > VALUES_MAX };
}

function textsOf(value: Json): string[] | undefined {
  return Array.isArray(value) && value.every((each) => typeof each === "string") ? value : undefined;
}

function startsWith(text: string, start: string): boolean {
  return text.toLowerCase().startsWith(start.toLowerCase());
}
