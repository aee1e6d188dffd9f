import type { IncomingMessage } from "node:http";
import { BerthError } from "../../errors.ts";
import type { Draft, Subject } from "../../host/edits/edits.ts";
import { isObject } from "../../json.ts";
import { readBody } from "../body.ts";

/** What a text may be called; forms are left out, since any site could send one. */
const TEXT =
  /^(?:text\/(?:plain|typescript|javascript|x-shellscript|markdown)|application\/(?:typescript|x-sh))\s*(?:;|$)/i;
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;

/**
 * A draft as it comes: `{entry, files}` as JSON, or one text of a type of its own. JSON `null` is no draft: what
 * deletes. Rejects with `unsupported_media_type`, `parse_error`, `invalid_params` or `body_too_large`.
 */
export async function readDraft(request: IncomingMessage, subject: Subject, bodyBytes: number): Promise<Draft | null> {
  const { "content-type": type = "", "content-encoding": encoding = "identity" } = request.headers;
  const isJson = JSON_TYPE.test(type);
  if (!isJson && !TEXT.test(type)) throw new BerthError("unsupported_media_type", "or text/plain for one text");
  if (encoding !== "identity") throw new BerthError("unsupported_media_type", "and its Content-Encoding identity");
  const body = await readBody(request, bodyBytes);
  return isJson ? draftOf(body) : { ...textDraft(subject, body) };
}

function textDraft({ kind, name }: Subject, text: string): Draft {
  const ending = text.startsWith("#!") ? "sh" : "ts";
  const entry = kind === "definition" ? `${name}.${ending}` : name;
  return { entry, files: Object.fromEntries([[entry, text]]) };
}

function draftOf(body: string): Draft | null {
  let draft: unknown;
  try {
    draft = JSON.parse(body);
  } catch (error) {
    throw new BerthError("parse_error", (error as Error).message);
  }
  if (draft === null) return null;
  if (!isDraft(draft)) {
    throw new BerthError(
      "invalid_params",
      "a draft is {entry, files}, texts by path; send a single text as text/plain",
    );
  }
  const { entry, files } = draft;
  return { entry, files };
}

function isDraft(value: unknown): value is Draft {
  if (!isObject(value) || typeof value["entry"] !== "string" || !isObject(value["files"])) return false;
  return Object.values(value["files"]).every((text) => typeof text === "string");
}
