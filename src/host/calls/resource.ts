import { isTemplate, URI_UNITS_MAX } from "../../discover/uri-template.ts";
import { BerthError } from "../../lib/errors.ts";
import type { JsonObject, JsonSchema } from "../../lib/json.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import type { Resource } from "../catalog/catalog.ts";
import { guestFailed } from "./failures.ts";
import { LongObject } from "./long-result.ts";
import type { ReadGiven } from "../checks/tasks.ts";
import type { ValidatorOf } from "../checks/checks.ts";
import { templateMatcher, type TemplateMatcher } from "./match-template.ts";
import { toContents } from "./resource-contents.ts";
import type { Run } from "./tool.ts";
import type { Redirects } from "./uris/redirect.ts";

/** The fields needed to find and to read a resource. */
export interface Findable {
  readonly name: string;
  /** A URI, or a template when it has `{…}`. */
  readonly uri: string;
  readonly mimeType?: string;
  /** The schema of the template's variables; without one they are texts. */
  readonly inputSchema?: JsonSchema;
}

/** Opens what stands under a URI; `args` are the values of its template's variables. */
export type Open<Found> = (uri: string, args: JsonObject) => Found;

/**
 * Finds what stands under a URI: an exact match, else the first template that matches. Rejects with `invalid_params`
 * when that is too much work. `validatorOf` is for templates whose variables have a schema.
 */
export type Find<Found> = (uri: string) => Promise<Found | undefined>;

export function uriFinder<Found>(
  resources: readonly (Findable & { readonly open: Open<Found> })[],
  validatorOf?: ValidatorOf,
): Find<Found> {
  const exact = new Map<string, Found>();
  const templates: { start: string; fit: () => TemplateFit; open: Open<Found> }[] = [];
  for (const resource of resources) {
    const { uri, open } = resource;
    if (isTemplate(uri)) templates.push({ start: startOf(uri), fit: lazyFit(resource, validatorOf), open });
    else exact.set(uri, open(uri, {}));
  }
  return async (uri) => {
    const named = exact.get(uri);
    if (named || uri.length > URI_UNITS_MAX) return named;
    const takeTurns = turnTaker();
    let steps = 0;
    for (const { start, fit, open } of templates) {
      if (!uri.startsWith(start)) continue;
      await takeTurns();
      const { matcher, wrongWith } = fit();
      steps += matcher.steps(uri);
      if (steps > STEPS_MAX) throw new BerthError("invalid_params", `"uri" is too long for templates as long as these`);
      const args = matcher.match(uri);
      if (args && (await wrongWith(args)) === undefined) return open(uri, args);
    }
    return undefined;
  };
}

/** The most matching steps for one URI, over all templates: some ten milliseconds. */
const STEPS_MAX = 2_000_000;

/** Tells if `uriFinder` finds something under a URI, without keeping what it finds. */
export function uriTester(
  resources: readonly Findable[],
  validatorOf?: ValidatorOf,
): (uri: string) => boolean | Promise<boolean> {
  const uris = resources.map(({ uri }) => uri);
  const exact = new Set(uris.filter((uri) => !isTemplate(uri)));
  const starts = [...new Set(uris.filter(isTemplate).map(startOf))];
  let find: Find<true> | undefined;
  return (uri) => {
    const mayBe = exact.has(uri) || starts.some((start) => uri.startsWith(start));
    if (!mayBe) return false;
    find ??= uriFinder(
      resources.map((own) => ({ ...own, open: () => true as const })),
      validatorOf,
    );
    return find(uri).then((found) => found ?? false);
  };
}

function startOf(template: string): string {
  return template.slice(0, template.indexOf("{"));
}

interface TemplateFit {
  readonly matcher: TemplateMatcher;
  /** Checks the values of its variables and converts them to what its function takes; gives what is wrong. */
  readonly wrongWith: (args: JsonObject) => undefined | string | Promise<string | undefined>;
}

/** Prepares the match when the first URI is looked up. */
function lazyFit({ uri: template, inputSchema }: Findable, validatorOf?: ValidatorOf): () => TemplateFit {
  const properties = (inputSchema?.["properties"] ?? {}) as Record<string, JsonSchema>;
  const isList = (name: string): boolean => properties[name]?.["type"] === "array";
  let fit: TemplateFit | undefined;
  return () =>
    (fit ??= {
      matcher: templateMatcher(template, isList),
      wrongWith: (inputSchema && validatorOf?.(inputSchema, { texts: true })) ?? makeTexts,
    });
}

/** A list of one stands for its text. */
function makeTexts(args: JsonObject): string | undefined {
  for (const [name, value] of Object.entries(args)) {
    if (!Array.isArray(value)) continue;
    if (value.length > 1) return `/${name} must be a text`;
    args[name] = value[0]!;
  }
  return undefined;
}

/** A resource whose content comes from a function, or from something that acts like one. */
export function functionResource(
  { name, mimeType }: Pick<Findable, "name" | "mimeType">,
  run: Run,
  redirects: Redirects,
  readGiven: ReadGiven,
): Open<Resource> {
  return (uri, args) => ({
    async read(options) {
      // A copy, because a resource without variables is read again and again.
      const outcome = await readGiven(await run({ ...args }, options), { as: "resource", uri, mimeType });
      if ("object" in outcome) return new LongObject(outcome.object);
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
