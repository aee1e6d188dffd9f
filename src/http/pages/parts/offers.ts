import type {
  Contract,
  PromptArgument,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
} from "../../../contract/contract.ts";
import type { Catalog } from "../../../host/offers/catalog.ts";
import { cutText } from "../../../lib/cut-text.ts";
import type { Fragment } from "../fragment.ts";
import { inGroups, type Pages } from "../pages.ts";
import { schemaTables, type SchemaRow } from "./schema-rows.ts";
import { countOf } from "./text.ts";
import { idOf, toolView, tryUrl } from "./tool-view.ts";

/** The most tools that are shown expanded; more are collapsed to their names. */
const OPEN_TOOLS_MAX = 4;
/** Fewer tools need no filter. */
const FILTERED_FROM = 8;
/** From this number on, a list of links helps to find a tool. */
const LINKED_TOOLS_MIN = 2;

/** The most resources, and prompts, that are shown: they are rendered in one piece, and nobody reads more. */
const SHOWN_MAX = 100;
/** The most arguments shown of one prompt, and of all on a page. */
const ARGUMENTS_MAX = 60;
const ARGUMENTS_ON_PAGE_MAX = 1_000;

/** The most tool lists kept rendered: they are most of a page, and their releases never change. */
const RENDERED_MAX = 16;

/** Lists what a server offers, for `views/partials/tab-tools.hbs`. */
export function createOffers(pages: Pages): (catalog: Catalog) => Promise<Record<string, unknown>> {
  const rendered = new Map<string, Promise<Fragment>>();
  return async (catalog) => {
    const { release, contractCid, contract, isNarrowed } = catalog;
    if (contract.tools.length === 0) return offersOf(contract);
    if (isNarrowed) return { ...offersOf(contract), tools: await renderTools(pages, contract) };
    const key = `${release} ${contractCid}`;
    const known = rendered.get(key);
    const tools = known ?? renderTools(pages, contract);
    if (!known) tools.catch(() => rendered.delete(key));
    rendered.delete(key);
    rendered.set(key, tools);
    for (const oldest of rendered.keys()) {
      if (rendered.size <= RENDERED_MAX) break;
      rendered.delete(oldest);
    }
    return { ...offersOf(contract), tools: await tools };
  };
}

export function renderTools(
  pages: Pick<Pages, "fragment" | "html">,
  { tools }: Pick<Contract, "tools">,
): Promise<Fragment> {
  return pages.fragment("tools", toolViews(pages, tools));
}

/** Yields a few views at a time, so that they are never all in memory. */
function toolViews(pages: Pick<Pages, "html">, tools: Contract["tools"]): Iterable<object> {
  const open = tools.length <= OPEN_TOOLS_MAX;
  const tableOf = schemaTables((rows) => pages.html("rows", rows));
  return inGroups(tools, (tool) => toolView(tool, open, tableOf));
}

function offersOf({ tools, resources, resourceTemplates, prompts }: Contract): Record<string, unknown> {
  const all = resources.length + resourceTemplates.length;
  return {
    filtered: tools.length > FILTERED_FROM,
    toolCount: countOf(tools.length, "tool"),
    toolLinks: tools.length >= LINKED_TOOLS_MIN ? tools.map(({ name }) => ({ name, id: `tool-${idOf(name)}` })) : [],
    resources: [
      ...resources.slice(0, SHOWN_MAX).map((resource) => resourceView(resource, resource.uri, false)),
      ...resourceTemplates
        .slice(0, Math.max(SHOWN_MAX - resources.length, 0))
        .map((template) => resourceView(template, template.uriTemplate, true)),
    ],
    moreResources: moreOf(all, "resource"),
    prompts: promptViews(prompts),
    morePrompts: moreOf(prompts.length, "prompt"),
  };
}

/** The line below a list that is cut. */
function moreOf(count: number, noun: string): string | undefined {
  return count > SHOWN_MAX ? `${countOf(count - SHOWN_MAX, `more ${noun}`)}; clients get all of them.` : undefined;
}

/** The most characters of a description: there are up to a hundred of each. */
const NOTED_MAX = 4_000;

function resourceView(
  { name, title = name, description = "", mimeType = "" }: Omit<ResourceContract, "uri"> | ResourceTemplateContract,
  uri: string,
  template: boolean,
): object {
  return {
    uri,
    template,
    label: title,
    description: cutText(description, NOTED_MAX),
    mimeType,
    try: tryUrl("resource", uri),
  };
}

function promptViews(prompts: readonly PromptContract[]): object[] {
  let left = ARGUMENTS_ON_PAGE_MAX;
  return prompts.slice(0, SHOWN_MAX).map(({ name, title = "", description = "", arguments: args = [] }) => {
    const shown = args.slice(0, Math.min(ARGUMENTS_MAX, left));
    left -= shown.length;
    const more = args.length - shown.length;
    return {
      name,
      title,
      description: cutText(description, NOTED_MAX),
      rows: shown.map(argumentRow),
      moreArguments: more > 0 ? `${countOf(more, "more argument")}; clients get all of them.` : undefined,
      try: tryUrl("prompt", name),
    };
  });
}

function argumentRow({ name, description, required = false }: PromptArgument): SchemaRow {
  return {
    path: "",
    name,
    type: "string",
    required,
    noted: description !== undefined,
    fallback: undefined,
    description: cutText(description ?? "", NOTED_MAX),
    constraints: [],
  };
}
