import type { Request } from "express";
import { parseTime } from "../../audit/filter.ts";
import { FAILED } from "../../host/journal/record.ts";
import { cursorAfter, readListPage } from "../../http/list-page.ts";
import { BerthError } from "../../lib/errors.ts";
import type { ListedCalls, RetainedCallPart } from "./retained-calls.ts";

/** Parses `?failed&tool=&since=&before=&limit=&cursor=` of the API and of a server's page. Throws `invalid_params`. */
export function readRetainedCallsQuery(request: Pick<Request, "query">): RetainedCallPart {
  const { query } = request;
  const text = (name: string): string | undefined => {
    const value = query[name];
    if (value === undefined || typeof value === "string") return value || undefined;
    throw new BerthError("invalid_params", `"${name}" must occur only once in the query`);
  };
  const time = (name: "since" | "before"): number | undefined => {
    const value = text(name);
    const ms = value === undefined ? undefined : parseTime(value, Date.now());
    if (value === undefined || ms !== undefined) return ms;
    const form = "a time such as 2026-11-22T08:00Z, or a span back from now such as 30m, 12h or 7d";
    throw new BerthError("invalid_params", `"${name}" must be ${form}`);
  };
  const { limit, after } = readListPage(request);
  return {
    max: limit,
    after: after === undefined ? undefined : parseCursor(after),
    tool: text("tool"),
    outcomes: onlyFailed(query) ? FAILED : undefined,
    since: time("since"),
    before: time("before"),
  };
}

/** `?failed`, `?failed=true`, or `?failed=false`. */
export function onlyFailed({ failed }: Request["query"]): boolean {
  if (failed === undefined || failed === "false") return false;
  if (failed === "" || failed === "true") return true;
  throw new BerthError("invalid_params", '"failed" is true or false');
}

/** The cursor of the page after these calls; undefined on the last one. */
export function nextCursor({ calls, isMore }: ListedCalls): string | undefined {
  const last = calls.at(-1);
  return isMore && last ? cursorAfter(`${last.at}.${last.id}`) : undefined;
}

function parseCursor(text: string): NonNullable<RetainedCallPart["after"]> {
  const [, at, id] = /^(\d{1,15})\.(\d{1,15})$/.exec(text) ?? [];
  if (id === undefined) throw new BerthError("invalid_params", '"cursor" is not from this list');
  return { at: Number(at), id: Number(id) };
}

/** Parses the id of a retained call. Throws `not_found` for an invalid one. */
export function readCallId(text: unknown): number {
  if (typeof text === "string" && /^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw noSuchCall();
}

export function noSuchCall(): BerthError {
  return new BerthError(
    "not_found",
    "this server has no such retained call; calls are deleted after a time, oldest first",
  );
}
