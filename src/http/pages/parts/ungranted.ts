import { formatGrantLines, type RequestedGrant } from "../../../entry/grant-requests.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { formatLocation } from "../../../lib/problem.ts";
import { countOf } from "./text.ts";

/**
 * The requests of a definition that its entry does not give, as `views/partials/ungranted.hbs` shows them. Undefined if
 * there are none.
 */
export function ungrantedView(requests: readonly RequestedGrant[] | undefined, raw: JsonObject, mayGrant: boolean) {
  if (!requests || requests.length === 0) return undefined;
  const lines = formatGrantLines(raw, requests).join(",\n");
  return {
    words: `The code requests ${countOf(requests.length, "grant")} that its entry does not give.`,
    requests: requests.map((request) => ({
      tag: `@${request.field === "secrets" ? "secret" : "network"} ${request.value}`,
      purpose: request.purpose ?? "",
      location: formatLocation({ ...request, code: "", message: "", severity: "warning" }),
      // For the script of the page.
      grant: JSON.stringify([grantOf(request)]),
    })),
    all: mayGrant && requests.length > 1 ? JSON.stringify(requests.map(grantOf)) : "",
    lines,
    mayGrant,
  };
}

function grantOf({ field, value }: RequestedGrant): object {
  return { field, value };
}
