import type { Cid } from "../lib/cid.ts";
import { loadProblem } from "../executor/load-problem.ts";
import { loadDefinition } from "../image/definition.ts";
import type { Problem } from "../lib/problem.ts";
import { compilingOnce } from "../host/catalog/compile-once.ts";
import type { HostDependencies } from "../host/open-host.ts";

/** The problems that keep a compiled definition from loading. A definition that the service cannot try now has none. */
export async function loadProblems(
  tenant: string,
  { server, definition }: { readonly server: string; readonly definition: Cid },
  dependencies: Pick<HostDependencies, "store" | "compile" | "compileKey" | "executor">,
): Promise<Problem[]> {
  const { store, executor } = dependencies;
  const source = await loadDefinition((cid) => store.content(tenant, cid), definition, server);
  if (source.language !== "typescript") return [];
  const compileOnce = compilingOnce(tenant, dependencies);
  const { bundle } = await compileOnce(definition, source);
  if (bundle === null) return [];
  const code = (): Promise<Uint8Array> => compileOnce.code(server, definition, bundle);
  const problem = loadProblem(await executor.load({ tenant, code }), source.entry);
  return problem ? [problem] : [];
}
