import type { Json, JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import type { Limits } from "../limits/limits.ts";
import { parseAllowedHost, type AllowedHost } from "../network/allow-list.ts";
import { addProblem, inside, readFields, type ConfigPlace } from "./config-place.ts";

/** The grants and limits of an entry: secrets, variables, hosts, and calls. */

export interface ServerLimits {
  /** The most concurrent calls; undefined for as many as the tenant may have. */
  readonly calls?: number;
  /** The most calls that may start per second; undefined for no limit. */
  readonly callsPerSecond?: number;
}

export function readLimits(raw: JsonObject = {}, place: ConfigPlace): ServerLimits {
  const fields = readFields(raw, { calls: "any", calls_per_second: "any" }, '"limits"', place);
  const read = (name: keyof typeof fields): number | undefined => {
    const value = fields[name];
    if (value === undefined || (Number.isInteger(value) && Number(value) >= 1)) return value as number | undefined;
    return addProblem(inside(place, name), "wrong-value", `"${name}" must be a whole number of at least 1`);
  };
  const [calls, callsPerSecond] = [read("calls"), read("calls_per_second")];
  return { ...(calls !== undefined && { calls }), ...(callsPerSecond !== undefined && { callsPerSecond }) };
}

/** How long the server's calls are retained, in milliseconds, from a text such as `7d`. Undefined if they are not. */
export function readRetainCalls(text: string | undefined, place: ConfigPlace): number | undefined {
  if (text === undefined) return undefined;
  const [, count, unit = ""] = /^([1-9]\d{0,4})([mhd])$/.exec(text) ?? [];
  if (count !== undefined) return Number(count) * UNIT_MS[unit]!;
  return addProblem(place, "wrong-value", '"retain_calls" must be a duration such as "30m", "12h" or "7d"');
}

const DAY_MS = 86_400_000;
const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: DAY_MS };

interface Retaining {
  readonly retainCallsMs?: number;
}

/** How long an entry retains the calls of its server, in milliseconds, capped at the limit. */
export function retainedMs(
  { retainCallsMs = 0 }: Retaining,
  { retainedCallDays }: Pick<Limits, "retainedCallDays">,
): number {
  return Math.min(retainCallsMs, retainedCallDays * DAY_MS);
}

export function retentionProblems(
  server: string,
  { retainCallsMs = 0 }: Retaining,
  { retainedCallDays }: Pick<Limits, "retainedCallDays">,
): Problem[] {
  if (retainCallsMs <= retainedCallDays * DAY_MS) return [];
  const pointer = `/${server.replaceAll("~", "~0").replaceAll("/", "~1")}/retain_calls`;
  const message = `Calls are retained for at most ${retainedCallDays} days (BERTH_RETAINED_CALL_DAYS), but "retain_calls" is longer`;
  return [{ code: "kept-too-long", message, severity: "warning", pointer }];
}

/** Returns a reader for lists of names, which sorts them and removes duplicates. */
export function namesReader(faultOf: (name: string) => string | undefined) {
  return (raw: readonly Json[] | undefined, place: ConfigPlace): readonly string[] => {
    const names = readTexts(raw, place, (name, at) => {
      const fault = faultOf(name);
      return fault === undefined ? name : addProblem(at, "bad-name", fault);
    });
    return [...new Set(names)].sort();
  };
}

export function readNetwork(raw: readonly Json[] | undefined, place: ConfigPlace): readonly AllowedHost[] {
  return readTexts(raw, place, (text, at) => {
    const allowed = parseAllowedHost(text);
    return typeof allowed === "string" ? addProblem(at, "wrong-value", allowed) : allowed;
  });
}

/** Reading more items would block other calls. */
const ITEMS_MAX = 5_000;

function readTexts<Item>(
  raw: readonly Json[] = [],
  place: ConfigPlace,
  read: (text: string, at: ConfigPlace) => Item | undefined,
): Item[] {
  const message = `It has ${raw.length} items; at most ${ITEMS_MAX} are read`;
  if (raw.length > ITEMS_MAX) return addProblem(place, "too-many-items", message) ?? [];
  return raw.flatMap((value, index) => {
    const at = inside(place, index);
    const item = typeof value === "string" ? read(value, at) : addProblem(at, "wrong-type", "It must be a string");
    return item === undefined ? [] : [item];
  });
}
