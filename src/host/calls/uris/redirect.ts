import { BerthError } from "../../../lib/errors.ts";
import type { JsonObject } from "../../../lib/json.ts";
import type { CallOptions, CallResult, Catalog, InputRequired, ReadResult } from "../../offers/catalog.ts";
import { failure, textsOf } from "../../offers/content.ts";
import { LongObject, LongResult } from "../../offers/long-result.ts";
import { blockOfContents, contentsOfResult } from "../../offers/resource-contents.ts";
import type { Converter } from "../remake.ts";
import type { Uris } from "./uris.ts";

/**
 * Follows a redirect of a function. A target in Berth is read or called with the permissions of the function's server;
 * an external URL is returned as a link, never fetched. Each function in the chain has its own timeout.
 */
export interface Redirects {
  /** For a tool or a prompt. Returns an error result if the target is missing, or after too many redirects. */
  asResult(location: string, options: CallOptions): Promise<CallResult | InputRequired>;
  /** For a resource. Rejects with `guest_failed` in these cases. */
  asContents(
    location: string,
    reading: { uri: string; mimeType?: string },
    options: CallOptions,
  ): Promise<ReadResult | InputRequired>;
}

type RedirectResult = CallResult | ReadResult | InputRequired;

/** `resourceOf` finds resources that the function's server offers. */
export function createRedirects(uris: Uris, resourceOf: Catalog["resource"], remake: Converter): Redirects {
  const follow = async (text: string, options: CallOptions): Promise<RedirectResult> => {
    const location = parseLocation(text);
    if (location.kind === "refused") return failure(`The redirect to ${truncate(text)} is refused: ${location.reason}`);
    if (options.onRedirect) {
      const address = browserAddress(location);
      if (address !== undefined) return (options.onRedirect(address), { content: [] });
    }
    if (location.kind === "external") return createLink(location.url);
    try {
      return await followInternal(location.uri, options);
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
      return failure(`The redirect to ${truncate(text)} failed: ${error.message}`);
    }
  };
  const followInternal = async (uri: string, options: CallOptions): Promise<RedirectResult> => {
    // Tasks and connections belong to the call of the first function.
    const { onTask: _task, onCloseStream: _close, ...others } = options;
    const inner = { ...others, answers: unprefixAnswers(options.answers) };
    const result = (await uris.call(uri, inner)) ?? (await (await resourceOf(uri))?.read(inner));
    if (!result) throw new BerthError("resource_not_found", uri);
    return "inputRequests" in result ? { ...result, inputRequests: prefixKeys(result.inputRequests) } : result;
  };
  return {
    async asResult(location, options) {
      const result = await follow(location, options);
      if (result instanceof LongObject) return remake.result(result);
      return "contents" in result ? { content: result.contents.map(blockOfContents) } : result;
    },
    async asContents(location, { uri, mimeType }, options) {
      const result = await follow(location, options);
      if ("inputRequests" in result) return result;
      if (result instanceof LongObject || result instanceof LongResult) return remake.contents(result, uri, mimeType);
      if ("contents" in result) {
        return {
          contents: result.contents.map((each) => ({ ...each, uri, ...(mimeType !== undefined && { mimeType }) })),
        };
      }
      if (result.isError) throw new BerthError("guest_failed", textsOf(result));
      return { contents: contentsOfResult(result, uri, mimeType) };
    },
  };
}

function browserAddress(location: Location): string | undefined {
  if (location.kind === "external") return location.url;
  const path = location.kind === "internal" ? /^server:\/\/(.*)$/.exec(location.uri)?.[1] : undefined;
  return path === undefined ? undefined : `/servers/${path}`;
}

/** Prefix of keys of the target's questions, to distinguish them from those of the redirecting function. */
const KEY_PREFIX = "redirect.";

function prefixKeys<Requests extends object>(requests: Requests): Requests {
  return Object.fromEntries(Object.entries(requests).map(([key, each]) => [`${KEY_PREFIX}${key}`, each])) as Requests;
}

function unprefixAnswers(answers: JsonObject = {}): JsonObject {
  const within = Object.entries(answers).filter(([key]) => key.startsWith(KEY_PREFIX));
  return Object.fromEntries(within.map(([key, answer]) => [key.slice(KEY_PREFIX.length), answer]));
}

function createLink(url: string): CallResult {
  const { pathname, host } = new URL(url);
  return { content: [{ type: "resource_link", uri: url, name: pathname.split("/").findLast(Boolean) ?? host }] };
}

const DISPLAY_LENGTH_MAX = 200;

function truncate(text: string): string {
  return text.length > DISPLAY_LENGTH_MAX ? `${text.slice(0, DISPLAY_LENGTH_MAX)}…` : text;
}

/** The target of a redirect: a Berth URI, an external URL, or invalid. */
type Location =
  | { readonly kind: "internal"; readonly uri: string }
  | { readonly kind: "external"; readonly url: string }
  | { readonly kind: "refused"; readonly reason: string };

/** Parses the location of a redirect. `/servers/<name>/<function>` means `server://<name>/<function>`. */
function parseLocation(text: string): Location {
  const reason = `a redirect must lead to ${ALLOWED_TARGETS}`;
  // URIs have no spaces, control characters or non-ASCII characters.
  if (!/^[\x21-\x7e]+$/.test(text)) return { kind: "refused", reason: `${reason}, written as a URI` };
  if (/^(?:cid|variable|server):\/\//.test(text)) return { kind: "internal", uri: text };
  const path = /^\/servers\/([^/?#].*)$/.exec(text)?.[1];
  if (path !== undefined) return { kind: "internal", uri: `server://${path}` };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return { kind: "external", url: url.href };
  return { kind: "refused", reason };
}

const ALLOWED_TARGETS = "/servers/<name>/<function>, server://, cid://, variable://, https:// or http://";
