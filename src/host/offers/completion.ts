import type { GuestValue } from "../../executor/executor.ts";
import type { Json } from "../../lib/json.ts";
import type { UpstreamCompletion } from "../../upstream/messages/results.ts";
import type { Completion } from "./catalog.ts";

/** How many values one answer may have (2026-07-28 `server/utilities/completion`). */
const VALUES_MAX = 100;

/** The texts that begin with `start`; undefined when the value is not a list of strings. */
export function completionIn(value: GuestValue, start: string): Completion | undefined {
  const texts = value.kind === "json" ? textsOf(value.value) : undefined;
  const all = start === "" ? texts : texts?.filter((each) => each.toLowerCase().startsWith(start.toLowerCase()));
  return all && { values: all.slice(0, VALUES_MAX), total: all.length, hasMore: all.length > VALUES_MAX };
}

function textsOf(value: Json): string[] | undefined {
  return Array.isArray(value) && value.every((each) => typeof each === "string") ? value : undefined;
}

/** The completion of an upstream, cut to what one answer may have. */
export function completionOf({ values: all, total, hasMore }: UpstreamCompletion): Completion {
  const values = all.slice(0, VALUES_MAX);
  return {
    values,
    total: typeof total === "number" ? total : all.length,
    hasMore: hasMore === true || all.length > VALUES_MAX,
  };
}
