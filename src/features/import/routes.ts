import { Router } from "express";
import { changing, checkChange } from "../../http/access/permit.ts";
import { addRoute } from "../../http/api/add-route.ts";
import { saveOptions, writerOf } from "../../http/api/preconditions.ts";
import type { FeatureApiKit, FeatureRoutes } from "../../http/feature-routes.ts";
import type { RouteHandler, RoutedContext } from "../../http/routed.ts";
import { BerthError } from "../../lib/errors.ts";
import { indentedJson, isObject, tryParseJson } from "../../lib/json.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import { planImport, type ImportPlan } from "./plan.ts";

export function importRoutes(): FeatureRoutes {
  return { api: [{ path: "/import", create: apiRoutes }], newServer: { partial: "import", script: "import.js" } };
}

/** As messages call the text of the box. */
const FILE = "the pasted text";

/**
 * `POST /api/import` shows what a client's file would add, `PUT /api/import` adds the chosen servers. No answer contains
 * a value of a secret.
 */
function apiRoutes({ bodies, edits, access, secrets }: FeatureApiKit): Router {
  const read = async (context: RoutedContext): Promise<{ plan: ImportPlan; chosen: (name: string) => boolean }> => {
    // It is parsed on the serving thread.
    const body = tryParseJson(await bodies.read(context, readingBounds.inlineBodyBytes));
    const { text, servers } = isObject(body) ? body : {};
    if (typeof text !== "string") throw new BerthError("invalid_params", "the body must be {text, servers?} as JSON");
    const { tenant } = context;
    const taken = new Set(await edits.names(tenant, "entry"));
    const names = (await secrets?.list(tenant))?.filter(({ set }) => set !== undefined) ?? [];
    const stored = new Map(names.map(({ name }) => [name, true as const]));
    const plan = planImport(FILE, text, { stored, taken: (name) => taken.has(name) });
    return { plan, chosen: (name) => !Array.isArray(servers) || servers.includes(name) };
  };

  const preview: RouteHandler = async (context) => {
    const { plan } = await read(context);
    context.response.setHeader("Cache-Control", "no-store");
    context.response.json({
      servers: plan.servers.map(({ name, entry, notes }) => ({ name, entry, notes })),
      refused: plan.refused,
      secrets: [...plan.secrets.keys()],
      unset: Object.fromEntries(plan.unset),
    });
  };

  const save: RouteHandler = async (context) => {
    const { tenant } = context;
    const { plan, chosen } = await read(context);
    const servers = plan.servers.filter(({ name }) => chosen(name));
    const used = new Set(servers.flatMap(({ entry }) => (entry["secrets"] as string[] | undefined) ?? []));
    const values = [...plan.secrets].filter(([name]) => used.has(name));
    for (const { name } of servers) checkChange(context, "entry", name);
    if (values.length > 0) checkChange(context, "secretValues");
    for (const [name, value] of values) {
      if (!secrets)
        throw new BerthError("import_refused", `it has secrets, such as ${name}, and this Berth stores none`);
      await secrets.set(tenant, name, value, { by: writerOf(context), isNew: true });
    }
    const saved: object[] = [];
    for (const { name, entry } of servers) {
      if (context.signal.aborted) break;
      const draft = { entry: name, files: { [name]: `${indentedJson(entry)}\n` } };
      try {
        await edits.save(tenant, { kind: "entry", name }, draft, saveOptions(context, { kind: "absent" }, access));
        saved.push({ name });
      } catch (error) {
        if (!(error instanceof BerthError)) throw error;
        saved.push({ name, reason: error.message });
      }
    }
    context.response.json({ saved });
  };

  const router = Router();
  const permit = changing("entry");
  addRoute(router, "/", { read: permit, write: permit }, { post: preview, put: save });
  return router;
}
