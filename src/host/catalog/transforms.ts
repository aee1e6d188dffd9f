import type { Cid } from "../../lib/cid.ts";
import type { HostPort } from "../../executor/executor.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import type { Hook, ServerEntry } from "../../entry/entry.ts";
import { contractsOf, putPrompt, putResource, putTool, type Found, type Offered } from "../../entry/offer.ts";
import { complain, inside, type ConfigPlace } from "../../entry/place.ts";
import { readPrompt } from "../../entry/prompt.ts";
import { readResource } from "../../entry/resource.ts";
import type { Checks } from "../checks/checks.ts";
import { knownFaults, readTool, type FaultOf } from "../../entry/tool.ts";
import { runHook, type HookDependencies } from "../calls/run-hook.ts";

/**
 * The three hooks of an entry (seed 003, "Transform Function Interface"): guest functions that change what a server
 * offers. Their results are as untrusted as a definition: each item is checked as if it stood in the entry, and a wrong
 * one is left out. A failed hook changes nothing; the rest is served.
 */
export interface TransformSubject {
  readonly tenant: string;
  readonly server: string;
  /** CIDs of the definition, of what was discovered in it, and of the entry. */
  readonly given: JsonObject;
  readonly entry: ServerEntry;
  readonly found: Found;
}

export interface TransformDependencies extends HookDependencies {
  readonly checks: Pick<Checks, "faultOf" | "readList">;
  readonly limits: HookDependencies["limits"] & { readonly transformItems: number };
}

const hooks: readonly Hook[] = ["tools", "resources", "prompts"];

/** Applies the results of the entry's transforms to `offered`. Each transform sees the state before any of them ran. */
export async function applyTransforms(
  offered: Offered,
  { tenant, server, given, entry, found }: TransformSubject,
  port: HostPort,
  dependencies: TransformDependencies,
): Promise<void> {
  const wanted = hooks.filter((hook) => entry.transforms[hook] !== undefined);
  if (wanted.length === 0) return;
  const context = plain({
    server,
    description: entry.description ?? "",
    entry: entry.raw,
    discovered: contractsOf(offered, found),
  });
  const results = await Promise.all(
    wanted.map((hook) => {
      const transform = entry.transforms[hook] as Cid;
      return runHook({ tenant, server, hook, transform, given, context }, port, dependencies);
    }),
  );
  for (const [index, result] of results.entries()) {
    const hook = wanted[index]!;
    const at = inside(inside({ pointer: "", problems: offered.problems }, server), `${hook}_transform_cid`);
    if ("fault" in result) complain(at, "transform-failed", `The transform of ${hook} failed: ${result.fault}`);
    else {
      const { checks, limits } = dependencies;
      const value = "items" in result ? await parsed(result.items, limits.transformItems) : result.value;
      const items = Array.isArray(value) && value.length <= limits.transformItems ? value : [];
      const faultOf = await knownFaults(items, (schema) => checks.faultOf(tenant, schema));
      await applyResult(offered, found, hook, value, at, limits.transformItems, faultOf);
    }
  }
}

/** Parses items one by one, yielding to other calls; parses none when there are too many. */
async function parsed(items: readonly string[], itemsMax: number): Promise<Json[]> {
  if (items.length > itemsMax) return items.map(() => null);
  const takeTurns = turnTaker();
  const values: Json[] = [];
  for (const item of items) {
    await takeTurns();
    values.push(JSON.parse(item) as Json);
  }
  return values;
}

async function applyResult(
  offered: Offered,
  found: Found,
  hook: Hook,
  value: Json,
  at: ConfigPlace,
  itemsMax: number,
  faultOf: FaultOf,
): Promise<void> {
  if (!Array.isArray(value)) {
    return complain(at, "transform-failed", `The transform of ${hook} failed: it did not return a list`);
  }
  if (value.length > itemsMax) {
    const message = `it returned ${value.length} ${hook}, more than the limit transformItems of ${itemsMax}`;
    return complain(at, "transform-failed", `The transform of ${hook} failed: ${message}`);
  }
  const problems: Problem[] = [];
  const seen = new Set<string>();
  const takeTurns = turnTaker();
  for (const [index, item] of value.entries()) {
    await takeTurns();
    const place = inside({ pointer: "", problems }, index);
    if (!isObject(item)) {
      complain(place, "wrong-type", "it must be an object");
      continue;
    }
    const key = keyOf(hook, item, place);
    if (key === undefined) continue;
    if (seen.has(key)) complain(place, "duplicate-name", `"${key}" was returned before`);
    else apply[hook](offered, found, item, key, place, faultOf);
    seen.add(key);
  }
  // The pointers lead into the result, but the configuration only names the transform.
  for (const problem of problems) {
    const message = `The transform of ${hook} returned at ${problem.pointer}: ${problem.message}`;
    offered.problems.push({ ...problem, message, pointer: at.pointer });
  }
}

function keyOf(hook: Hook, item: JsonObject, place: ConfigPlace): string | undefined {
  const key = hook === "resources" ? (item["uri"] ?? item["uriTemplate"]) : item["name"];
  if (typeof key === "string") return key;
  return complain(place, "missing-field", hook === "resources" ? 'It needs a "uri"' : 'It needs a "name"');
}

type Apply = (
  offered: Offered,
  found: Found,
  item: JsonObject,
  key: string,
  place: ConfigPlace,
  faultOf: FaultOf,
) => void;

const apply: Readonly<Record<Hook, Apply>> = {
  tools(offered, found, { name: _name, hidden, ...item }, name, place, faultOf) {
    const at = { ...place, tool: name };
    if (isHiding(hidden, at)) return hide(offered.tools, name, at);
    const tool = readTool(name, item, at, { faultOf });
    if (tool) putTool(offered, found, name, tool, at);
    else offered.tools.delete(name);
  },
  resources(offered, found, { hidden, ...item }, uri, place) {
    if (isHiding(hidden, place)) return hide(offered.resources, uri, place);
    const resource = readResource(uri, item, place);
    if (resource) putResource(offered, found, resource, place);
    else offered.resources.delete(uri);
  },
  prompts(offered, _found, { name: _name, hidden, ...item }, name, place) {
    if (isHiding(hidden, place)) return hide(offered.prompts, name, place);
    const prompt = readPrompt(name, item, place);
    if (prompt) putPrompt(offered, name, prompt);
    else offered.prompts.delete(name);
  },
};

/** Anything but false hides the item: a slip must not expose what was meant to be hidden. */
function isHiding(hidden: Json | undefined, place: ConfigPlace): boolean {
  if (hidden !== undefined && typeof hidden !== "boolean") {
    complain(inside(place, "hidden"), "wrong-type", '"hidden" must be true or false', "warning");
  }
  return hidden !== undefined && hidden !== false;
}

function hide(offered: Map<string, unknown>, key: string, place: ConfigPlace): void {
  if (!offered.delete(key)) complain(place, "unknown-name", `There is no "${key}" to be hidden`, "warning");
}

/** The value as it crosses to the guest. */
function plain(value: unknown): JsonObject {
  return JSON.parse(JSON.stringify(value)) as JsonObject;
}
