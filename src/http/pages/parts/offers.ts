import type { PromptContract, ResourceContract, ResourceTemplateContract } from "../../../contract/contract.ts";
import type { Catalog } from "../../../host/catalog.ts";
import type { Fragment } from "../fragment.ts";
import type { Pages } from "../pages.ts";
import { schemaTables } from "./schema-rows.ts";
import { countOf } from "./text.ts";
import { idOf, toolView } from "./tool-view.ts";

/** So many tools are shown whole; of more one sees the names first. */
const OPEN_TOOLS_MAX = 4;
/** Fewer tools one finds by looking. */
const FILTERED_FROM = 8;
/** From so many on a list of links helps to find one. */
const LINKED_TOOLS_MIN = 2;

/** Lists of tools that are kept rendered: they are most of a page, and their releases never change. */
const RENDERED_MAX = 16;

/** What a server offers, for `views/pages/meta.hbs`. */
export function createOffers(pages: Pages): (catalog: Catalog) => Record<string, unknown> {
  const rendered = new Map<string, Fragment>();
  return (catalog) => {
    const { release, contractCid, isNarrowed } = catalog;
    if (isNarrowed) return offersWith(catalog, renderTools(pages, catalog));
    const key = `${release} ${contractCid}`;
    const tools = rendered.get(key) ?? renderTools(pages, catalog);
    rendered.delete(key);
    rendered.set(key, tools);
    for (const oldest of rendered.keys()) {
      if (rendered.size <= RENDERED_MAX) break;
      rendered.delete(oldest);
    }
    return offersWith(catalog, tools);
  };
}

function offersWith(catalog: Catalog, tools: Fragment): Record<string, unknown> {
  return { ...offersOf(catalog), ...(catalog.contract.tools.length > 0 && { tools }) };
}

function renderTools(pages: Pages, catalog: Catalog): Fragment {
  return pages.fragment("tool", toolViews(pages, catalog));
}

/** Each of them is gone when the next one is made. */
function* toolViews(pages: Pages, { contract, identity }: Catalog): Generator<object> {
  const open = contract.tools.length <= OPEN_TOOLS_MAX;
  const tableOf = schemaTables((rows) => pages.html("rows", rows));
  for (const tool of contract.tools) {
    yield Object.assign(toolView(tool, identity(tool.name), tableOf), { open, try: tryUrl("tool", tool.name) });
  }
}

function offersOf({ contract }: Catalog): Record<string, unknown> {
  const { tools, resources, resourceTemplates, prompts } = contract;
  const all = resources.length + resourceTemplates.length;
  const counts = [
    { label: countOf(tools.length, "tool"), href: "#tools", count: tools.length },
    { label: countOf(all, "resource"), href: "#resources", count: all },
    { label: countOf(prompts.length, "prompt"), href: "#prompts", count: prompts.length },
  ];
  return {
    counts: counts.filter(({ count }) => count > 0),
    filtered: tools.length > FILTERED_FROM,
    toolCount: countOf(tools.length, "tool"),
    toolLinks: tools.length >= LINKED_TOOLS_MIN ? tools.map(({ name }) => ({ name, id: `tool-${idOf(name)}` })) : [],
    resources: [
      ...resources.map((resource) => resourceView(resource, resource.uri, false)),
      ...resourceTemplates.map((template) => resourceView(template, template.uriTemplate, true)),
    ],
    prompts: prompts.map(promptView),
  };
}

function resourceView(
  { name, title = name, description = "", mimeType = "" }: Omit<ResourceContract, "uri"> | ResourceTemplateContract,
  uri: string,
  template: boolean,
): object {
  return { uri, template, label: title, description, mimeType, try: tryUrl("resource", uri) };
}

function promptView({ name, title = "", description = "", arguments: args = [] }: PromptContract): object {
  const rows = args.map((argument) => ({
    path: "",
    name: argument.name,
    type: "string",
    required: argument.required,
    noted: argument.description !== undefined,
    fallback: undefined,
    description: argument.description ?? "",
    constraints: [],
  }));
  return { name, title, description, rows, try: tryUrl("prompt", name) };
}

/** Opens the page's tester there; src/browser/tester/target.ts reads it. */
function tryUrl(kind: "tool" | "resource" | "prompt", name: string): string {
  return `#${kind}=${encodeURIComponent(name)}`;
}
