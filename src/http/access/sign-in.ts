import type { Access } from "../../access/access.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import { parseJson } from "../../lib/parse-json.ts";
import type { Bodies } from "../body.ts";
import type { OriginOf } from "../origin.ts";
import type { Pages } from "../pages/pages.ts";
import { peerOf } from "../peer.ts";
import { isTenantName } from "../../lib/tenant-name.ts";
import type { RoutedContext, RouteHandler } from "../routed.ts";
import { endTokenCookie, signInCookie, signInCookieOf } from "./credential.ts";
import { checkWritingPage } from "./own-page.ts";
import { recordRefusal, type RefusalRecorder } from "./record-refusals.ts";
import type { Resources } from "./resources.ts";
import type { SignIns } from "./sign-ins.ts";

export interface SignInOptions extends RefusalRecorder {
  readonly access: Access;
  readonly resources: Resources;
  readonly signIns: SignIns;
  readonly originOf: OriginOf;
  readonly pages: Pages;
  readonly bodies: Bodies;
}

/** `GET /sign-in`: asks a person for a token that the pages of one tenant will use. */
export function signInPage({ pages }: SignInOptions): RouteHandler {
  return (context) => sendSignIn(pages, context, { next: context.request.query["next"], status: 200 });
}

/** Sends the same form in place of a page that requires a token. */
export function sendSignIn(
  pages: Pages,
  context: RoutedContext,
  { next, status, message = "" }: { next: unknown; status: number; message?: string | undefined },
): Promise<void> {
  const page = {
    title: "Sign in",
    bare: true,
    next: nextOf(next, context.base),
    message,
    // A browser withholds a strict cookie when a link on another site leads here.
    isFromElsewhere: context.request.headers["sec-fetch-site"] === "cross-site",
  };
  return pages.send(context, "sign-in", page, status);
}

/**
 * `POST /sign-in`: a form, or `{token}` as JSON. The cookie is HttpOnly, so that no script reads the sign-in, and
 * SameSite=Strict. A form redirects to the page that the person wanted; JSON is answered with 204.
 */
export function signIn(options: SignInOptions): RouteHandler {
  const { access, audit, isProxied, resources, signIns, originOf, pages } = options;
  return async (context) => {
    const { request, response, base, refusal } = context;
    checkWritingPage(request);
    const { token, next, isForm } = await readForm(context, options.bodies);
    try {
      const place = context.claimed;
      const principal = await access.principalOf(token, place.tenant, () => resources.of(context));
      if (refusal !== undefined) throw refusal;
      const secure = originOf(request).startsWith("https:");
      const cookie = signInCookie(place, { ...signIns.begin(place.tenant, token, principal.until), secure });
      if (cookie === undefined) throw new BerthError("unauthorized", "it is too long for a browser to keep");
      await audit.signedIn(place.tenant, { principal: principal.id, from: peerOf(request, isProxied) });
      response.setHeader("Set-Cookie", [cookie, endTokenCookie(place)]);
    } catch (error) {
      if (!isForm || !(error instanceof BerthError) || error.code !== "unauthorized") throw error;
      recordRefusal(options, context, error);
      return sendSignIn(pages, context, { next, status: 401, message: error.message });
    }
    response.setHeader("Cache-Control", "no-store");
    if (isForm) response.redirect(303, nextOf(next, base));
    else response.status(204).end();
  };
}

/** `POST /sign-out`: ends the sign-in for every copy of its cookie; the token itself stays valid. */
export function signOut({ originOf, signIns }: Pick<SignInOptions, "originOf" | "signIns">): RouteHandler {
  return async (context) => {
    const { request, response } = context;
    checkWritingPage(request);
    const { tenant, base } = isTenantName(context.claimed.tenant) ? context.claimed : context.place;
    const secure = originOf(request).startsWith("https:");
    const text = signInCookieOf(request, tenant);
    if (text !== undefined) await signIns.end(tenant, text);
    response.setHeader("Set-Cookie", [signInCookie({ tenant, base }, { secure })!, endTokenCookie({ tenant, base })]);
    response.redirect(303, `${base}/sign-in`);
  };
}

async function readForm(
  context: RoutedContext,
  bodies: Bodies,
): Promise<{ token: string; next: unknown; isForm: boolean }> {
  const isForm = context.request.is("application/x-www-form-urlencoded") !== false;
  const body = await bodies.readSignIn(context);
  const values: unknown = isForm ? Object.fromEntries(new URLSearchParams(body)) : parseJson(body);
  const { token, next } = isObject(values) ? values : {};
  if (typeof token !== "string")
    throw new BerthError("invalid_params", "a token is sent as a form, or as {token} in JSON");
  return { token: token.trim(), next, isForm };
}

/** Leads only to pages of the same tenant, whatever address somebody else made up. */
function nextOf(next: unknown, base: string): string {
  const isPath = typeof next === "string" && /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(next);
  if (!isPath || !URL.canParse(next, ANY_ORIGIN)) return `${base}/mcp`;
  // Resolved as a browser does, including "..".
  const { origin, pathname, search, hash } = new URL(next, ANY_ORIGIN);
  // A path that begins with two slashes is another site's address.
  const isPathHere = origin === ANY_ORIGIN && !pathname.startsWith("//");
  const isOwn = isPathHere && pathname.startsWith(`${base}/`) && !pathname.startsWith(`${base}/sign-`);
  // The default tenant has no prefix, so its paths would include those of every other tenant.
  const isElsewhere = base === "" && /^\/t(?:\/|$)/.test(pathname);
  return isOwn && !isElsewhere ? pathname + search + hash : `${base}/mcp`;
}

const ANY_ORIGIN = "http://berth.invalid";
