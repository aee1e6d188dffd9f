import type { DescribeSchemas } from "../discover/discovery.ts";
import { readEntry } from "../entry/entry.ts";
import { createSchemaDescriber } from "../executor/describe-schemas.ts";
import type { Executor } from "../executor/executor.ts";
import { loadProblem } from "../executor/load-problem.ts";
import { openExecutor, type ExecutorOptions } from "../executor/open-executor.ts";
import { environmentForTrial } from "../host/calls/environment.ts";
import type { Load } from "../image/compile-all.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";

/** Tries if definitions load, and evaluates their schemas, as a save does, in an executor that is opened for the first one. */
export function openLoader(options: Pick<ExecutorOptions, "mode" | "limits">) {
  let executor: Promise<Executor | undefined> | undefined;
  const run: Executor["load"] = async (program) => {
    // Without a working sandbox, the outcome is unknown.
    executor ??= openExecutor(options).catch(() => undefined);
    return (await (await executor)?.load(program)) ?? { kind: "unknown" };
  };
  const load: Load = async (entry, bundle, entries) => {
    const env = async () => Object.assign({}, ...entries.map((each) => environmentForTrial(readEntry("", each).entry)));
    return loadProblem(await run({ tenant: DEFAULT_TENANT, code: async () => bundle, env }), entry);
  };
  const describe: DescribeSchemas = createSchemaDescriber(run, DEFAULT_TENANT);
  return { load, describe, close: async () => (await executor)?.close() };
}
