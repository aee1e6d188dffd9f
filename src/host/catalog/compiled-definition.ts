import type { Cid } from "../../lib/cid.ts";
import { nothingFound, type DefinitionSource } from "../../discover/discovery.ts";
import { BerthError } from "../../lib/errors.ts";
import type { CompiledResult } from "../../image/compiled.ts";
import { loadDefinition } from "../../image/definition.ts";
import type { Problem } from "../../lib/problem.ts";
import type { CompileOnce } from "./compile-once.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { HostDependencies } from "../host.ts";

/** The compiled definition of a server. */
export interface CompiledDefinition {
  readonly found: CompiledResult;
  readonly language: DefinitionSource["language"];
  readonly bundle: Cid | null;
  /** The key of the compiler's result. */
  readonly compiled: string | null;
}

/** A server without a definition has no code; one whose entry offers nothing either is refused. */
export async function compiledDefinition(
  tenant: string,
  server: string,
  { definition, entry }: { definition: Cid | undefined; entry: ServerEntry },
  compileOnce: CompileOnce,
  { store, compileKey, writable }: HostDependencies,
): Promise<CompiledDefinition> {
  if (definition === undefined) {
    const offers = [...entry.resources, ...Object.keys(entry.prompts), ...Object.keys(entry.transforms)];
    if (offers.length === 0) {
      throw refused(server, [problem("missing-definition", "No definition is named for this server")]);
    }
    const found = { ...nothingFound, problems: [], bundle: null };
    return { found, language: "typescript", bundle: null, compiled: null };
  }
  const source = await loadDefinition((cid) => store.content(tenant, cid), definition, server);
  const { language } = source;
  if (language === "shell" && !writable) {
    throw refused(server, [problem("shell-refused", "A read-only boot runs no shell definitions")]);
  }
  const found = await compileOnce(definition, source);
  if (!found.bundle) throw refused(server, found.problems);
  return { found, language, bundle: found.bundle, compiled: compileKey(definition, source) };
}

/** Reports the first error of the whole server: an error of one tool seldom stops it. */
export function refused(server: string, problems: readonly Problem[]): BerthError {
  const errors = problems.filter(({ severity }) => severity === "error");
  const first = errors.find(({ tool }) => tool === undefined) ?? errors[0] ?? problems[0];
  return new BerthError("server_refused", `"${server}": ${first?.message ?? "it has no code"}`, { data: { problems } });
}

function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}
