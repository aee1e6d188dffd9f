import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { packageRoot } from "../../src/config.ts";
import type { ReadTarball } from "../../src/discover/compiler.ts";
import type { Compiled, DefinitionSource } from "../../src/discover/discovery.ts";
import type { Executor } from "../../src/executor/executor.ts";
import type { PackageSet } from "../../src/packages/package-set.ts";

/** The locked set of `npm run packages`, or a part of it. */
export interface OpenSet {
  readonly set: PackageSet;
  readonly tarball: ReadTarball;
}

interface Failure {
  readonly stage: string;
  readonly why: string;
}

const folder = join(packageRoot, "scripts", "packages");
const load = (name: string): Promise<unknown> => import(pathToFileURL(join(folder, name)).href);

export const { openSet } = (await load("set.mjs")) as { openSet: (names: readonly string[]) => Promise<OpenSet> };
export const { definitionOf, mistakesIn, openGuests, resultOf } = (await load("attempt.mjs")) as {
  definitionOf: (name: string, set: PackageSet) => DefinitionSource;
  mistakesIn: (compiled: Compiled) => readonly Failure[];
  openGuests: (mode: "sandboxed" | "trusted") => Promise<Executor>;
  resultOf: (
    compiled: Compiled,
    expected: unknown,
    executor: Executor,
    port?: number,
  ) => Promise<{ value?: unknown; failure?: Failure }>;
};
export const { openServers } = (await load("network.mjs")) as {
  openServers: () => { portFor: (name: string) => Promise<number | undefined>; close: () => Promise<void> };
};
export const expected = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as Record<string, unknown>;

/** Kinds of packages that differ: ES modules and CommonJS, their own types and those of others, few files and many. */
export const dozen = "@octokit/rest ajv axios cheerio date-fns jose lodash marked papaparse xlsx yaml zod".split(" ");

/** Drivers and clients that do not speak HTTP alone. */
export const connecting = ["ioredis", "nodemailer", "pg", "ws"];
