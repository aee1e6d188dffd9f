import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { packageRoot } from "../../src/config.ts";
import { openCompiler, type CompilerHelp } from "../../src/discover/compiler.ts";
import type { Compiled } from "../../src/discover/discovery.ts";
import { findPackageImports } from "../../src/discover/files/imports.ts";
import { createSchemaDescriber } from "../../src/executor/describe-schemas.ts";
import type { GuestOutcome, GuestProgram } from "../../src/executor/executor.ts";
import { loadBounds } from "../../src/executor/load-trials.ts";
import { openExecutor } from "../../src/executor/open-executor.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { packagesInReach, type PackageSet } from "../../src/packages/package-set.ts";
import { holdTimeouts } from "./clock.ts";
import { programWith } from "./executor.ts";
import { GUESTS } from "./guests.ts";
import { inSuite } from "./suite.ts";
import { packageSet, type MadePackage } from "./tarballs.ts";

/** A compiler that evaluates schemas in guests, and the executor of these. */
export interface SchemaCompiler {
  compile(text: string, more?: Readonly<Record<string, string>>): Promise<Compiled>;
  /** Calls a tool in a guest, without the host's check of the arguments. */
  call(compiled: Compiled, name: string, args?: JsonObject): Promise<GuestOutcome>;
  close(): Promise<void>;
}

/** A set of packages, and the reader of their tarballs. */
export interface Packages {
  readonly set: PackageSet;
  readonly tarball: NonNullable<CompilerHelp["tarballs"]>;
}

/** For the tests of the suite or file that calls this. */
export function schemaCompilerInSuite(packages?: () => Packages | Promise<Packages>): SchemaCompiler {
  return inSuite(async () => open(await packages?.()));
}

async function open(packages?: Packages): Promise<SchemaCompiler> {
  const release = holdTimeouts(loadBounds.loadElapsedMs);
  const limits = { ...defaultLimits, guestSpareProcesses: 1 };
  const executor = await openExecutor({ mode: GUESTS, limits });
  const describe = createSchemaDescriber((program) => executor.load(program), "default");
  const compiler = openCompiler(limits, { describe });
  const programs = new WeakMap<Compiled, GuestProgram>();
  const programOf = (compiled: Compiled): GuestProgram => {
    const program = programs.get(compiled) ?? programWith(compiled.bundle!);
    programs.set(compiled, program);
    return program;
  };
  return {
    compile(text, more = {}) {
      const files = { "demo.ts": text, ...more };
      const source = { language: "typescript", server: "demo", entry: "demo.ts", files } as const;
      const inReach = packages && packagesInReach(packages.set, findPackageImports(source));
      return compiler.compile({ ...source, ...(inReach && { packages: inReach }) }, { tarballs: packages?.tarball });
    },
    call(compiled, name, args = {}) {
      const shape = compiled.tools.find((tool) => tool.name === name)!.call;
      return executor.call(programOf(compiled), { shape, args, deadlineMs: 60_000 });
    },
    async close() {
      await compiler.close();
      await executor.close();
      release();
    },
  };
}

/** Installed packages without dependencies as a set: their modules and the types of these. */
export function installedPackages(...names: readonly string[]): Packages {
  const { set, tarballs } = packageSet(
    Object.fromEntries(names.map((name) => [`node_modules/${name}`, readInstalled(name)])),
  );
  return { set, tarball: async (cid) => tarballs.get(cid) };
}

function readInstalled(name: string): MadePackage & { readonly version: string } {
  const folder = join(packageRoot, "node_modules", name);
  const read = (path: string): string => readFileSync(join(folder, path), "utf8");
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /(?:\.js|\.d\.cts|^package\.json)$/.test(entry.name))
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .filter((path) => !/^(?:src|v3)\//.test(path));
  const { version } = JSON.parse(read("package.json")) as { version: string };
  return { version, files: Object.fromEntries(paths.map((path) => [path, read(path)])) };
}

/** Source for definitions without packages: schemas as Standard Schema has them, and the type of what they make. */
export const OWN_SCHEMAS = `
  interface Schema<I, O = I> {
    readonly "~standard": {
      readonly version: 1;
      readonly vendor: string;
      validate(value: unknown): any;
      readonly jsonSchema: { input(): any; output(): any };
      readonly types?: { readonly input: I; readonly output: O };
    };
  }
  type Infer<S extends Schema<any, any>> = NonNullable<S["~standard"]["types"]>["output"];
  const schema = <I, O = I>(json: () => any, validate: (value: any) => any = (value) => ({ value })): Schema<I, O> => ({
    "~standard": { version: 1, vendor: "own", validate, jsonSchema: { input: json, output: json } },
  });
`;
