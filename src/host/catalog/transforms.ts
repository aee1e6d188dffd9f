import { addProblem, inside, type ConfigPlace } from "../../entry/config-place.ts";
import type { Hook, ServerEntry } from "../../entry/entry.ts";
import {
  listContracts,
  putPrompt,
  putResource,
  putTool,
  type DiscoveredItems,
  type Offered,
} from "../../entry/offer.ts";
import { readPrompt } from "../../entry/prompt-fields.ts";
import { readResource } from "../../entry/resource-fields.ts";
import { collectSchemaFaults, readTool, type FindSchemaFault } from "../../entry/tool-fields.ts";
import type { HostPort, Executor, GuestOutcome, GuestProgram } from "../../executor/executor.ts";
import { jsonBlock, rawBlock, type Cid } from "../../lib/cid.ts";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Store } from "../../store/store.ts";
import { unlessDamaged } from "../../store/unless-damaged.ts";
import type { Checks } from "../checks/checks.ts";
import type { CompileOnce } from "./compile-once.ts";

/**
 * Transforms are guest functions that change what a server offers: one each for tools, resources and prompts. Their
 * results are untrusted: each item is validated like one in the entry, and invalid ones are omitted. A failed transform
 * changes nothing.
 */
interface TransformSubject {
  readonly tenant: string;
  readonly server: string;
  /** CIDs of the definition, its discovery and the entry. */
  readonly inputs: JsonObject;
  readonly entry: ServerEntry;
  readonly found: DiscoveredItems;
}

interface TransformDependencies extends HookDependencies {
  readonly checks: Pick<Checks, "faultOf" | "readList">;
}

const bounds = fixed({
  /** Timeout of a transform. */
  transformMs: 10_000,
  /** Size of the returned JSON. */
  transformBytes: 1024 * 1024,
  /** Number of returned tools, resources or prompts. */
  transformItems: 1000,
});

const hooks: readonly Hook[] = ["tools", "resources", "prompts"];

/** Applies the entry's transforms to `offered`. Each transform sees the state before any of them ran. */
export async function applyTransforms(
  offered: Offered,
  { tenant, server, inputs, entry, found }: TransformSubject,
  port: HostPort,
  dependencies: TransformDependencies,
): Promise<void> {
  const configured = hooks.filter((hook) => entry.transforms[hook] !== undefined);
  if (configured.length === 0) return;
  const subject = { server, description: entry.description ?? "", entry: entry.raw };
  // The same as what the guest receives.
  const context = JSON.parse(JSON.stringify({ ...subject, discovered: listContracts(offered, found) })) as JsonObject;
  const results = await Promise.all(
    configured.map((hook) => {
      const transform = entry.transforms[hook] as Cid;
      return runHook({ tenant, server, hook, transform, inputs, context }, port, dependencies);
    }),
  );
  for (const [index, result] of results.entries()) {
    const hook = configured[index]!;
    const at = inside(inside({ pointer: "", problems: offered.problems }, server), `${hook}_transform_cid`);
    if ("fault" in result) addProblem(at, "transform-failed", `The transform of ${hook} failed: ${result.fault}`);
    else {
      const { checks } = dependencies;
      const value = "items" in result ? await parseItems(result.items) : result.value;
      const items = Array.isArray(value) && value.length <= bounds.transformItems ? value : [];
      const faultOf = await collectSchemaFaults(items, (schema) => checks.faultOf(tenant, schema));
      await applyResult(offered, found, hook, value, at, faultOf);
    }
  }
}

/** Parses items, yielding to other calls. If there are too many, parses none. */
async function parseItems(items: readonly string[]): Promise<Json[]> {
  if (items.length > bounds.transformItems) return items.map(() => null);
  const yieldIfDue = createYielder();
  const values: Json[] = [];
  for (const item of items) {
    await yieldIfDue();
    values.push(JSON.parse(item) as Json);
  }
  return values;
}

