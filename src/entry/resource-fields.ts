import { faultOfUri, isTemplate, parseUriTemplate } from "../discover/uri-template.ts";
import type { Json } from "../lib/json.ts";
import { isOwn } from "./address.ts";
import { complain, inside, readFields, unlessWrong, type ConfigPlace } from "./config-place.ts";

/** A resource that the configuration or a transform declares. */
export interface ConfiguredResource {
  /** The name under which it is configured; its URI if it has none. */
  readonly key: string;
  /** A URI, or a template (RFC 6570) when it has `{…}`. */
  readonly uri: string;
  readonly name?: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType?: string;
  /** If absent, the definition's own resource of this URI gives it. */
  readonly content?: ConfiguredContent;
}

export type ConfiguredContent =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "blob"; readonly base64: string }
  /**
   * The content behind this `cid://`, `variable://` or `server://` URI. For a template, it may contain `{variables}` of
   * the template, which take their values from the requested URI.
   */
  | { readonly kind: "uri"; readonly uri: string };

/** Undefined when something is wrong with it; `place` then has the problems. `key` is the name that it stands under. */
export function readResource(key: string, raw: Json, place: ConfigPlace): ConfiguredResource | undefined {
  return unlessWrong(place, () => {
    const { uri: given, uriTemplate, text, blob, content, ...named } = readFields(raw, fields, "A resource", place);
    const uri = given ?? uriTemplate ?? "";
    if ((given === undefined) === (uriTemplate === undefined)) {
      complain(place, "missing-field", 'A resource needs either "uri" or "uriTemplate"');
    } else if (given !== undefined) {
      checkUri(given, inside(place, "uri"));
    } else {
      checkTemplate(uri, inside(place, "uriTemplate"));
    }
    if (named.mimeType !== undefined && !MEDIA_TYPE.test(named.mimeType)) {
      complain(inside(place, "mimeType"), "bad-media-type", "This must be a media type, such as text/plain");
    }
    const found = [
      ...(text === undefined ? [] : [{ kind: "text", text } as const]),
      ...(blob === undefined ? [] : [{ kind: "blob", base64: blob } as const]),
      ...(content === undefined ? [] : [{ kind: "uri", uri: content } as const]),
    ];
    if (found.length > 1) complain(place, "two-contents", 'A resource has exactly one of "text", "blob" and "content"');
    if (blob !== undefined && !BASE64.test(blob)) complain(inside(place, "blob"), "bad-base64", "It must be base64");
    if (content !== undefined) checkContent(content, uri, inside(place, "content"));
    const itself = isOwn(uri) ? ({ kind: "uri", uri } as const) : undefined;
    if (itself && found.length > 0 && content !== uri) {
      const message = `Berth serves its own content at ${uri}; give this content another URI`;
      complain(inside(place, given === undefined ? "uriTemplate" : "uri"), "bad-uri", message);
    }
    const gives = itself ?? found[0];
    return { key, uri, ...named, ...(gives && { content: gives }) };
  });
}

const fields = {
  uri: "text",
  uriTemplate: "text",
  name: "text",
  title: "text",
  description: "text",
  mimeType: "text",
  text: "text",
  blob: "text",
  content: "text",
} as const;

const MEDIA_TYPE = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}(?:\s*;[\x20-\x7e]*)?$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function checkUri(uri: string, place: ConfigPlace): void {
  const fault = isTemplate(uri) ? 'it is a template; put it in "uriTemplate"' : faultOfUri(uri);
  if (fault !== undefined) complain(place, "bad-uri", `${JSON.stringify(uri)} cannot be a resource: ${fault}`);
}

function checkTemplate(template: string, place: ConfigPlace): void {
  const parsed = parseUriTemplate(template);
  if ("message" in parsed) complain(place, "bad-template", `Not a URI template: ${parsed.message}`);
  else if (parsed.variables.length === 0) {
    complain(place, "bad-template", 'It has no {variable}; put it in "uri"');
  }
}

function checkContent(content: string, uri: string, place: ConfigPlace): void {
  if (!isOwn(content)) {
    return complain(place, "bad-uri", "Content must come from a cid://, variable:// or server:// URI");
  }
  const parsed = parseUriTemplate(content);
  if ("message" in parsed) return complain(place, "bad-uri", `No URI: ${parsed.message}`);
  const template = parseUriTemplate(uri);
  const known = new Set("message" in template ? [] : template.variables.map(({ name }) => name));
  const unknown = parsed.variables.find(({ name }) => !known.has(name));
  if (unknown) complain(place, "unknown-variable", `{${unknown.name}} is not a variable of the resource's template`);
}
