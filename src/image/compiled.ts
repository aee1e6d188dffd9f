import { appContents } from "../contract/apps.ts";
import type { Compiled, CompiledApp, DefinitionSource, DiscoveredApp, Discovery } from "../discover/discovery.ts";
import { isCid, jsonBlock, rawBlock, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { shortProblems } from "../lib/problem.ts";

/** A compiled definition as it is stored: a derived result, with the bundle as separate content. */
export interface CompiledResult extends Discovery {
  readonly bundle: Cid | null;
  readonly apps?: readonly CompiledApp[];
  readonly packages?: Compiled["packages"];
}

export interface PackedCompiled {
  /** The discovery and `bundle`, to be stored under the definition's compile key. */
  readonly result: Block;
  readonly bundle: Block | undefined;
}

/** `files` are those of the definition. */
export function packCompiled(compiled: Compiled, files: DefinitionSource["files"] = {}): PackedCompiled {
  const { tools, resources, prompts, completions, problems, bundle, packages, requested, skills, apps } = compiled;
  const block = bundle === undefined ? undefined : rawBlock(bundle);
  // Not dag-json, which sorts keys: arguments are displayed in the order in which their author wrote them.
  const parts = { tools, resources, prompts, completions, problems, bundle: block?.cid ?? null };
  const result = { ...parts, packages, requested, skills, apps: apps?.map((app) => compiledApp(app, files)) };
  return { result: rawBlock(JSON.stringify(result)), bundle: block };
}

/** Adds the CIDs, which the compiler itself does not know. */
function compiledApp(app: DiscoveredApp, files: DefinitionSource["files"]): CompiledApp {
  const text = files[app.file] ?? "";
  return { ...app, content: rawBlock(text).cid, digest: jsonBlock([appContents(app, text)]).cid };
}

/** Reads the result of `packCompiled` from its (verified) bytes. Throws `image_invalid` for anything else. */
export function readCompiled(bytes: Uint8Array): CompiledResult {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (error) {
    throw new BerthError("image_invalid", "a compiled result is not JSON", { cause: error });
  }
  if (!isCompiledResult(value)) throw new BerthError("image_invalid", "a compiled result is incomplete");
  // A result of an earlier compiler may have any number of problems.
  return { ...value, problems: shortProblems(value.problems) };
}

const lists = ["tools", "resources", "prompts", "completions", "problems"];

/** Checks the problems, which are read everywhere; other faults of an item refuse its server when it is loaded. */
function isCompiledResult(value: unknown): value is CompiledResult {
  if (!isObject(value)) return false;
  const { bundle, requested = [], skills = [], apps = [] } = value;
  const areItems = (list: unknown, isItem: (item: Record<string, unknown>) => boolean = () => true): boolean =>
    Array.isArray(list) && list.every((item) => isObject(item) && isItem(item));
  return (
    lists.every((list) => areItems(value[list])) &&
    areItems(value["problems"], isProblem) &&
    areItems(requested, isRequest) &&
    areItems(skills) &&
    areItems(apps, isApp) &&
    (bundle === null || (typeof bundle === "string" && isCid(bundle)))
  );
}

function isProblem({ code, message, severity }: Record<string, unknown>): boolean {
  return typeof code === "string" && typeof message === "string" && (severity === "error" || severity === "warning");
}

function isApp({ uri, file, content, digest, ui }: Record<string, unknown>): boolean {
  const areTexts = [uri, file, content, digest].every((text) => typeof text === "string");
  return areTexts && isCid(content as string) && isCid(digest as string) && (ui === undefined || isObject(ui));
}

/** The value of a request is checked when it is granted. */
function isRequest({ field, value, purpose, file, line, column }: Record<string, unknown>): boolean {
  return (
    (field === "secrets" || field === "network") &&
    typeof value === "string" &&
    (purpose === undefined || typeof purpose === "string") &&
    typeof file === "string" &&
    Number.isInteger(line) &&
    Number.isInteger(column)
  );
}

/** The entries of a compiled definition in a store. The bundle has its own, shared by all tenants. */
export function derivedEntries(
  key: string,
  definition: Cid,
  packed: PackedCompiled,
): { key: string; block: Block; madeOf: Cid }[] {
  const entries = [{ key, block: packed.result, madeOf: definition }];
  if (packed.bundle) entries.push({ key: packed.bundle.cid, block: packed.bundle, madeOf: definition });
  return entries;
}

/** The keys of those entries. */
export function derivedKeys(key: string, { bundle }: Pick<CompiledResult, "bundle">): string[] {
  return bundle === null ? [key] : [key, bundle];
}
