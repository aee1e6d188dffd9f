import type { RequestedGrant } from "../discover/discovery.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { isCovered, parseAllowedHost } from "../network/allow-list.ts";
import type { ServerEntry } from "./entry.ts";

export type { RequestedGrant } from "../discover/discovery.ts";

/** The grants that the tags of a definition request, compared with those of its entry. Requests grant nothing. */

/** The requests that an entry does not grant, in source order. */
export function ungranted(
  requested: readonly RequestedGrant[],
  { secrets, network }: Pick<ServerEntry, "secrets" | "network">,
): RequestedGrant[] {
  return requested.filter(({ field, value }) => {
    if (field === "secrets") return !secrets.includes(value);
    const host = parseAllowedHost(value);
    return typeof host === "string" || !isCovered(network, host);
  });
}

/** An entry as written, with these requests granted. */
export function addGrants(raw: JsonObject, requests: readonly RequestedGrant[]): JsonObject {
  const fields = new Set(requests.map(({ field }) => field));
  return { ...raw, ...Object.fromEntries(Array.from(fields, (field) => [field, mergeGrants(raw, field, requests)])) };
}

function mergeGrants(raw: JsonObject, field: RequestedGrant["field"], requests: readonly RequestedGrant[]): Json[] {
  const existing = Array.isArray(raw[field]) ? raw[field] : [];
  const added = requests.filter((request) => request.field === field).map(({ value }) => value);
  return [...existing, ...added.filter((value) => !existing.includes(value))];
}

/** The lines that an entry needs to grant requests, one for each field. */
export function formatGrantLines(raw: JsonObject, requests: readonly RequestedGrant[]): string[] {
  return [...new Set(requests.map(({ field }) => field))].map((field) => formatLine(raw, field, requests));
}

function formatLine(raw: JsonObject, field: RequestedGrant["field"], requests: readonly RequestedGrant[]): string {
  const values = mergeGrants(raw, field, requests).map((value) => JSON.stringify(value));
  return `"${field}": [${values.join(", ")}]`;
}

/** A warning for each request that the entry does not grant, at its tag. `acceptance` is another way to grant it. */
export function requestProblems(
  server: string,
  raw: JsonObject,
  requests: readonly RequestedGrant[],
  acceptance?: string,
): Problem[] {
  return requests.map((request) => {
    const { field, file, line, column } = request;
    const other = acceptance === undefined ? "" : `, or ${acceptance}`;
    const hint = `set ${formatLine(raw, field, requests)}${other}`;
    const message = `${describeRequest(request)}, which the entry "${server}" in mcps does not grant: ${hint}`;
    return { code: `${CODES[field]}-requested`, message, severity: "warning", file, line, column };
  });
}

const CODES = { secrets: "secret", network: "network" } as const;

/** `The code requests the secret "API_TOKEN" (to read issues)`. */
export function describeRequest({ field, value, purpose }: RequestedGrant): string {
  const grant = field === "secrets" ? `the secret "${value}"` : `the host "${value}"`;
  return `The code requests ${grant}${purpose === undefined ? "" : ` (${purpose})`}`;
}
