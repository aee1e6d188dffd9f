import { jsonBlock, rawBlock, type Cid } from "../../lib/cid.ts";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import type { Executor, GuestOutcome, GuestProgram, HostPort } from "../../executor/executor.ts";
import { loadDefinition } from "../../image/definition.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { ifSound } from "../../store/if-sound.ts";
import type { Store } from "../../store/store.ts";
import type { Checks } from "../checks/checks.ts";
import type { CompileOnce } from "../catalog/compile-once.ts";
import type { Hook } from "../../entry/entry.ts";

/** One run of a transform: its input, and what its result depends on. */
export interface HookRun {
  readonly tenant: string;
  readonly server: string;
  readonly hook: Hook;
  /** The CID of the transform's source. */
  readonly transform: Cid;
  /** Other inputs of the result: CIDs, and nothing that changes under the same name. */
  readonly given: JsonObject;
  /** The context that the function receives. */
  readonly context: JsonObject;
}

export interface HookDependencies {
  readonly store: Store;
  readonly executor: Executor;
  readonly compileOnce: CompileOnce;
  readonly checks: Pick<Checks, "readList">;
  readonly limits: { readonly transformMs: number; readonly transformBytes: number; readonly inlineBodyBytes: number };
}

/** The names under which a module exports its hooks; a default export serves for any of them. */
const exportOf = { tools: "generateTools", resources: "generateResources", prompts: "generatePrompts" } as const;

/**
 * Runs a transform's function. Gives what it returned (as texts of its items when long), or a sentence that says why it
 * failed. A good result is stored under what it depends on, so a transform runs once for a definition, an entry and its
 * own code.
 */
export async function runHook(
  run: HookRun,
  port: HostPort,
  dependencies: HookDependencies,
): Promise<{ value: Json } | { items: readonly string[] } | { fault: string }> {
  const { tenant, server, hook, transform, given } = run;
  const { store, compileOnce, checks, limits } = dependencies;
  const { transformBytes } = limits;
  const tooLong = (bytes: number): { fault: string } => ({
    fault: `it returned ${bytes} bytes, more than the limit transformBytes of ${transformBytes}`,
  });
  try {
    const source = await loadDefinition((cid) => store.content(tenant, cid), transform, server);
    if (source.language !== "typescript") return { fault: "a transform is a TypeScript module, and this is a script" };
    const { bundle, problems } = await compileOnce(transform, source);
    if (!bundle) return { fault: problems[0]?.message ?? "there is nothing in it that could be run" };

    // A transform reads variables and content of its tenant, so its result belongs to that tenant alone.
    const key = jsonBlock({ tenant, hook, server, bundle, ...given }).cid;
    const known = await ifSound(store.derived(key));
    if (known && known.length > limits.inlineBodyBytes) {
      const list = await checks.readList(tenant, { list: known, isFrame: false, listBytes: Infinity });
      return "bytes" in list ? tooLong(list.bytes) : list;
    }
    if (known) return { value: JSON.parse(new TextDecoder().decode(known)) as Json };
    const outcome = await callHook(run, bundle, port, dependencies);
    if (!outcome.ok) return { fault: outcome.error.message };
    if (outcome.value.kind === "unread") {
      const { frame } = outcome.value;
      const list = await checks.readList(tenant, { list: frame, isFrame: true, listBytes: transformBytes });
      if ("bytes" in list) return tooLong(list.bytes);
      if ("items" in list) {
        await store.putDerived(tenant, [{ key, block: rawBlock(`[${list.items.join(",")}]`) }]);
      }
      return list;
    }
    if (outcome.value.kind !== "json") return { fault: "it did not return a list" };
    const block = rawBlock(JSON.stringify(outcome.value.value));
    if (block.bytes.length > transformBytes) return tooLong(block.bytes.length);
    await store.putDerived(tenant, [{ key, block }]);
    return { value: outcome.value.value };
  } catch (error) {
    if (error instanceof BerthError && !OF_THE_SERVICE.has(error.code)) return { fault: error.message };
    throw error;
  }
}

const OF_THE_SERVICE: ReadonlySet<ErrorCode> = new Set(["check_failed", "compiler_failed"]);

async function callHook(
  { tenant, server, hook, transform, context }: HookRun,
  bundle: Cid,
  port: HostPort,
  { compileOnce, executor, limits }: HookDependencies,
): Promise<GuestOutcome> {
  const code = (): Promise<Uint8Array> => compileOnce.code(server, transform, bundle);
  // A function may wait for a server to load whose transform has the same code: transforms run in a process of their
  // own.
  const program: GuestProgram = { tenant, bundle, code, port: readingPort(port), realm: "transform" };
  const call = (name: string): Promise<GuestOutcome> =>
    executor.call(program, {
      shape: { export: name, style: "positional", params: ["serverName"], context: true },
      args: { serverName: server },
      context,
      deadlineMs: limits.transformMs,
      takesUnread: true,
    });
  const outcome = await call(exportOf[hook]);
  const isMissing = ({ ok, error }: Partial<GuestOutcome & { error: { reason: string; message: string } }>): boolean =>
    !ok && error?.reason === "load" && /exports no function/.test(error.message);
  if (!isMissing(outcome)) return outcome;
  const byDefault = await call("default");
  if (!isMissing(byDefault)) return byDefault;
  const message = `it exports neither a function ${exportOf[hook]} nor a default one`;
  return { ok: false, error: { reason: "load", message, retriable: false } };
}

/** Lets a transform only read: its server does not exist yet, so there is nothing to change or ask about it. */
function readingPort(port: HostPort): HostPort {
  return {
    async request(op, params, call) {
      const name = params["name"];
      const aboutServers = op === "variable" && typeof name === "string" && name.startsWith("berth:");
      // Its result is stored as content, which must hold no secret, and is kept until one of its inputs changes.
      if ((op === "variable" || op === "cid") && !aboutServers) return port.request(op, params, call);
      throw new Error("a transform can read variables and content, and nothing else of the host");
    },
  };
}
