import { BerthError } from "../../lib/errors.ts";
import { parseDraft } from "../../edits/draft-checks.ts";
import type { Draft, Subject } from "../../edits/edits.ts";
import type { RequestContext } from "../request-context.ts";
import type { ApiOptions } from "./api.ts";

/** The media types accepted for a text. Forms can send `text/plain`, too: `checkChange` refuses those of other sites. */
const TEXT =
  /^(?:text\/(?:plain|typescript|javascript|x-shellscript|markdown)|application\/(?:typescript|x-sh))\s*(?:;|$)/i;
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;

/**
 * Reads a draft: `{entry, files}` as JSON, or one text of its own media type. JSON `null` stands for a deletion.
 * Rejects with `unsupported_media_type`, `parse_error`, `invalid_params` or `body_too_large`.
 */
export async function readDraft(
  context: RequestContext,
  subject: Subject,
  { bodies, checks, limits: { inlineBodyBytes } }: Pick<ApiOptions, "bodies" | "checks" | "limits">,
): Promise<Draft | null> {
  const { "content-type": type = "", "content-encoding": encoding = "identity" } = context.request.headers;
  const isJson = JSON_TYPE.test(type);
  if (!isJson && !TEXT.test(type)) throw new BerthError("unsupported_media_type", "or text/plain for one text");
  if (encoding !== "identity") throw new BerthError("unsupported_media_type", "and its Content-Encoding identity");
  const body = await bodies.read(context);
  if (!isJson) return textDraft(subject, body);
  return body.length > inlineBodyBytes ? checks.readDraft(context.tenant, body) : parseDraft(body);
}

function textDraft({ kind, name }: Subject, text: string): Draft {
  const ending = text.startsWith("#!") ? "sh" : "ts";
  const entry = kind === "definition" ? `${name}.${ending}` : name;
  return { entry, files: Object.fromEntries([[entry, text]]) };
}
