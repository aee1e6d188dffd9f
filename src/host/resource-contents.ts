import { isObject, type Json } from "../json.ts";
import type { ResourceContents } from "./catalog.ts";
import type { ReturnedValue } from "./content.ts";

/**
 * Turns what a resource's function returned into contents: a text, bytes, any JSON, or `{ contents: […] }` as the
 * protocol has it. Undefined when it knows nothing under the URI: it returned nothing, or null.
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
      return [{ uri, mimeType: mimeType ?? "text/plain", text: value.text }];
    case "bytes":
      return [ofBytes(value.base64, uri, value.mimeType ?? mimeType ?? "application/octet-stream")];
    case "json":
      if (value.value === null) return undefined;
      return (
        readyMade(value.value, uri, mimeType) ?? [
          { uri, mimeType: mimeType ?? "application/json", text: JSON.stringify(value.value) },
        ]
      );
  }
}

/** Bytes of a text are given as the text that they are. */
function ofBytes(base64: string, uri: string, mimeType: string): ResourceContents {
  if (/^text\/|[/+](?:json|xml)\b/.test(mimeType)) {
    try {
      return { uri, mimeType, text: new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(base64, "base64")) };
    } catch {
      // Not UTF-8: whoever reads it may know what it is.
    }
  }
  return { uri, mimeType, blob: base64 };
}

function readyMade(value: Json, uri: string, mimeType: string | undefined): ResourceContents[] | undefined {
  const list = isObject(value) ? value["contents"] : undefined;
  if (!Array.isArray(list)) return undefined;
  const contents = list.map((each) => oneOf(each, uri, mimeType));
  return contents.every((each) => each !== undefined) ? contents : undefined;
}

/** Only the fields that contents have are taken; what is left out is the resource's own. */
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
