import { EXTENSION_TASKS } from "../../contract/extensions.ts";
import type { Catalog } from "../../host/offers/catalog.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { MethodCall } from "../protocol.ts";

type Capability = "tools" | "resources" | "prompts" | "completions";

/** The capabilities for `server/discover`: only what the server offers. */
export function serverCapabilities(catalog: Catalog): JsonObject {
  const canChange = !catalog.pinned;
  const listed: JsonObject = canChange ? { listChanged: true } : {};
  return {
    ...(offers(catalog, "tools") && { tools: listed }),
    ...(offers(catalog, "resources") && { resources: { ...(canChange && { subscribe: true }), ...listed } }),
    ...(offers(catalog, "prompts") && { prompts: listed }),
    ...(offers(catalog, "completions") && { completions: {} }),
    ...declaredExtensions(catalog),
    // Any function may log, although its contract does not say so.
    logging: {},
  };
}

/** Throws `method_not_found` when a server has nothing of this kind: its methods do not exist for clients. */
export function checkOffered(
  { catalog, method }: Pick<MethodCall, "catalog" | "method">,
  capability: Capability,
): void {
  if (!offers(catalog, capability)) throw new BerthError("method_not_found", method);
}

function offers(catalog: Catalog, capability: Capability): boolean {
  const { tools, resources, resourceTemplates, prompts, skills = [] } = catalog.contract;
  // At the address of all servers, an upstream may add the first item of a kind when it starts.
  if (catalog.servers !== undefined && capability !== "completions") return true;
  switch (capability) {
    case "tools":
      return tools.length > 0;
    case "resources":
      return (
        catalog.readsUris === true ||
        catalog.hasUnlisted === true ||
        resources.length + resourceTemplates.length + skills.length > 0
      );
    case "prompts":
      return prompts.length > 0;
    case "completions":
      return completes(catalog);
  }
}

function declaredExtensions(catalog: Catalog): { readonly extensions?: JsonObject } {
  const hasTasks = catalog.contract.tools.some(({ name }) => catalog.tool(name)?.task !== undefined);
  const extensions = { ...catalog.contract.extensions, ...(hasTasks && { [EXTENSION_TASKS]: {} }) };
  return Object.keys(extensions).length > 0 ? { extensions } : {};
}

function completes(catalog: Catalog): boolean {
  const cached = catalog.memo.get("modern:completes") as boolean | undefined;
  if (cached !== undefined) return cached;
  const { resourceTemplates, prompts } = catalog.contract;
  const result =
    prompts.some(({ name, arguments: args = [] }) => args.some((each) => catalog.completer(name, each.name))) ||
    resourceTemplates.some(({ uriTemplate }) =>
      templateVariables(uriTemplate).some((variable) => catalog.completer(uriTemplate, variable)),
    );
  catalog.memo.set("modern:completes", result);
  return result;
}

/** The names in an RFC 6570 template: `{+path,query*}` has `path` and `query`. */
function templateVariables(uriTemplate: string): string[] {
  // An upstream may write anything, so this must be linear: scanned parts are never scanned again.
  return [...uriTemplate.matchAll(/\{[+#./;?&]?([^{}]*)\}/g)].flatMap(([, names = ""]) =>
    names.split(",").map((name) => name.replace(/(\*|:\d+)$/, "")),
  );
}
