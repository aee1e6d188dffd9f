import { isUtf8 } from "node:buffer";
import { text as textBlock } from "../../contract/content-block.ts";
import { isObject, type Json, tryParseJson } from "../../lib/json.ts";
import type { CallResult, ContentBlock, ResourceContents } from "./catalog.ts";
import { blockOfBytes, type ReturnedValue } from "./content.ts";

/**
 * Turns what a resource's function returned into contents: a text, bytes, any JSON, or `{ contents: […] }` as in the
 * protocol. Undefined when it returned nothing or null: it knows nothing under the URI.
 */
export function toContents(
  value: ReturnedValue,
  uri: string,
  mimeType: string | undefined,
): readonly ResourceContents[] | undefined {
  switch (value.kind) {
    case "none":
      return undefined;
    case "text":
      return [{ uri, mimeType: mimeType ?? value.mimeType ?? "text/plain", text: value.text }];
    case "bytes":
      return [contentsOfBase64(value.base64, uri, value.mimeType ?? mimeType ?? OCTETS)];
    case "json":
      if (value.value === null) return undefined;
      return (
        readyMade(value.value, uri, mimeType) ?? [
          { uri, mimeType: mimeType ?? "application/json", text: JSON.stringify(value.value) },
        ]
      );
  }
}

const OCTETS = "application/octet-stream";
const TEXTUAL = /^text\/|[/+](?:json|xml|yaml|toml|javascript|typescript|ecmascript|graphql|sql|x-sh|x-ndjson)\b/;

/** Gives bytes of a textual type as text. */
function contentsOfBase64(base64: string, uri: string, mimeType: string): ResourceContents {
  const bytes = TEXTUAL.test(mimeType) ? Buffer.from(base64, "base64") : undefined;
  // Bytes that are not UTF-8 stay bytes: the reader may know what they are.
  return bytes && isUtf8(bytes) ? { uri, mimeType, text: bytes.toString() } : { uri, mimeType, blob: base64 };
}

/** Follows the media type; without one, UTF-8 without a NUL is text, and a JSON object or list is JSON. */
export function contentsOfBytes(bytes: Uint8Array, uri: string, mimeType: string | undefined): ResourceContents {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isText = (mimeType === undefined ? !bytes.includes(0) : TEXTUAL.test(mimeType)) && isUtf8(bytes);
  if (!isText) return { uri, mimeType: mimeType ?? OCTETS, blob: buffer.toString("base64") };
  const text = buffer.toString();
  return { uri, mimeType: mimeType ?? (isJson(text) ? "application/json" : "text/plain"), text };
}

function isJson(text: string): boolean {
  return /^\s*[{[]/.test(text) && tryParseJson(text) !== undefined;
}

function readyMade(value: Json, uri: string, mimeType: string | undefined): ResourceContents[] | undefined {
  const list = isObject(value) ? value["contents"] : undefined;
  if (!Array.isArray(list)) return undefined;
  const contents = list.map((each) => oneOf(each, uri, mimeType));
  return contents.every((each) => each !== undefined) ? contents : undefined;
}

/** Takes only the fields that contents have; missing ones are the resource's own. */
function oneOf(value: Json, uri: string, mimeType: string | undefined): ResourceContents | undefined {
  if (!isObject(value)) return undefined;
  const { text, blob } = value;
  const type = typeof value["mimeType"] === "string" ? value["mimeType"] : mimeType;
  const named = {
    uri: typeof value["uri"] === "string" ? value["uri"] : uri,
    ...(type !== undefined && { mimeType: type }),
  };
  if (typeof text === "string") return { ...named, text };
  return typeof blob === "string" ? { ...named, blob } : undefined;
}

/** A list of addresses, one per line (RFC 2483): the contents of a resource that is elsewhere. */
const URI_LIST = "text/uri-list";

/** A tool's result as the contents of a resource: its value, or else its blocks. */
export function contentsOfResult(
  { content, structuredContent }: CallResult,
  uri: string,
  mimeType: string | undefined,
): readonly ResourceContents[] {
  if (typeof structuredContent === "string")
    return [{ uri, mimeType: mimeType ?? "text/plain", text: structuredContent }];
  if (structuredContent !== undefined) {
    return [{ uri, mimeType: mimeType ?? "application/json", text: JSON.stringify(structuredContent) }];
  }
  if (content.length === 0) return [{ uri, mimeType: mimeType ?? "text/plain", text: "" }];
  return content.map((block) => contentsOfBlock(block, uri, mimeType));
}

function contentsOfBlock(block: ContentBlock, uri: string, mimeType: string | undefined): ResourceContents {
  switch (block.type) {
    case "image":
    case "audio":
      return { uri, mimeType: block["mimeType"] as string, blob: block["data"] as string };
    case "resource_link":
      return { uri, mimeType: URI_LIST, text: `${block["uri"] as string}\r\n` };
    case "resource":
      return { ...oneOf(block["resource"]!, uri, mimeType)!, uri };
    default:
      return { uri, mimeType: mimeType ?? "text/plain", text: block["text"] as string };
  }
}

/** Contents as a block of a tool's result: a text as a text, bytes by their type. */
export function blockOfContents(contents: ResourceContents): ContentBlock {
  return "text" in contents ? textBlock(contents.text) : blockOfBytes(contents.blob, contents.mimeType);
}
