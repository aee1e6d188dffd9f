import { Router, type Response } from "express";
import { rightsOf } from "../../access/rights.ts";
import type { Saved } from "../../contract/review.ts";
import type { Subject } from "../../edits/edits.ts";
import { parseDraft, type Draft } from "../../lib/draft.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldInOrder } from "../../lib/event-loop.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import { isScript } from "../../lib/script-text.ts";
import { changing, listing, mayKnow, named, reading } from "../access/permit.ts";
import { namesOnPage, readListPage } from "../list-page.ts";
import type { RequestContext } from "../request-context.ts";
import type { RoutedContext, RouteHandler } from "../routed.ts";
import { addRoute, type Permits } from "./add-route.ts";
import type { ApiOptions } from "./add-route.ts";
import { etagOf, requirePrecondition, saveOptions } from "./preconditions.ts";
import { textDiff } from "./text-diff.ts";

/** The name of each list, in its address and in its answer. */
const lists: Readonly<Record<Subject["kind"], string>> = {
  variable: "variables",
  definition: "definitions",
  entry: "entries",
};

/** The power that a write needs at least; what it changes may need more (`checkRights`). */
const POWERS = { variable: "values", definition: "source", entry: "entry" } as const;

/** `/api/variables`, `/api/definitions` and `/api/entries`: the same routes for each kind of subject. */
export function subjectRoutes(kind: Subject["kind"], options: ApiOptions): { path: string; router: Router } {
  const { edits, access } = options;
  const list = lists[kind];
  const aboutServer = kind !== "variable";
  const subjectOf = ({ request }: RoutedContext): Subject => ({ kind, name: request.params["name"]! });

  const getList: RouteHandler = async (context) => {
    const { tenant, principal } = context;
    const page = readListPage(context.request);
    const isShown = (name: string): boolean => mayKnow(principal, aboutServer ? name : undefined);
    const { names, next } = namesOnPage(await edits.names(tenant, kind), page, isShown);
    context.response.json({ [list]: await edits.list(tenant, kind, names), ...(next !== undefined && { next }) });
  };

  const getCurrent: RouteHandler = async (context) => {
    const current = await edits.read(context.tenant, subjectOf(context));
    if (!current) throw notFound(subjectOf(context));
    context.response.setHeader("ETag", etagOf(current.cid));
    // As JSON, a megabyte may become six, so concurrent reads take turns.
    await yieldInOrder();
    context.response.json(current);
  };

  const put: RouteHandler = async (context) => {
    const draft = await readDraft(context, subjectOf(context), options);
    if (!draft) throw new BerthError("invalid_params", "null is not a draft; use DELETE to delete");
    await save(draft, context);
  };

  const deleteIt: RouteHandler = (context) => save(null, context);

  const postReview: RouteHandler = async (context) => {
    const subject = subjectOf(context);
    const draft = await readDraft(context, subject, options);
    const rights = rightsOf(context.principal, access);
    context.response.json(await edits.review(context.tenant, subject, draft, rights, context.signal));
  };

  const getHistory: RouteHandler = async (context) => {
    const versions = await edits.history(context.tenant, subjectOf(context));
    if (versions.length === 0) throw notFound(subjectOf(context));
    context.response.json({ versions });
  };

  const getVersion: RouteHandler = async (context) => {
    const cid = context.request.params["cid"]!;
    const { entry, files } = await versionOf(context, cid);
    context.response.setHeader("ETag", etagOf(cid));
    context.response.setHeader("Cache-Control", "private, max-age=31536000, immutable");
    // As JSON, a megabyte may become six, so concurrent reads take turns.
    await yieldInOrder();
    context.response.json({ cid, entry, files });
  };

  const getDiff: RouteHandler = async (context) => {
    const { from, to } = context.request.query;
    if (typeof from !== "string" || !(to === undefined || typeof to === "string")) {
      throw new BerthError(
        "invalid_params",
        "from=CID must name a version, and to=CID another; without it, the current version",
      );
    }
    const subject = subjectOf(context);
    const before = await versionOf(context, from);
    const after = to === undefined ? await edits.read(context.tenant, subject) : await versionOf(context, to);
    if (!after) throw notFound(subject);
    context.response.type("text/plain").send(textDiff(before, after));
  };

  async function save(draft: Draft | null, context: RoutedContext): Promise<void> {
    const subject = subjectOf(context);
    const precondition = requirePrecondition(context.request);
    const saved = await edits.save(context.tenant, subject, draft, saveOptions(context, precondition, access));
    sendSaved(context.response.status(precondition.kind === "absent" ? 201 : 200), saved);
  }

  async function versionOf(context: RoutedContext, cid: string): Promise<Draft> {
    const subject = subjectOf(context);
    const draft = await edits.version(context.tenant, subject, cid);
    if (draft) return draft;
    throw new BerthError("not_found", `the ${kind} "${subject.name}" never was ${cid}`);
  }

  const router = Router();
  const one: Permits = {
    read: aboutServer ? reading(named) : reading(),
    write: changing(POWERS[kind], named),
  };
  addRoute(router, "/", aboutServer ? { ...one, read: listing } : one, { get: getList });
  addRoute(router, "/:name", one, { get: getCurrent, put, delete: deleteIt });
  addRoute(router, "/:name/review", one, { post: postReview });
  addRoute(router, "/:name/history", one, { get: getHistory });
  addRoute(router, "/:name/versions/:cid", one, { get: getVersion });
  addRoute(router, "/:name/diff", one, { get: getDiff });
  return { path: `/${list}`, router };
}

export function sendSaved(response: Response, { cid, review }: Saved): void {
  if (cid !== null) response.setHeader("ETag", etagOf(cid));
  response.json({ cid, review });
}

function notFound({ kind, name }: Subject): BerthError {
  return new BerthError("not_found", `there is no ${kind} "${name}"`);
}

/** The media types accepted for a text. Forms can send `text/plain`, too: `checkChange` refuses those of other sites. */
const TEXT =
  /^(?:text\/(?:plain|typescript|javascript|x-shellscript|markdown)|application\/(?:typescript|x-sh))\s*(?:;|$)/i;
const JSON_TYPE = /^application\/json\s*(?:;|$)/i;

/**
 * Reads a draft: `{entry, files}` as JSON, or one text of its own media type. JSON `null` stands for a deletion.
 * Rejects with `unsupported_media_type`, `parse_error`, `invalid_params` or `body_too_large`.
 */
async function readDraft(
  context: RequestContext,
  subject: Subject,
  { bodies, checks }: Pick<ApiOptions, "bodies" | "checks">,
): Promise<Draft | null> {
  const { "content-type": type = "", "content-encoding": encoding = "identity" } = context.request.headers;
  const isJson = JSON_TYPE.test(type);
  if (!isJson && !TEXT.test(type)) throw new BerthError("unsupported_media_type", "or text/plain for one text");
  if (encoding !== "identity") throw new BerthError("unsupported_media_type", "and its Content-Encoding identity");
  const body = await bodies.read(context);
  if (!isJson) return textDraft(subject, body);
  return body.length > readingBounds.inlineBodyBytes ? checks.readDraft(context.tenant, body) : parseDraft(body);
}

function textDraft({ kind, name }: Subject, text: string): Draft {
  const ending = isScript(text) ? "sh" : "ts";
  const entry = kind === "definition" ? `${name}.${ending}` : name;
  return { entry, files: Object.fromEntries([[entry, text]]) };
}
