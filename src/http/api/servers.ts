import { Router, type Request } from "express";
import { ChangeSelection } from "../../contract/change.ts";
import { compareContractsYielding } from "../../contract/compare.ts";
import type { Contract } from "../../contract/contract.ts";
import type { ServerSummary } from "../../host/catalog/overview.ts";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { mapYielding } from "../../lib/event-loop.ts";
import { tryParseObject } from "../../lib/json.ts";
import { listedProblems } from "../../lib/problem.ts";
import { changing, listing, mayChange, mayKnow, named, reading, readingWith } from "../access/permit.ts";
import { SHORT_BODY_BYTES } from "../body.ts";
import { namesOnPage, readListPage } from "../list-page.ts";
import type { RouteHandler } from "../routed.ts";
import { addRoute, type Permits } from "./add-route.ts";
import type { ApiOptions } from "./add-route.ts";
import { readPrecondition, saveOptions, writerOf } from "./preconditions.ts";
import { sendSaved } from "./subjects.ts";

/** `/api/servers`: the servers, and the releases of each. */
export function serverRoutes({ edits, host, access, bodies }: ApiOptions): Router {
  const getList: RouteHandler = async (context) => {
    const { tenant, base, principal } = context;
    const page = readListPage(context.request);
    const { names, next } = namesOnPage(host.names(tenant), page, (name) => mayKnow(principal, name));
    const summaries = await mapYielding(names, (name) => host.summary(tenant, name));
    const servers = summaries.flatMap((summary) => (summary ? [summaryOf(base, summary)] : []));
    const problems = mayKnow(principal) ? host.problems(tenant) : [];
    context.response.json({ problems, servers, ...(next !== undefined && { next }) });
  };

  const getReleases: RouteHandler = async (context) => {
    const name = context.request.params["name"]!;
    const releases = await edits.releases(context.tenant, name);
    if (releases.length === 0) throw new BerthError("not_found", `"${name}" has no releases`);
    context.response.json({ releases });
  };

  const postRestore: RouteHandler = async (context) => {
    const { name, cid } = context.request.params;
    const options = {
      ...saveOptions(context, readPrecondition(context.request), access),
      keepEntry: keepsEntry(context.request),
    };
    sendSaved(context.response, await edits.restoreRelease(context.tenant, name!, cid!, options));
  };

  const setWithdrawn =
    (isWithdrawn: boolean): RouteHandler =>
    async (context) => {
      const { name, cid } = context.request.params;
      const { by, rights } = saveOptions(context, undefined, access);
      await edits.withdrawRelease(context.tenant, name!, cid!, { isWithdrawn, by, rights });
      context.response.json({ release: cid, withdrawn: isWithdrawn });
    };

  const getDiff: RouteHandler = async (context) => {
    const name = context.request.params["name"]!;
    const { from, to } = context.request.query;
    const tenant = context.tenant;
    const [before, after] = [await contractAt(tenant, name, from), await contractAt(tenant, name, to)];
    context.response.json({ changes: new ChangeSelection().of(await compareContractsYielding(before, after)) });
  };

  const getUpstream: RouteHandler = async (context) => {
    const name = context.request.params["name"]!;
    const tenant = context.tenant;
    // The state of an upstream is read together with its server.
    await host.summary(tenant, name);
    const upstream = await host.upstreamNow(tenant, name);
    if (!upstream) throw new BerthError("not_found", `"${name}" is not an upstream`);
    const { health, pending, autoApproved, launcher, stderr, node } = upstream;
    context.response.json({
      name: upstream.name,
      launcher,
      ...health,
      ...(stderr !== "" && mayChange(context, "entry", name) && { stderr }),
      ...(node && { node }),
      ...(pending && { pending: { contract: pending.contract, changes: pending.changes } }),
      ...(autoApproved && { autoApproved: { contract: autoApproved.contract, changes: autoApproved.changes } }),
    });
  };

  const getRecent: RouteHandler = async (context) => {
    const name = context.request.params["name"]!;
    const tenant = context.tenant;
    if (!(await host.summary(tenant, name))) throw new BerthError("server_not_found", `"${name}"`);
    context.response.json({ recent: host.activity(tenant, name).lines() });
  };

  const postApprove: RouteHandler = async (context) => {
    const name = context.request.params["name"]!;
    const by = writerOf(context);
    const contract = contractIn(await bodies.read(context, SHORT_BODY_BYTES));
    await host.approveUpstream(context.tenant, name, { contract, by });
    context.response.json({ contract });
  };

  async function contractAt(tenant: string, name: string, cid: unknown): Promise<Contract> {
    if (typeof cid !== "string") throw new BerthError("invalid_params", "from=CID and to=CID must name two releases");
    const contract = await edits.contract(tenant, name, cid);
    if (contract) return contract;
    throw new BerthError("not_found", `"${name}" has no release ${cid}`);
  }

  const router = Router();
  const one: Permits = { read: reading(named), write: changing("source", named) };
  addRoute(router, "/", { ...one, read: listing }, { get: getList });
  addRoute(router, "/:name/releases", one, { get: getReleases });
  addRoute(router, "/:name/releases/:cid/restore", one, { post: postRestore });
  addRoute(
    router,
    "/:name/releases/:cid/withdrawal",
    { ...one, write: changing("withdrawal", named) },
    { put: setWithdrawn(true), delete: setWithdrawn(false) },
  );
  addRoute(router, "/:name/upstream", one, { get: getUpstream });
  addRoute(router, "/:name/approve", { ...one, write: changing("approvals", named) }, { post: postApprove });
  addRoute(router, "/:name/recent", { ...one, read: readingWith("source", named) }, { get: getRecent });
  addRoute(router, "/:name/diff", one, { get: getDiff });
  return router;
}

/** `?entry=keep`: the entry stays as it is now. */
function keepsEntry({ query: { entry } }: Pick<Request, "query">): boolean {
  if (entry === undefined || entry === "keep") return entry === "keep";
  throw new BerthError(
    "invalid_params",
    "entry=keep restores the source alone; without it, the entry is restored, too",
  );
}

/** The body of an approval: `{contract}`, the CID of exactly the contract that the person reviewed. */
function contractIn(body: string): Cid {
  const contract = tryParseObject(body)?.["contract"];
  if (typeof contract === "string") return contract;
  throw new BerthError(
    "invalid_params",
    "the body must be {contract}: the CID of the contract that you approve, as JSON",
  );
}

function summaryOf(
  base: string,
  { name, state, description, catalog, problems }: ServerSummary,
): Record<string, unknown> {
  return {
    name,
    state,
    url: `${base}/mcp/${encodeURIComponent(name)}`,
    ...(description !== undefined && { description }),
    ...(catalog && { release: catalog.release, contract: catalog.contractCid }),
    problems: listedProblems(problems),
  };
}
