import { parseAllowedHost } from "../../network/allow-list.ts";
import { nameFault } from "../../secrets/secret-rules.ts";
import type { RequestedGrant } from "../discovery.ts";

/**
 * Tags that request a grant: `@secret API_TOKEN [purpose]` and `@network api.example.org[:port] [purpose]`, in
 * TypeScript and in scripts. Their values have the format of the entry's fields. Knows no types, so scripts need no
 * checker.
 */

/** The field of an entry that grants what a tag requests, by tag. */
export const grantFields = { secret: "secrets", network: "network" } as const satisfies Record<
  string,
  RequestedGrant["field"]
>;

type GrantTag = keyof typeof grantFields;

export function isGrantTag(name: string): name is GrantTag {
  return Object.hasOwn(grantFields, name);
}

type ParsedRequest =
  | Pick<RequestedGrant, "field" | "value" | "purpose">
  /** The range in the text, in UTF-16 code units. */
  | { readonly code: string; readonly message: string; readonly offset: number; readonly length: number };

/** Reads the text of a tag. */
export function readRequest(tag: GrantTag, text: string): ParsedRequest {
  const [, value = "", rest = ""] = /^(\S*)([^]*)$/.exec(text) ?? [];
  const fault = value === "" ? `@${tag} needs ${EXPECTED[tag]}` : findFault(tag, value);
  if (fault !== undefined) return { code: `invalid-${tag}`, message: fault, offset: 0, length: value.length };
  const rawPurpose = rest
    .replaceAll(/\s+/g, " ")
    .replace(/^ ?[-–—:] /, "")
    .trim();
  const purpose = rawPurpose.length > PURPOSE_UNITS_MAX ? `${rawPurpose.slice(0, PURPOSE_UNITS_MAX)}…` : rawPurpose;
  return { field: grantFields[tag], value, ...(purpose !== "" && { purpose }) };
}

const EXPECTED = {
  secret: "the name of a secret, as in @secret API_TOKEN",
  network: "a host, as in @network api.example.org or @network db.example.org:5432",
} as const satisfies Record<GrantTag, string>;

const PURPOSE_UNITS_MAX = 200;

function findFault(tag: GrantTag, value: string): string | undefined {
  if (tag === "secret") {
    const fault = nameFault(value);
    return fault === undefined ? undefined : `In @secret, ${fault}`;
  }
  const host = parseAllowedHost(value);
  return typeof host === "string" ? `In @network, ${host}` : undefined;
}

/** The maximum number of grants that one definition requests. */
const REQUESTED_MAX = 100;

/** Each grant once, at its first position; and the first one above the limit. */
export function distinctRequests(requests: readonly RequestedGrant[]): {
  readonly requested: readonly RequestedGrant[];
  readonly tooMany: { readonly message: string; readonly at: RequestedGrant } | undefined;
} {
  const distinct = new Map<string, RequestedGrant>();
  for (const request of requests) {
    const key = `${request.field} ${request.value}`;
    if (!distinct.has(key)) distinct.set(key, request);
  }
  const all = [...distinct.values()];
  const first = all[REQUESTED_MAX];
  const message = `A definition may request at most ${REQUESTED_MAX} secrets and hosts; split it`;
  return { requested: all.slice(0, REQUESTED_MAX), tooMany: first && { message, at: first } };
}
