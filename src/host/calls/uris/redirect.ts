import { BerthError } from "../../../lib/errors.ts";
import type { JsonObject } from "../../../lib/json.ts";
import type { CallOptions, CallResult, Catalog, InputRequired, ReadResult } from "../../offers/catalog.ts";
import { failure, textsOf } from "../../offers/content.ts";
import { LongObject, LongResult } from "../../offers/long-result.ts";
import { blockOfContents, contentsOfResult } from "../../offers/resource-contents.ts";
import type { Remake } from "../remake.ts";
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

type Led = CallResult | ReadResult | InputRequired;

/** `resourceOf` finds resources that the function's server offers. */
export function createRedirects(uris: Uris, resourceOf: Catalog["resource"], remake: Remake): Redirects {
  const follow = async (text: string, options: CallOptions): Promise<Led> => {
    const location = readLocation(text);
    if (location.kind === "refused") return failure(`The redirect to ${shown(text)} is refused: ${location.reason}`);
    if (options.onRedirect) {
      const address = addressOf(location);
      if (address !== undefined) return (options.onRedirect(address), { content: [] });
    }
    if (location.kind === "external") return linkTo(location.url);
    try {
      return await lead(location.uri, options);
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
      return failure(`The redirect to ${shown(text)} failed: ${error.message}`);
    }
  };
  const lead = async (uri: string, options: CallOptions): Promise<Led> => {
    // Tasks and connections belong to the call of the first function.
    const { onTask: _task, onCloseStream: _close, ...others } = options;
    const inner = { ...others, answers: answersWithin(options.answers) };
    const led = (await uris.call(uri, inner)) ?? (await (await resourceOf(uri))?.read(inner));
    if (!led) throw new BerthError("resource_not_found", uri);
    return "inputRequests" in led ? { ...led, inputRequests: outward(led.inputRequests) } : led;
  };
  return {
    async asResult(location, options) {
      const led = await follow(location, options);
      if (led instanceof LongObject) return remake.result(led);
      return "contents" in led ? { content: led.contents.map(blockOfContents) } : led;
    },
    async asContents(location, { uri, mimeType }, options) {
      const led = await follow(location, options);
      if ("inputRequests" in led) return led;
      if (led instanceof LongObject || led instanceof LongResult) return remake.contents(led, uri, mimeType);
      if ("contents" in led) {
        return {
          contents: led.contents.map((each) => ({ ...each, uri, ...(mimeType !== undefined && { mimeType }) })),
        };
      }
      if (led.isError) throw new BerthError("guest_failed", textsOf(led));
      return { contents: contentsOfResult(led, uri, mimeType) };
    },
  };
}

function addressOf(location: Location): string | undefined {
  if (location.kind === "external") return location.url;
  const path = location.kind === "internal" ? /^server:\/\/(.*)$/.exec(location.uri)?.[1] : undefined;
  return path === undefined ? undefined : `/servers/${path}`;
}

/** Prefix of keys of the target's questions, to distinguish them from those of the redirecting function. */
const WITHIN = "redirect.";

function outward<Requests extends object>(requests: Requests): Requests {
  return Object.fromEntries(Object.entries(requests).map(([key, each]) => [`${WITHIN}${key}`, each])) as Requests;
}

function answersWithin(answers: JsonObject = {}): JsonObject {
  const within = Object.entries(answers).filter(([key]) => key.startsWith(WITHIN));
  return Object.fromEntries(within.map(([key, answer]) => [key.slice(WITHIN.length), answer]));
}

function linkTo(url: string): CallResult {
  const { pathname, host } = new URL(url);
  return { content: [{ type: "resource_link", uri: url, name: pathname.split("/").findLast(Boolean) ?? host }] };
}

const SHOWN_UNITS_MAX = 200;

function shown(text: string): string {
  return text.length > SHOWN_UNITS_MAX ? `${text.slice(0, SHOWN_UNITS_MAX)}…` : text;
}

/** The target of a redirect: a Berth URI, an external URL, or invalid. */
type Location =
  | { readonly kind: "internal"; readonly uri: string }
  | { readonly kind: "external"; readonly url: string }
  | { readonly kind: "refused"; readonly reason: string };

/** Parses the location of a redirect. `/servers/<name>/<function>` means `server://<name>/<function>`. */
function readLocation(text: string): Location {
  const reason = `a redirect must lead to ${WANTED}`;
  // URIs have no spaces, control characters or non-ASCII characters.
  if (!/^[\x21-\x7e]+$/.test(text)) return { kind: "refused", reason: `${reason}, written as a URI` };
  if (/^(?:cid|variable|server):\/\//.test(text)) return { kind: "internal", uri: text };
  const path = /^\/servers\/([^/?#].*)$/.exec(text)?.[1];
  if (path !== undefined) return { kind: "internal", uri: `server://${path}` };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return { kind: "external", url: url.href };
  return { kind: "refused", reason };
}

const WANTED = "/servers/<name>/<function>, server://, cid://, variable://, https:// or http://";