async function applyResult(
  offered: Offered,
  found: DiscoveredItems,
  hook: Hook,
  value: Json,
  at: ConfigPlace,
  faultOf: FindSchemaFault,
): Promise<void> {
  if (!Array.isArray(value)) {
    return addProblem(at, "transform-failed", `The transform of ${hook} failed: it did not return a list`);
  }
  const { transformItems } = bounds;
  if (value.length > transformItems) {
    const message = `it returned ${value.length} ${hook}; the limit is ${transformItems}`;
    return addProblem(at, "transform-failed", `The transform of ${hook} failed: ${message}`);
  }
  const problems: Problem[] = [];
  const seen = new Set<string>();
  const yieldIfDue = createYielder();
  for (const [index, item] of value.entries()) {
    await yieldIfDue();
    const place = inside({ pointer: "", problems }, index);
    if (!isObject(item)) {
      addProblem(place, "wrong-type", "it must be an object");
      continue;
    }
    const key = itemKey(hook, item, place);
    if (key === undefined) continue;
    if (seen.has(key)) addProblem(place, "duplicate-name", `"${key}" is returned more than once`);
    else apply[hook](offered, found, item, key, place, faultOf);
    seen.add(key);
  }
  // The pointers refer to the result, but the configuration contains only the transform's CID.
  for (const problem of problems) {
    const message = `The transform of ${hook} returned at ${problem.pointer}: ${problem.message}`;
    offered.problems.push({ ...problem, message, pointer: at.pointer });
  }
}

function itemKey(hook: Hook, item: JsonObject, place: ConfigPlace): string | undefined {
  const key = hook === "resources" ? (item["uri"] ?? item["uriTemplate"]) : item["name"];
  if (typeof key === "string") return key;
  return addProblem(place, "missing-field", hook === "resources" ? 'It needs a "uri"' : 'It needs a "name"');
}

