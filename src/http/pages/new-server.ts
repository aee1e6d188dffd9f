import type { PackageEdits } from "../../edits/package-edits.ts";
import { serverNameProblem } from "../../entry/fields.ts";
import type { Host } from "../../host/host.ts";
import { checkPermitted, listing, mayChange } from "../access/permit.ts";
import type { NewServerPart } from "../feature-routes.ts";
import type { RequestPlace } from "../request-context.ts";
import type { PageRoute, RoutedContext } from "../routed.ts";
import { NEW_SERVER, newServerAt, pathsOf } from "./parts/paths.ts";
import { beginningOf, grantsOf, TEMPLATES, type ServerTemplate } from "./parts/templates.ts";
import { newNonce, viewSubject, type EditPageOptions } from "./subject.ts";

interface NewServerOptions extends EditPageOptions {
  readonly host: Pick<Host, "has">;
  readonly packages: Pick<PackageEdits, "read">;
  readonly newServerParts: readonly NewServerPart[];
}

/**
 * `GET /servers/new`: the templates that a new server can begin with. With `?name=&template=`, the editor of its
 * definition, or for a server that others wrote the form that names it. Nothing exists before it is saved there.
 */
export const newServerPage: PageRoute<NewServerOptions> = {
  path: `/servers/${NEW_SERVER}`,
  permit: listing,
  create(options) {
    return async (context) => {
      // A request that does not ask for a page calls a server of this name.
      context.response.vary("Accept");
      const { name: asked, template: id } = context.request.query;
      const name = typeof asked === "string" ? asked.trim() : "";
      const template = TEMPLATES.find((each) => each.id === id);
      const writable = options.writable && mayChange(context, "source", name);
      const at = { ...options, ...context.place, writable };
      if (name !== "") checkPermitted(context, "read", name);
      const hasDefinition = name !== "" && (await at.edits.language(at.tenant, name)) !== undefined;
      const refusal = name === "" ? undefined : refusalOf(at, name, hasDefinition);
      const isCode = template?.kind === "code";
      if (template && !isCode) return sendRemote(at, context, name, template, refusal);
      if (template && name !== "" && !refusal && writable) return sendEditor(at, context, name, template);
      await options.pages.send(context, "new-server", {
        title: "New server",
        section: "mcp",
        crumbs: crumbsOf(at),
        scripts: options.newServerParts.map(({ script }) => script),
        parts: options.newServerParts,
        writable,
        name,
        refusal,
        templates: TEMPLATES.map(({ id, label, about }) => ({
          id,
          label,
          about,
          chosen: id === (template ?? TEMPLATES[0]!).id,
        })),
      });
    };
  },
};

type NewServerPlace = NewServerOptions & RequestPlace;

/** Why there cannot be a new server of this name. */
interface NameRefusal {
  readonly message: string;
  /** The page of the server that has the name already. */
  readonly page?: string;
}

/** A server that has an entry and no definition gets one here. */
function refusalOf({ base }: NewServerPlace, name: string, isThere: boolean): NameRefusal | undefined {
  const message = serverNameProblem(name);
  if (message !== undefined) return { message };
  return isThere ? { message: `There is a server "${name}" already`, page: pathsOf(base, name).page } : undefined;
}

async function sendEditor(
  options: NewServerPlace,
  context: RoutedContext,
  name: string,
  template: ServerTemplate,
): Promise<void> {
  const { edits, tenant, base, pages, packages, writable } = options;
  const styleNonce = newNonce();
  const place = {
    id: "definition",
    heading: "Definition",
    compareAt: { path: `${base}/servers`, fields: [] },
    styleNonce,
  };
  const definition = await viewSubject(options, { kind: "definition", name }, beginningOf(name, template), place);
  const hasEntry = (await edits.read(tenant, { kind: "entry", name })) !== undefined;
  const grants = hasEntry ? undefined : grantsOf(template);
  await pages.send(context, "new-definition", {
    title: name,
    section: "mcp",
    crumbs: crumbsOf(options),
    scripts: ["editor.js"],
    styleNonce,
    writable,
    label: template.label,
    others: newServerAt(base, { name }),
    missing: await missingPackages(packages, tenant, template),
    grants,
    grantsRows: (grants ?? "").split("\n").length,
    grantsApi: `${base}/api/entries/${encodeURIComponent(name)}`,
    next: `${pathsOf(base, name).page}?tab=connect`,
    definition,
    fragments: definition.fragments,
  });
}

async function missingPackages(
  packages: NewServerOptions["packages"],
  tenant: string,
  { packages: needed = [] }: ServerTemplate,
): Promise<readonly string[]> {
  if (needed.length === 0) return [];
  const direct = (await packages.read(tenant)).packages.filter((each) => each.direct);
  return needed.filter((name) => !direct.some((each) => each.name === name));
}

async function sendRemote(
  { base, pages, writable }: NewServerPlace,
  context: RoutedContext,
  name: string,
  { kind, label, about }: ServerTemplate,
  refusal: NameRefusal | undefined,
): Promise<void> {
  await pages.send(context, "new-upstream", {
    title: kind === "npm" ? "Add an npm server" : "Add a remote server",
    section: "mcp",
    crumbs: crumbsOf({ base }),
    scripts: ["new-upstream.js"],
    writable,
    name,
    refusal,
    label,
    about,
    isNpm: kind === "npm",
    api: `${base}/api/entries/`,
    pages: `${base}/mcp/meta/`,
    other: newServerAt(base, { ...(name !== "" && { name }), template: kind === "npm" ? "remote" : "npm" }),
  });
}

function crumbsOf({ base }: Pick<RequestPlace, "base">): { label: string; href?: string }[] {
  return [{ label: "Servers", href: `${base}/mcp` }, { label: "New server" }];
}
