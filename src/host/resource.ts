import { isTemplate } from "../discover/uri-template.ts";
import { BerthError } from "../errors.ts";
import type { JsonObject, JsonSchema } from "../json.ts";
import { lazyTextValidator } from "./arguments.ts";
import type { Resource } from "./catalog.ts";
import { guestFailed, problemsOf } from "./failures.ts";
import { templateMatcher, type TemplateMatcher } from "./match-template.ts";
import { toContents } from "./resource-contents.ts";
import type { Run } from "./tool.ts";
import type { Redirects } from "./uris/redirect.ts";

/** Longer URIs are nobody's, in UTF-16 units. */
const URI_UNITS_MAX = 8_192;

/** What is needed of a resource to find and to read it. */
export interface Findable {
  readonly name: string;
  /** A URI, or a template when it has `{…}`. */
  readonly uri: string;
  readonly mimeType?: string;
  /** Of the template's variables. */
  readonly inputSchema: JsonSchema;
}

/** What stands under a URI; `args` are the values of its template's variables. */
export type Open<Found> = (uri: string, args: JsonObject) => Found;

/** Finds what stands under a URI: what has exactly that name, else the first template that it fits. */
export function uriFinder<Found>(
  resources: readonly (Findable & { readonly open: Open<Found> })[],
): (uri: string) => Found | undefined {
  const exact = new Map<string, Found>();
  const templates: { argumentsOf: (uri: string) => JsonObject | undefined; open: Open<Found> }[] = [];
  for (const resource of resources) {
    const { uri, open } = resource;
    if (isTemplate(uri)) templates.push({ argumentsOf: argumentsFinder(resource), open });
    else exact.set(uri, open(uri, {}));
  }
  return (uri) => {
    const named = exact.get(uri);
    if (named || uri.length > URI_UNITS_MAX) return named;
    for (const { argumentsOf, open } of templates) {
      const args = argumentsOf(uri);
      if (args) return open(uri, args);
    }
    return undefined;
  };
}

/** Tells whether `uriFinder` finds something under a URI, and keeps nothing of what that is. */
export function uriTester(resources: readonly Findable[]): (uri: string) => boolean {
  const starts = resources.map(({ uri }) => (isTemplate(uri) ? uri.slice(0, uri.indexOf("{")) : undefined));
  let find: ((uri: string) => boolean | undefined) | undefined;
  return (uri) => {
    const mayBe = resources.some(
      (own, index) => own.uri === uri || (starts[index] !== undefined && uri.startsWith(starts[index])),
    );
    if (!mayBe) return false;
    find ??= uriFinder(resources.map((own) => ({ ...own, open: () => true })));
    return find(uri) ?? false;
  };
}

/** The values of a template's variables, as its function takes them; made ready when the first URI is looked up. */
function argumentsFinder({ uri: template, inputSchema }: Findable): (uri: string) => JsonObject | undefined {
  const properties = (inputSchema["properties"] ?? {}) as Record<string, JsonSchema>;
  const isList = (name: string): boolean => properties[name]?.["type"] === "array";
  const check = lazyTextValidator(inputSchema);
  let match: TemplateMatcher | undefined;
  return (uri) => {
    match ??= templateMatcher(template, isList);
    const args = match(uri);
    return args && problemsOf(check, args) === undefined ? args : undefined;
  };
}

/** A resource whose content a function gives, or something that does as one does. */
export function functionResource(
  { name, mimeType }: Pick<Findable, "name" | "mimeType">,
  run: Run,
  redirects: Redirects,
): Open<Resource> {
  return (uri, args) => ({
    async read(options) {
      // A copy, because a resource without variables is read again and again.
      const outcome = await run({ ...args }, options);
      if (!outcome.ok) throw guestFailed(`The resource "${name}"`, outcome.error);
      if (outcome.value.kind === "asks") return { inputRequests: outcome.value.inputRequests };
      if (outcome.value.kind === "redirect") {
        const reading = { uri, ...(mimeType !== undefined && { mimeType }) };
        return redirects.asContents(outcome.value.location, reading, options);
      }
      const contents = toContents(outcome.value, uri, mimeType);
      if (!contents) throw new BerthError("resource_not_found", uri, { data: { uri } });
      return { contents };
    },
  });
}
