import type { Cid } from "../cid.ts";
import type { CallShape, DefinitionSource, Discovery } from "../discover/discovery.ts";
import { BerthError } from "../errors.ts";
import type { GuestProgram, HostPort } from "../executor/executor.ts";
import { derivedEntries, packCompiled, readCompiled, type CompiledResult } from "../image/compiled.ts";
import { loadDefinition } from "../image/definition.ts";
import type { Problem } from "../problem.ts";
import type { Catalog } from "./catalog.ts";
import type { DirectoryEntry } from "./directory.ts";
import { createCompleter } from "./completer.ts";
import type { HostDependencies } from "./host.ts";
import type { ServerEntry } from "./mcps.ts";
import { createPrompt } from "./prompt.ts";
import { createRelease, type Release } from "./release.ts";
import { resourceFinder } from "./resource.ts";
import { functionRun } from "./run-function.ts";
import { scriptRun } from "./run-script.ts";
import { createTool, type Run } from "./tool.ts";

/** Makes a server ready to serve: definition → what was compiled of it → release → catalog. */
export async function loadCatalog(
  tenant: string,
  server: string,
  listed: DirectoryEntry,
  port: HostPort,
  dependencies: HostDependencies,
): Promise<Catalog> {
  if (listed.problems.length > 0) throw refused(server, listed.problems);
  const { definition, entry, hidden } = listed;
  if (definition === undefined) {
    throw refused(server, [problem("missing-definition", "No definition is named for this server")]);
  }
  const made = { definition, entry, hiddenOf: () => hidden };
  const { catalog, release } = await buildCatalog(tenant, server, made, port, dependencies);
  if (dependencies.writable) await recordRelease(tenant, server, release, dependencies);
  return catalog;
}

/** What a release is made of. */
export interface Made {
  readonly definition: Cid;
  readonly entry: ServerEntry;
  /** The names that are left out of what was found. */
  readonly hiddenOf: (found: Pick<Discovery, "tools" | "prompts">) => readonly string[];
}

export async function buildCatalog(
  tenant: string,
  server: string,
  { definition, entry, hiddenOf }: Made,
  port: HostPort,
  dependencies: HostDependencies,
): Promise<{ catalog: Catalog; release: Release }> {
  const { store, writable } = dependencies;
  const source = await loadDefinition((cid) => store.content(tenant, cid), definition, server);
  if (source.language === "shell" && !writable) {
    throw refused(server, [problem("shell-refused", "A read-only boot runs no shell definitions")]);
  }

  const compiled = await compileOnce(definition, source, dependencies);
  if (!compiled.bundle) throw refused(server, compiled.problems);
  const { bundle } = compiled;
  const hidden = hiddenOf(compiled);
  const release = createRelease({ server, definition, bundle, entry, hidden, discovered: compiled });

  const runOf = runFactory(tenant, server, source.language, bundle, port, dependencies);
  const tools = new Map(
    release.tools.map(({ contract, discovered }) => [
      contract.name,
      createTool(contract, runOf(discovered), discovered.task),
    ]),
  );
  const prompts = new Map(
    release.prompts.map(({ contract, discovered }) => [
      contract.name,
      createPrompt(contract, discovered.inputSchema, runOf(discovered)),
    ]),
  );
  const isShown = (of: string): boolean => prompts.has(of) || release.resources.some(({ uri }) => uri === of);
  const completers = new Map(
    compiled.completions
      .filter(({ of }) => isShown(of))
      .map((completion) => [
        completerKey(completion.of, completion.argument),
        createCompleter(completion, runOf({ name: completion.call.export, call: completion.call })),
      ]),
  );
  const catalog: Catalog = {
    server,
    release: release.block.cid,
    contractCid: release.contractBlock.cid,
    contract: release.contract,
    hidden: release.hidden,
    problems: [...compiled.problems, ...release.problems],
    tool: (name) => tools.get(name),
    resource: resourceFinder(release.resources, runOf),
    prompt: (name) => prompts.get(name),
    completer: (of, argument) => completers.get(completerKey(of, argument)),
    memo: new Map(),
  };
  return { catalog, release };
}

function completerKey(of: string, argument: string): string {
  return JSON.stringify([of, argument]);
}

/** Discovery and bundling are done once for a source, by whoever needs them first (invariant 2). */
async function compileOnce(
  definition: Cid,
  source: DefinitionSource,
  { store, compile, compileKey }: HostDependencies,
): Promise<CompiledResult> {
  const key = compileKey(definition, source);
  const known = await store.derived(key);
  if (known) return readCompiled(known);
  const packed = packCompiled(await compile(source));
  await store.putDerived(derivedEntries(key, packed));
  return readCompiled(packed.result.bytes);
}

/** Keeps the release addressable, and its name's history the list of the server's versions. */
async function recordRelease(
  tenant: string,
  server: string,
  release: Release,
  { store }: HostDependencies,
): Promise<void> {
  const current = await store.name(tenant, "release", server);
  if (current?.cid === release.block.cid) return;
  await store.change(tenant, {
    by: "load",
    put: [release.block, release.contractBlock, release.configBlock],
    set: [{ kind: "release", name: server, cid: release.block.cid }],
  });
}

/** Something that runs guest code when it is used. */
interface Callee {
  readonly name: string;
  readonly call: CallShape;
}

function runFactory(
  tenant: string,
  server: string,
  language: DefinitionSource["language"],
  bundle: Cid,
  port: HostPort,
  { store, executor, limits }: HostDependencies,
): (callee: Callee) => Run {
  const code = async (): Promise<string> => {
    const bytes = await store.derived(bundle);
    if (!bytes) throw new BerthError("content_missing", bundle);
    return new TextDecoder().decode(bytes);
  };
  if (language === "shell") {
    return ({ call }) => scriptRun(executor, { tenant, text: code }, call, limits);
  }
  const program: GuestProgram = { tenant, bundle, code, port };
  const { callMs, outputBytes } = limits;
  return ({ name, call }) => functionRun(executor, program, call, { server, tool: name, callMs, outputBytes });
}

function refused(server: string, problems: readonly Problem[]): BerthError {
  const first = problems.find((each) => each.severity === "error") ?? problems[0];
  return new BerthError("server_refused", `"${server}": ${first?.message ?? "it has no code"}`, { data: { problems } });
}

function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}
