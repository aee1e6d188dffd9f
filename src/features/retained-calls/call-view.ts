import { callOutcome, msText } from "../../http/pages/parts/health.ts";
import { bytesText, countOf, shortCid, timeView } from "../../http/pages/parts/text.ts";
import { indentedJson, isObject, type Json } from "../../lib/json.ts";
import { printable, printableJson, printableText } from "../../lib/printable.ts";
import type { FoundCall, ListedCall } from "./retained-calls.ts";

export function retainedCallRow({ id, at, tool, outcome, micros, principal }: ListedCall) {
  return {
    id,
    at: timeView(at),
    tool,
    ...callOutcome(outcome, 0),
    ms: msText(micros / 1_000),
    who: principal ?? "",
  };
}

/** One call with its contents. */
export function retainedCallView(call: FoundCall, base: string): object {
  const { outcome, retries, release, requestId = "", argumentsBytes, resultBytes, result, error } = call;
  const secrets = "Not retained, because the secrets of its server could not be read at the time.";
  const tooLong = (bytes: number): string =>
    call.isUnread ? secrets : `Too long to be retained: ${bytesText(bytes)}.`;
  return {
    ...retainedCallRow(call),
    ...callOutcome(outcome, retries),
    release: { short: shortCid(release), cid: release, href: `${base}/cid/${release}` },
    requestId: printable(requestId),
    arguments: call.arguments === undefined ? "" : jsonText(call.arguments),
    argumentsNote: call.arguments === undefined ? tooLong(argumentsBytes) : "",
    texts: textsIn(result),
    result: result === undefined ? "" : jsonText(result),
    resultNote: result === undefined && resultBytes !== undefined ? tooLong(resultBytes) : "",
    error: error && { message: printableText(error.message), stack: printableText(error.stack ?? "") },
    saidNothing: result === undefined && resultBytes === undefined && !error,
  };
}

function jsonText(value: Json): string {
  return printableJson(indentedJson(value));
}

function textsIn(result: Json | undefined): string[] {
  const content = isObject(result) ? result["content"] : undefined;
  if (!Array.isArray(content)) return [];
  return content.flatMap((block) =>
    isObject(block) && typeof block["text"] === "string" ? [printableText(block["text"])] : [],
  );
}

const UNITS = [
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
] as const;

/** A duration in the largest unit of which it is a whole number: `7 days`. */
export function spanText(ms: number): string {
  const [unit, noun] = UNITS.find(([unit]) => ms % unit === 0) ?? UNITS[2];
  return countOf(Math.round(ms / unit), noun);
}
