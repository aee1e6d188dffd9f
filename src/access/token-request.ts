import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { ACTIONS, type Action, type AccessGrant } from "./principal.ts";

/** The requested properties of a token. */
export interface TokenRequest {
  readonly name: string;
  readonly grant: AccessGrant;
  /** Milliseconds since the epoch; null if it never expires. */
  readonly expiresAt: number | null;
}

const NAME_CHARACTERS_MAX = 100;
const NAMES_MAX = 100;
/** As JSON: a hundred names of eighty characters each. */
const GRANT_UNITS_MAX = 8 * 1024;
const FIELDS: ReadonlySet<string> = new Set(["name", "can", "servers", "tools", "expires"]);

/**
 * Parses `{name?, can, servers?, tools?, expires?}` from the API or the command line; `expires` is a duration from
 * `now` such as `30d`. Throws `token_invalid` with all problems.
 */
export function readTokenRequest(value: unknown, now: number = Date.now()): TokenRequest {
  if (!isObject(value)) throw new BerthError("token_invalid", "the description must be an object");
  const { name = "", can, servers, tools, expires } = value;
  const problems = Object.keys(value).flatMap((key) => (FIELDS.has(key) ? [] : [`a token has no field "${key}"`]));
  if (typeof name !== "string" || name.length > NAME_CHARACTERS_MAX || /\p{C}/u.test(name)) {
    problems.push(`"name" must be a string of at most ${NAME_CHARACTERS_MAX} printable characters`);
  }
  problems.push(...checkActions(can), ...checkNames("servers", servers), ...checkNames("tools", tools));
  if (tools !== undefined && Array.isArray(can) && !(can.includes("call") && !can.includes("edit"))) {
    problems.push('"tools" limits calls: use it with "call", and not with "edit", which changes what tools do');
  }
  if (tools !== undefined && Array.isArray(can) && can.includes("admin")) {
    problems.push('"admin" can create tokens for everything, so "tools" would limit nothing');
  }
  const expiresMs = expires === undefined || expires === null ? null : durationMs(expires);
  if (expiresMs === undefined) problems.push('"expires" must be a time from now: 30d, 12h or 45m, at most 3650d');
  if (problems.length === 0 && JSON.stringify([can, servers, tools]).length > GRANT_UNITS_MAX) {
    problems.push(`"can", "servers" and "tools" have at most ${GRANT_UNITS_MAX} characters together`);
  }
  if (problems.length > 0) throw new BerthError("token_invalid", problems.join("; "));
  const grant = {
    can,
    ...(servers !== undefined && { servers }),
    ...(tools !== undefined && { tools }),
  } as AccessGrant;
  return { name: name as string, grant, expiresAt: expiresMs == null ? null : now + expiresMs };
}

function checkActions(can: unknown): string[] {
  const isValid = Array.isArray(can) && can.length > 0 && can.every((each) => ACTIONS.includes(each as Action));
  return isValid ? [] : [`"can" must list at least one of ${ACTIONS.join(", ")}`];
}

function checkNames(field: string, names: unknown): string[] {
  if (names === undefined) return [];
  const isName = (each: unknown): boolean => typeof each === "string" && each !== "" && each.length <= 256;
  const isValid = Array.isArray(names) && names.length > 0 && names.length <= NAMES_MAX && names.every(isName);
  return isValid ? [] : [`"${field}" must list one to ${NAMES_MAX} names; leave it out for no limit`];
}

const UNIT_MS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000 };
const DURATION_MS_MAX = 3_650 * UNIT_MS["d"]!;

function durationMs(text: unknown): number | undefined {
  const [, count, unit] = (typeof text === "string" && /^([1-9]\d{0,6})([dhm])$/.exec(text)) || [];
  const ms = Number(count) * (UNIT_MS[unit ?? ""] ?? 0);
  return ms > 0 && ms <= DURATION_MS_MAX ? ms : undefined;
}
