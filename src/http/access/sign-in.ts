import { randomUUID } from "node:crypto";
import type { Access } from "../../access/access.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import { LastKnown } from "../../lib/last-known.ts";
import { parseJson } from "../../lib/parse-json.ts";
import type { Records } from "../../lib/records.ts";
import type { Sealer } from "../../lib/seal.ts";
import { isTenantName } from "../../lib/tenant-name.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Bodies } from "../body.ts";
import type { Pages } from "../pages/pages.ts";
import { peerOf } from "../peer.ts";
import type { OriginOf } from "../public-origin.ts";
import type { RoutedContext, RouteHandler } from "../routed.ts";
import { signInCookie, signInCookieOf } from "./credential.ts";
import { checkWritingPage } from "./own-page.ts";
import { recordRefusal, type RefusalRecorder } from "./record-refusals.ts";
import type { Resources } from "./resources.ts";

interface SignInOptions extends RefusalRecorder {
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
    // Every request has one of the names of this Berth: others are refused before.
    host: context.request.headers.host ?? "",
    tenant: isTenantName(context.claimed.tenant) ? context.claimed.tenant : "",
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
      response.setHeader("Set-Cookie", cookie);
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
    response.setHeader("Set-Cookie", signInCookie({ tenant, base }, { secure })!);
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
    throw new BerthError("invalid_params", "send a token as a form, or as {token} in JSON");
  return { token: token.trim(), next, isForm };
}

/** Prevents open redirects: only paths of the same tenant are followed. */
function nextOf(next: unknown, base: string): string {
  const isPath = typeof next === "string" && /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(next);
  if (!isPath || !URL.canParse(next, ANY_ORIGIN)) return `${base}/mcp`;
  // Resolved as a browser does, including "..".
  const { origin, pathname, search, hash } = new URL(next, ANY_ORIGIN);
  // A path that begins with two slashes is another site's address.
  const isPathHere = origin === ANY_ORIGIN && !pathname.startsWith("//");
  const isOwn = isPathHere && pathname.startsWith(`${base}/`) && !pathname.startsWith(`${base}/sign-`);
  // The default tenant has no prefix, so its paths would include those of every other tenant.
  const isElsewhere = /^\/t(?:\/|$)/.test(pathname.slice(base.length));
  return isOwn && !isElsewhere ? pathname + search + hash : `${base}/mcp`;
}

const ANY_ORIGIN = "http://berth.invalid";

/** The content of a sign-in cookie. */
export interface SignIn {
  readonly id: string;
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

/** A new sign-in, as its cookie holds it. */
interface NewSignIn {
  /** Sealed: only the service can read the token in it. */
  readonly text: string;
  readonly lastsMs: number;
}

/**
 * The sign-ins of browsers. A cookie goes to every port of its host, so it holds no token that others could use: it is
 * sealed to one tenant, expires within `loginMs`, counts only as a cookie, and is void in all processes of a data
 * folder once the person signs out.
 */
export class SignIns {
  readonly #sealer: Sealer;
  readonly #records: Pick<Records, "now" | "record" | "putRecord">;
  readonly #loginMs: number;
  /** By id. */
  readonly #ended = new LastKnown<boolean>(KNOWN_MAX);
  readonly #endListeners = new Set<(id: string) => void>();
  readonly #tellOthers: (id: string) => void;

  /** `tellOthers` is called for each sign-in that ends here, so that other processes call `endedElsewhere`. */
  constructor(
    sealer: Sealer,
    records: Pick<Records, "now" | "record" | "putRecord">,
    limits: Pick<Limits, "loginMs">,
    tellOthers: (id: string) => void = () => {},
  ) {
    this.#sealer = sealer;
    this.#records = records;
    this.#loginMs = limits.loginMs;
    this.#tellOthers = tellOthers;
  }

  /** By the clock by which sign-ins and tokens expire. */
  now(): number {
    return this.#records.now();
  }

  /** Begins a sign-in with a valid token; it ends no later than the token. */
  begin(tenant: string, token: string, tokenUntil: number = Infinity): NewSignIn {
    const now = this.#records.now();
    const until = Math.min(tokenUntil, now + this.#loginMs);
    const value = { id: randomUUID(), token, until };
    return { text: this.#sealer.seal(binding(tenant), value, until - now), lastsMs: until - now };
  }

  /** Reads the cookie. Rejects with `unauthorized` when the sign-in has ended or belongs to another tenant. */
  async find(tenant: string, text: string): Promise<SignIn> {
    const found = this.#read(tenant, text);
    if (await this.hasEnded(tenant, found.id)) throw over();
    return found;
  }

  /** True once the person has signed out, in any process of the data folder. */
  async hasEnded(tenant: string, id: string): Promise<boolean> {
    return this.#ended.read(id, async () => (await this.#records.record(tenant, KIND, id)) !== undefined);
  }

  /** Registers a listener for sign-ins that end, also in another process that tells of it. */
  onEnded(listener: (id: string) => void): void {
    this.#endListeners.add(listener);
  }

  /** Ends a sign-in for good; ignores a text that is not one. */
  async end(tenant: string, text: string): Promise<void> {
    let ended: SignIn;
    try {
      ended = this.#read(tenant, text);
    } catch {
      return;
    }
    await this.#records.putRecord(tenant, KIND, ended.id, { value: "ended", expected: 0, expiresAt: ended.until });
    this.#tellOthers(ended.id);
    this.endedElsewhere(ended.id);
  }

  endedElsewhere(id: string): void {
    this.#ended.forget((_hasEnded, known) => known === id);
    for (const listener of this.#endListeners) listener(id);
  }

  #read(tenant: string, text: string): SignIn {
    let value: unknown;
    try {
      value = this.#sealer.unseal(binding(tenant), text);
    } catch (error) {
      throw over(error);
    }
    const { id, token, until } = isObject(value) ? value : {};
    if (typeof id !== "string" || typeof token !== "string" || typeof until !== "number") throw over();
    return { id, token, until };
  }
}

const KIND = "sign-in";
/** Sign-ins whose state counts while the store does not answer. */
const KNOWN_MAX = 10_000;

function binding(tenant: string): readonly string[] {
  return ["sign-in", tenant];
}

function over(cause?: unknown): BerthError {
  return new BerthError("unauthorized", "the sign-in has ended; sign in again", { cause });
}
