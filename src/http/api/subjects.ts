import { Router, type Request, type Response } from "express";
import { rightsOf } from "../../access/rights.ts";
import { BerthError } from "../../errors.ts";
import type { Draft, Saved, Subject } from "../../host/edits/edits.ts";
import { namesOnPage, readListPage } from "../list-page.ts";
import { tenantOf } from "../place.ts";
import { principalOf } from "../access/authenticate.ts";
import { changing, listing, mayKnow, named, reading } from "../access/permit.ts";
import { cancelledBy } from "../mcp-route.ts";
import { addRoute, type Handler, type Permits } from "./add-route.ts";
import type { ApiOptions } from "./api.ts";
import { etagOf, requirePrecondition, saveOptions } from "./preconditions.ts";
import { readDraft } from "./read-draft.ts";
import { textDiff } from "./text-diff.ts";

/** What a list is called, in its address and in its answer. */
const lists: Readonly<Record<Subject["kind"], string>> = {
  variable: "variables",
  definition: "definitions",
  entry: "entries",
};

/** What whoever writes one has to have at least; what the writing changes may take more (`checkRights`). */
const POWERS = { variable: "values", definition: "source", entry: "entry" } as const;

/** `/api/variables`, `/api/definitions` and `/api/entries`: the same for each kind of what can be edited. */
export function subjectRoutes(kind: Subject["kind"], options: ApiOptions): { path: string; router: Router } {
  const { edits, access, limits } = options;
  const list = lists[kind];
  const aboutServer = kind !== "variable";
  const subjectOf = ({ params }: Request<Record<string, string>>): Subject => ({ kind, name: params["name"]! });

  const getList: Handler = async (request, response) => {
    const tenant = tenantOf(request);
    const page = readListPage(request, limits);
    const principal = principalOf(request);
    const isShown = (name: string): boolean => mayKnow(principal, aboutServer ? name : undefined);
    const { names, next } = namesOnPage(await edits.names(tenant, kind), page, isShown);
    response.json({ [list]: await edits.list(tenant, kind, names), ...(next !== undefined && { next }) });
  };

  const getCurrent: Handler = async (request, response) => {
    const current = await edits.read(tenantOf(request), subjectOf(request));
    if (!current) throw notFound(subjectOf(request));
    response.setHeader("ETag", etagOf(current.cid));
    response.json(current);
  };

  const put: Handler = async (request, response) => {
    const draft = await readDraft(request, subjectOf(request), options);
    if (!draft) throw new BerthError("invalid_params", "null is no draft; DELETE deletes");
    await save(draft, request, response);
  };

  const deleteIt: Handler = (request, response) => save(null, request, response);

  const postReview: Handler = async (request, response) => {
    const subject = subjectOf(request);
    const draft = await readDraft(request, subject, options);
    const rights = rightsOf(principalOf(request), access);
    response.json(await edits.review(tenantOf(request), subject, draft, rights, cancelledBy(response)));
  };

  const getHistory: Handler = async (request, response) => {
    const versions = await edits.history(tenantOf(request), subjectOf(request));
    if (versions.length === 0) throw notFound(subjectOf(request));
    response.json({ versions });
  };

  const getVersion: Handler = async (request, response) => {
    const cid = request.params["cid"]!;
    const { entry, files } = await versionOf(request, cid);
    response.setHeader("ETag", etagOf(cid));
    response.setHeader("Cache-Control", "private, max-age=31536000, immutable");
    response.json({ cid, entry, files });
  };

  const getDiff: Handler = async (request, response) => {
    const { from, to } = request.query;
    if (typeof from !== "string" || !(to === undefined || typeof to === "string")) {
      throw new BerthError(
        "invalid_params",
        "from=CID names a version, to=CID another, or what stands when it is absent",
      );
    }
    const subject = subjectOf(request);
    const before = await versionOf(request, from);
    const after = to === undefined ? await edits.read(tenantOf(request), subject) : await versionOf(request, to);
    if (!after) throw notFound(subject);
    response.type("text/plain").send(textDiff(before, after));
  };

  async function save(
    draft: Draft | null,
    request: Request<Record<string, string>>,
    response: Response,
  ): Promise<void> {
    const subject = subjectOf(request);
    const precondition = requirePrecondition(request);
    const saved = await edits.save(tenantOf(request), subject, draft, saveOptions(request, precondition, access));
    sendSaved(response.status(precondition.kind === "absent" ? 201 : 200), saved);
  }

  async function versionOf(request: Request<Record<string, string>>, cid: string): Promise<Draft> {
    const subject = subjectOf(request);
    const draft = await edits.version(tenantOf(request), subject, cid);
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
