import { isTemplate } from "../discover/uri-template.ts";
import { BerthError } from "../errors.ts";
import type { JsonObject, JsonSchema } from "../json.ts";
import { lazyTextValidator } from "./arguments.ts";
import type { Resource } from "./catalog.ts";
import { guestFailed, problemsOf } from "./failures.ts";
import { templateMatcher, type TemplateMatcher } from "./match-template.ts";
import { toContents } from "./resource-contents.ts";
import type { Run } from "./tool.ts";

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

/** Finds the resource of a URI: one of exactly that name, else the first template that it fits. */
export function resourceFinder<Given extends Findable>(
  resources: readonly Given[],
  runOf: (resource: Given) => Run,
): (uri: string) => Resource | undefined {
  const exact = new Map<string, Resource>();
  const templates: { argumentsOf: (uri: string) => JsonObject | undefined; resource: Findable; run: Run }[] = [];
  for (const resource of resources) {
    const run = runOf(resource);
    if (isTemplate(resource.uri)) templates.push({ argumentsOf: argumentsFinder(resource), resource, run });
    else exact.set(resource.uri, createResource(resource, resource.uri, {}, run));
  }
  return (uri) => {
    const named = exact.get(uri);
    if (named || uri.length > URI_UNITS_MAX) return named;
    for (const { argumentsOf, resource, run } of templates) {
      const args = argumentsOf(uri);
      if (args) return createResource(resource, uri, args, run);
    }
    return undefined;
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

function createResource({ name, mimeType }: Findable, uri: string, args: JsonObject, run: Run): Resource {
  return {
    async read(options) {
      // A copy, because a resource without variables is read again and again.
      const outcome = await run({ ...args }, options);
      if (!outcome.ok) throw guestFailed(`The resource "${name}"`, outcome.error);
      if (outcome.value.kind === "asks") return { inputRequests: outcome.value.inputRequests };
      const contents = toContents(outcome.value, uri, mimeType);
      if (!contents) throw new BerthError("resource_not_found", uri, { data: { uri } });
      return { contents };
    },
  };
}
