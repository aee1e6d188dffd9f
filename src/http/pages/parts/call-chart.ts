import type { CallCount } from "../../../host/journal/activity.ts";
import { countOf } from "./text.ts";

const HEIGHT = 16;
/** A bar with the gap after it. */
const STEP = 5;
const WIDTH = 4;
/** The height of the smallest bar: one call among thousands is still seen. */
const LEAST = 1.5;
/** A part without calls. */
const NONE = 0.5;

/**
 * The calls of an hour as `views/partials/servers.hbs` draws them: two paths for an SVG of 60 × 16 units. Undefined for
 * an hour without calls.
 */
export function callChart(hour: readonly CallCount[] | undefined) {
  const [callCount, errorCount] = [sumOf(hour, "calls"), sumOf(hour, "errors")];
  if (!hour || callCount === 0) return undefined;
  const most = Math.max(...hour.map(({ calls }) => calls));
  const heightOf = (count: number): number => Math.max(LEAST, (count / most) * HEIGHT);
  const bars = hour.map(({ calls }, index) => bar(index, calls === 0 ? NONE : heightOf(calls)));
  const failed = hour.map(({ errors }, index) => (errors === 0 ? "" : bar(index, heightOf(errors))));
  const errors = errorCount === 0 ? "no errors" : countOf(errorCount, "error");
  const text = `${countOf(callCount, "call")}, ${errors}`;
  return { calls: bars.join(""), errors: failed.join(""), text, callCount, errorCount };
}

function sumOf(hour: readonly CallCount[] | undefined, what: keyof CallCount): number {
  return (hour ?? []).reduce((sum, part) => sum + part[what], 0);
}

function bar(index: number, height: number): string {
  return `M${index * STEP} ${HEIGHT}v${-Math.round(height * 10) / 10}h${WIDTH}V${HEIGHT}z`;
}
