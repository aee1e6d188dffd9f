import { grantingLines, type RequestedGrant } from "../../../entry/grant-requests.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { locationOf } from "../../../lib/problem.ts";
import { countOf } from "./text.ts";

/** The requests of a definition that its entry does not give, as `views/partials/ungranted.hbs` shows it. */
interface UngrantedView {
  readonly words: string;
  readonly requests: readonly {
    readonly tag: string;
    readonly purpose: string;
    readonly location: string;
    /** The grants of its button, as JSON for the page's script. */
    readonly grant: string;
  }[];
  /** The same for a button that grants all; empty where there is one request alone. */
  readonly all: string;
  /** The lines that the entry needs. */
  readonly lines: string;
  readonly mayGrant: boolean;
}

/** Undefined where nothing is requested that the entry does not give. */
export function ungrantedView(
  requests: readonly RequestedGrant[] | undefined,
  raw: JsonObject,
  mayGrant: boolean,
): UngrantedView | undefined {
  if (!requests || requests.length === 0) return undefined;
  const lines = grantingLines(raw, requests).join(",\n");
  return {
    words: `The code requests ${countOf(requests.length, "grant")} that its entry does not give.`,
    requests: requests.map((request) => ({
      tag: `@${request.field === "secrets" ? "secret" : "network"} ${request.value}`,
      purpose: request.purpose ?? "",
      location: locationOf({ ...request, code: "", message: "", severity: "warning" }),
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
