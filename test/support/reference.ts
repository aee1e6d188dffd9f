import assert from "node:assert/strict";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { packageRoot } from "../../src/config.ts";
import { compileDefinition } from "../../src/discover/compile.ts";
import type { Compiled, DefinitionSource, DiscoveredTool } from "../../src/discover/discovery.ts";
import { gatherDefinition } from "../../src/discover/gather.ts";
import { PackageFiles } from "../../src/discover/packages/package-files.ts";
import type { GuestLog, GuestValue, HostPort } from "../../src/executor/executor.ts";
import { openExecutor } from "../../src/executor/open-executor.ts";
import { withPackages } from "../../src/image/folder-packages.ts";
import { readImage } from "../../src/image/read.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { PACKAGES, readPackageSet } from "../../src/packages/package-set.ts";
import { compile } from "./compiler.ts";

export const templates = join(packageRoot, "reference_templates");

/** A reference definition, compiled from the file in the repository and run by the real executor. */
export interface OpenTemplate {
  readonly tools: readonly DiscoveredTool[];
  /**
   * Calls a tool with its arguments in the order of its parameters, or with its one object. Arguments and result are
   * validated against the discovered schemas. Rejects with the guest's error.
   */
  call(tool: string, ...args: unknown[]): Promise<unknown>;
  /** The guest's log lines so far. */
  readonly logs: readonly GuestLog[];
  /** The events of a streaming tool, and then its result. */
  stream(tool: string, ...args: unknown[]): Promise<unknown[]>;
}

export async function compileTemplate(entry: string): Promise<Compiled> {
  const { files, problems } = await gatherDefinition(templates, entry);
  assert.deepEqual(problems, []);
  const [server, extension] = entry.split(".");
  const language = extension === "sh" ? "shell" : "typescript";
  const compiled = await compileWithPackages({ language, server: server!, entry, files });
  assert.deepEqual(compiled.problems, []);
  return compiled;
}

/** The image that comes with the templates holds their packages. */
async function compileWithPackages(alone: DefinitionSource): Promise<Compiled> {
  const image = await readImage(join(packageRoot, "boot"), "default");
  const { definition_cid: set } = image.manifest.variables.find(({ name }) => name === PACKAGES)!;
  const source = withPackages(alone, readPackageSet(new TextDecoder().decode(image.content(set))));
  if (!source.packages) return compile(source);
  const packages = await PackageFiles.read(source.packages, (cid) => image.content(cid), defaultLimits);
  return compileDefinition("compile", source, undefined, packages);
}

export async function openTemplate(
  context: Pick<TestContext, "after">,
  entry: string,
  port?: HostPort,
): Promise<OpenTemplate> {
  const { tools, bundle } = await compileTemplate(entry);
  const executor = await openExecutor({ mode: "auto", limits: defaultLimits });
  context.after(() => executor.close());
  const program = {
    tenant: "default",
    bundle: rawBlock(bundle!).cid,
    code: async () => bundle!,
    ...(port && { port }),
  };
  const ajv = new Ajv2020({ strict: false, validateFormats: false });

  const logs: GuestLog[] = [];

  const carryOut = async (name: string, given: unknown[], onProgress?: (event: Json) => void): Promise<unknown> => {
    const tool = tools.find((candidate) => candidate.name === name);
    assert.ok(tool, `there is no tool ${name}`);
    const args = namedArguments(tool, given);
    assert.ok(ajv.validate(tool.inputSchema, args), `${name}: ${ajv.errorsText()} in ${JSON.stringify(args)}`);
    const outcome = await executor.call(program, {
      shape: tool.call,
      args,
      deadlineMs: defaultLimits.callMs,
      onLog: (line) => void logs.push(line),
      ...(onProgress && { onProgress }),
    });
    if (!outcome.ok) throw new Error(outcome.error.message);
    const value = plainValue(outcome.value);
    if (tool.outputSchema) assert.ok(ajv.validate(tool.outputSchema, value), `${name}: ${ajv.errorsText()}`);
    return value;
  };
  return {
    tools,
    logs,
    call: (name, ...args) => carryOut(name, args),
    stream: async (name, ...args) => {
      const events: unknown[] = [];
      const result = await carryOut(name, args, (event) => void events.push(event));
      return [...events, result];
    },
  };
}

function namedArguments({ call }: DiscoveredTool, given: unknown[]): JsonObject {
  if (call.style === "object") return (given[0] ?? {}) as JsonObject;
  assert.ok(given.length <= call.params.length);
  const named = call.params.map((name, index) => [name, given[index]] as const);
  return Object.fromEntries(named.filter(([, value]) => value !== undefined)) as JsonObject;
}

function plainValue(value: GuestValue): unknown {
  switch (value.kind) {
    case "text":
      return value.text;
    case "json":
      return value.value;
    case "bytes":
      return Buffer.from(value.base64, "base64");
    default:
      return undefined;
  }
}
