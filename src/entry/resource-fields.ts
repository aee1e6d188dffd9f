import { findUriFault, isTemplate, parseUriTemplate } from "../discover/uri-template.ts";
import type { Json } from "../lib/json.ts";
import { isOwnUri } from "./address.ts";
import { addProblem, inside, readFields, readIfValid, type ConfigPlace } from "./config-place.ts";

/** A resource that the configuration or a transform declares. */
export interface ConfiguredResource {
  /** The name under which it is configured; its URI if it has none. */
  readonly key: string;
  /** A URI, or a template (RFC 6570) if it has `{…}`. */
  readonly uri: string;
  readonly name?: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType?: string;
  /** If absent, the definition's own resource of this URI provides it. */
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

/** Undefined if it is invalid; `place` then has the problems. `key` is the name under which it is configured. */
export function readResource(key: string, raw: Json, place: ConfigPlace): ConfiguredResource | undefined {
  return readIfValid(place, () => {
    const { uri: plainUri, uriTemplate, text, blob, content, ...named } = readFields(raw, fields, "A resource", place);
    const uri = plainUri ?? uriTemplate ?? "";
    if ((plainUri === undefined) === (uriTemplate === undefined)) {
      addProblem(place, "missing-field", 'A resource needs either "uri" or "uriTemplate"');
    } else if (plainUri !== undefined) {
      checkUri(plainUri, inside(place, "uri"));
    } else {
      checkTemplate(uri, inside(place, "uriTemplate"));
    }
    if (named.mimeType !== undefined && !MEDIA_TYPE.test(named.mimeType)) {
      addProblem(inside(place, "mimeType"), "bad-media-type", "This must be a media type, such as text/plain");
    }
    const contents = [
      ...(text === undefined ? [] : [{ kind: "text", text } as const]),
      ...(blob === undefined ? [] : [{ kind: "blob", base64: blob } as const]),
      ...(content === undefined ? [] : [{ kind: "uri", uri: content } as const]),
    ];
    if (contents.length > 1)
      addProblem(place, "two-contents", 'A resource has exactly one of "text", "blob" and "content"');
    if (blob !== undefined && !BASE64.test(blob)) addProblem(inside(place, "blob"), "bad-base64", "It must be base64");
    if (content !== undefined) checkContent(content, uri, inside(place, "content"));
    const ownContent = isOwnUri(uri) ? ({ kind: "uri", uri } as const) : undefined;
    if (ownContent && contents.length > 0 && content !== uri) {
      const message = `Berth serves its own content at ${uri}; give this content another URI`;
      addProblem(inside(place, plainUri === undefined ? "uriTemplate" : "uri"), "bad-uri", message);
    }
    const resolved = ownContent ?? contents[0];
    return { key, uri, ...named, ...(resolved && { content: resolved }) };
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
  const fault = isTemplate(uri) ? 'it is a template; put it in "uriTemplate"' : findUriFault(uri);
  if (fault !== undefined) addProblem(place, "bad-uri", `${JSON.stringify(uri)} cannot be a resource: ${fault}`);
}

function checkTemplate(template: string, place: ConfigPlace): void {
  const parsed = parseUriTemplate(template);
  if ("message" in parsed) addProblem(place, "bad-template", `Not a URI template: ${parsed.message}`);
  else if (parsed.variables.length === 0) {
    addProblem(place, "bad-template", 'It has no {variable}; put it in "uri"');
  }
}

function checkContent(content: string, uri: string, place: ConfigPlace): void {
  if (!isOwnUri(content)) {
    return addProblem(place, "bad-uri", "Content must come from a cid://, variable:// or server:// URI");
  }
  const parsed = parseUriTemplate(content);
  if ("message" in parsed) return addProblem(place, "bad-uri", `Not a URI: ${parsed.message}`);
  const template = parseUriTemplate(uri);
  const declared = new Set("message" in template ? [] : template.variables.map(({ name }) => name));
  const unknown = parsed.variables.find(({ name }) => !declared.has(name));
  if (unknown) addProblem(place, "unknown-variable", `{${unknown.name}} is not a variable of the resource's template`);
}
