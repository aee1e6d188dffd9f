import type { Request } from "express";
import type { Access } from "../../access/access.ts";
import type { Host } from "../../host/host.ts";
import { decodePercent } from "../../lib/decode-percent.ts";
import type { BerthError, ErrorCode } from "../../lib/errors.ts";
import { nearNames } from "../../lib/near-names.ts";
import type { Problem } from "../../lib/problem.ts";
import { mayKnow } from "../access/permit.ts";
import type { RoutedContext } from "../routed.ts";
import type { Pages } from "./pages.ts";
import { pathsOf } from "./parts/paths.ts";
import { problemView } from "./parts/problem-view.ts";

export interface ErrorOptions {
  readonly host: Host;
  readonly pages: Pages;
  readonly access: Pick<Access, "required">;
}

/** True when a person reads the answer: a program that accepts anything gets JSON. */
export function wantsPage(request: Request): boolean {
  return request.accepts(["json", "html"]) === "html";
}

/** Sends a page that tells what was wrong and what to do. */
export async function sendErrorPage(
  { host, pages, access }: ErrorOptions,
  context: RoutedContext,
  error: BerthError,
): Promise<void> {
  const { request, base, servedTenant, principal } = context;
  const problems = error.data?.["problems"];
  // Error pages are also sent before authentication.
  const isTold = error.status === 404 && servedTenant !== undefined && (principal || !access.required);
  const known = isTold ? host.names(servedTenant).filter((name) => mayKnow(principal, name)) : [];
  const near = await nearNames(lastWord(request.path), known);
  await pages.send(
    context,
    "error",
    {
      title: `Error ${error.status}`,
      status: error.status,
      message: error.message,
      advice: ADVICE[error.code] ?? (error.status >= 500 ? SERVER_ADVICE : ""),
      path: request.originalUrl,
      signIn: error.code === "forbidden" && context.isSignedIn ? signInAt(base, request) : undefined,
      start: STARTS.find(({ href }) => request.path.startsWith(href)) ?? ALL_SERVERS,
      requestId: context.trace.requestId,
      problems: Array.isArray(problems) ? (problems as Problem[]).map((each) => problemView(base, each)) : [],
      near: near.map((name) => ({ name, page: pathsOf(base, name).page })),
    },
    error.status,
  );
}

function signInAt(base: string, { originalUrl }: Request): string {
  return `${base}/sign-in?${new URLSearchParams({ next: originalUrl }).toString()}`;
}

/** Where a person can go on from a missing page. */
const ALL_SERVERS = { href: "/mcp", label: "All servers" };
const STARTS = [{ href: "/variables", label: "All variables" }];

const SERVER_ADVICE =
  "Nothing is wrong with your request. The log of this Berth has the reason, under the id of the request.";

const ADVICE: Partial<Record<ErrorCode, string>> = {
  server_not_found: "A server is addressed by its name in the variable mcps, and a release of it by server@CID.",
  server_disabled: "Its entry in the variable mcps disables it.",
  tenant_not_found:
    "The address of a tenant is /t/ and its name in lower case, or a host name. Ask the person who gave you the address.",
  content_missing:
    "Content is found by its complete CID, and only by the tenant that owns it. Bundles are compiled from definitions and have no page.",
  not_found: "Check the address, or start from the list.",
  method_not_allowed: "MCP clients send requests by POST. People find a page about each server.",
  forbidden: "Sign in with a token that permits it, or ask the operator of this Berth for one.",
  forbidden_host:
    "Berth answers only to names that it knows, so that no other site can reach it through your browser. Add names in BERTH_ALLOWED_HOSTS.",
  forbidden_origin: "Only pages of this host may call Berth.",
  read_only: "It serves a read-only image. Start it without --readonly to edit.",
};

function lastWord(path: string): string {
  return decodePercent(path.split("/").findLast(Boolean) ?? "").split("@", 1)[0]!;
}