type Apply = (
  offered: Offered,
  found: DiscoveredItems,
  item: JsonObject,
  key: string,
  place: ConfigPlace,
  faultOf: FindSchemaFault,
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

/** Any value but false hides the item: a mistake must not expose it. */
function isHiding(hidden: Json | undefined, place: ConfigPlace): boolean {
  if (hidden !== undefined && typeof hidden !== "boolean") {
    addProblem(inside(place, "hidden"), "wrong-type", '"hidden" must be true or false', "warning");
  }
  return hidden !== undefined && hidden !== false;
}

function hide(offered: Map<string, unknown>, key: string, place: ConfigPlace): void {
  if (!offered.delete(key)) addProblem(place, "unknown-name", `There is no "${key}" to hide`, "warning");
}

interface HookRun {
  readonly tenant: string;
  readonly server: string;
  readonly hook: Hook;
  /** The CID of the transform's source. */
  readonly transform: Cid;
  /** Other inputs of the result, as CIDs. */
  readonly inputs: JsonObject;
  /** The context argument of the function. */
  readonly context: JsonObject;
}

interface HookDependencies {
  readonly store: Store;
  readonly executor: Executor;
  readonly compileOnce: CompileOnce;
  readonly checks: Pick<Checks, "readList">;
}

/** Names of exports. A default export is also accepted. */
const exportNames = { tools: "generateTools", resources: "generateResources", prompts: "generatePrompts" } as const;

/**
 * Runs a transform. Returns its result, as JSON texts of the items if long, or why it failed. Results are cached by their
 * inputs, so a transform runs once for a definition, an entry and its own code.
 */
async function runHook(
  run: HookRun,
  port: HostPort,
  dependencies: HookDependencies,
): Promise<{ value: Json } | { items: readonly string[] } | { fault: string }> {
  const { tenant, server, hook, transform, inputs } = run;
  const { store, compileOnce, checks } = dependencies;
  const { transformBytes } = bounds;
  const tooLong = (bytes: number): { fault: string } => ({
    fault: `it returned ${bytes} bytes; the limit is ${transformBytes}`,
  });
  try {
    const source = await compileOnce.source(server, transform);
    if (source.language !== "typescript") return { fault: "a transform is a TypeScript module, and this is a script" };
    const { bundle, problems } = await compileOnce(transform, source);
    if (!bundle) return { fault: problems[0]?.message ?? "it has nothing to run" };

    // A transform reads variables and content of its tenant, so results must not be shared between tenants.
    const key = jsonBlock({ tenant, hook, server, bundle, ...inputs }).cid;
    const cached = await unlessDamaged(store.derived(key));
    if (cached && cached.length > readingBounds.inlineBodyBytes) {
      const list = await checks.readList(tenant, { list: cached, isFrame: false, listBytes: Infinity });
      return "bytes" in list ? tooLong(list.bytes) : list;
    }
    if (cached) return { value: JSON.parse(new TextDecoder().decode(cached)) as Json };
    const outcome = await callHook(run, bundle, port, dependencies);
    if (!outcome.ok) return { fault: outcome.error.message };
    if (outcome.value.kind === "unread") {
      const { frame } = outcome.value;
      const list = await checks.readList(tenant, { list: frame, isFrame: true, listBytes: transformBytes });
      if ("bytes" in list) return tooLong(list.bytes);
      if ("items" in list) {
        await store.putDerived(tenant, [{ key, block: rawBlock(`[${list.items.join(",")}]`), madeOf: transform }]);
      }
      return list;
    }
    if (outcome.value.kind !== "json") return { fault: "it did not return a list" };
    const block = rawBlock(JSON.stringify(outcome.value.value));
    if (block.bytes.length > transformBytes) return tooLong(block.bytes.length);
    await store.putDerived(tenant, [{ key, block, madeOf: transform }]);
    return { value: outcome.value.value };
  } catch (error) {
    if (error instanceof BerthError && !SERVICE_ERRORS.has(error.code)) return { fault: error.message };
    throw error;
  }
}

const SERVICE_ERRORS: ReadonlySet<ErrorCode> = new Set(["check_failed", "compiler_failed"]);

async function callHook(
  { tenant, server, hook, transform, context }: HookRun,
  bundle: Cid,
  port: HostPort,
  { compileOnce, executor }: HookDependencies,
): Promise<GuestOutcome> {
  const code = (): Promise<Uint8Array> => compileOnce.code(server, transform, bundle);
  // A process of its own: a function may wait for a server whose transform has the same code.
  const program: GuestProgram = { tenant, bundle, code, port: readOnlyPort(port), realm: "transform" };
  const call = (name: string): Promise<GuestOutcome> =>
    executor.call(program, {
      shape: { export: name, style: "positional", params: ["serverName"], context: true },
      args: { serverName: server },
      context,
      deadlineMs: bounds.transformMs,
      takesUnread: true,
    });
  const outcome = await call(exportNames[hook]);
  const isMissing = ({ ok, error }: Partial<GuestOutcome & { error: { reason: string; message: string } }>): boolean =>
    !ok && error?.reason === "load" && /exports no function/.test(error.message);
  if (!isMissing(outcome)) return outcome;
  const fallback = await call("default");
  if (!isMissing(fallback)) return fallback;
  const message = `it exports neither a function ${exportNames[hook]} nor a default one`;
  return { ok: false, error: { reason: "load", message, retriable: false } };
}

/** Restricts a transform to reading, because its server is not loaded yet. */
function readOnlyPort(port: HostPort): HostPort {
  return {
    async request(op, params, call) {
      const name = params["name"];
      const isServerList = op === "variable" && typeof name === "string" && name.startsWith("berth:");
      // The result is cached by its inputs and stored as content, so it must not depend on secrets or other servers.
      if ((op === "variable" || op === "cid") && !isServerList) return port.request(op, params, call);
      throw new Error("a transform can read only variables and content from the host");
    },
  };
}
