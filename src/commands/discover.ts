import { readFile } from "node:fs/promises";
import { basename, dirname, extname, join, relative } from "node:path";
import { readConfig } from "../config.ts";
import { renderSignature } from "../contract/signature.ts";
import { openCompiler } from "../discover/compiler.ts";
import type { DefinitionSource, DiscoveredTool, Discovery } from "../discover/discovery.ts";
import { findPackageImports } from "../discover/files/imports.ts";
import { gatherDefinition } from "../discover/gather.ts";
import { withPackages } from "../image/folder-packages.ts";
import type { Cid } from "../lib/cid.ts";
import { withTypeErrors, type Problem } from "../lib/problem.ts";
import { isScript } from "../lib/script-text.ts";
import { interpreterProblem } from "../processes/interpreter.ts";
import { confinementFor } from "../processes/own-program.ts";
import { openLoader } from "./open-loader.ts";
import { counted, countProblems, printProblems } from "./print-problems.ts";
import { printJson } from "./print.ts";
import { packagesFolder, projectPackages } from "./project-packages.ts";

export interface DiscoverOptions {
  /** Prints `{ tools, resources, prompts, completions, problems }` as JSON on stdout, without empty lists. */
  readonly json?: boolean;
  /** Name of the server; by default the file's own. */
  readonly server?: string;
  /** Type errors are errors. */
  readonly strict?: boolean;
}

/**
 * Shows the offers of a definition, and every problem in it. Problems are those of the signatures; a problem that keeps
 * a sound definition from being bundled, such as an import that leads nowhere, is listed separately as `bundling`. The
 * exit code is 0 when all is well, 1 when there are errors, 2 when the file cannot be read.
 */
export async function discover(file: string, options: DiscoverOptions): Promise<number> {
  const text = await readFile(file, "utf8").catch((error: Error) => error);
  if (text instanceof Error) {
    console.error(`berth: ${file} cannot be read: ${text.message}`);
    return 2;
  }
  const entry = basename(file);
  const { limits, guests } = readConfig(process.env);
  const gathered = await gatherDefinition(dirname(file), entry, limits);
  const own: DefinitionSource = {
    language: isScript(text) || extname(file) === ".sh" ? "shell" : "typescript",
    server: options.server ?? basename(file, extname(file)),
    entry,
    files: { ...gathered.files, [entry]: gathered.files[entry] ?? text },
  };
  const beside = packagesFolder(dirname(file));
  const { packages, problems: refused } = await projectPackages(beside, findPackageImports(own), { limits });
  const source = withPackages(own, packages?.set);
  const inFolder = refused.map((problem) =>
    Object.assign({}, problem, { file: join(relative(dirname(file), beside), problem.file ?? "") }),
  );
  // The bundler reports imports that lead nowhere, too.
  const unread = gathered.problems.filter(({ code }) => code !== "missing-file" && code !== "outside");

  const loader = openLoader({ mode: guests, limits });
  const compiler = openCompiler(limits, { mode: confinementFor(guests), describe: loader.describe });
  try {
    const tarballs = async (cid: Cid) => packages?.blocks.find((each) => each.cid === cid)?.bytes;
    const { bundling: unbundled = [], ...found } = await compiler.discover(source, { tarballs });
    const wrong = own.language === "shell" ? interpreterProblem(entry, text) : undefined;
    const told = (list: readonly Problem[]): readonly Problem[] => (options.strict ? withTypeErrors(list) : list);
    const [problems, bundling] = [
      told([...(wrong ? [wrong] : []), ...found.problems]),
      told([...inFolder, ...unread, ...unbundled]),
    ];
    if (options.json) printAsJson({ ...found, problems }, bundling);
    else printText({ ...found, problems: [...problems, ...bundling] });
    return [...problems, ...bundling].some((problem) => problem.severity === "error") ? 1 : 0;
  } finally {
    await compiler.close();
    await loader.close();
  }
}

function printAsJson({ tools, problems, ...others }: Discovery, bundling: readonly Problem[]): void {
  const filled = Object.entries({ ...others, bundling }).filter(([, list]) => list.length > 0);
  printJson({ tools, problems, ...Object.fromEntries(filled) }, 2);
}

function printText({ tools, resources, prompts, requested = [], problems }: Discovery): void {
  const listing = [
    ...requested.map(({ field, value, purpose }) =>
      withWords(`requests ${field === "secrets" ? "the secret" : "the host"} ${value}`, purpose),
    ),
    ...tools.map(toolText),
    ...resources.map(({ uri, description }) => withWords(uri, description)),
    ...prompts.map(({ name, description }) => withWords(`prompt ${name}`, description)),
  ].join("\n\n");
  const counts = [
    counted(tools.length, "tool"),
    ...(resources.length > 0 ? [counted(resources.length, "resource")] : []),
    ...(prompts.length > 0 ? [counted(prompts.length, "prompt")] : []),
  ].join(", ");
  const wrong = countProblems(problems);
  console.log(`${listing}${listing && "\n\n"}${counts}${wrong && `, ${wrong}`}`);
  printProblems(problems);
}

/** A signature with what else fits on the line, and the description below. */
function toolText(tool: DiscoveredTool): string {
  const hints = Object.entries(tool.annotations).map(
    ([hint, value]) => ` @${hint.replace(/Hint$/, "")}${value ? "" : " false"}`,
  );
  const stream = tool.call.streaming ? " (streams)" : "";
  const about = (tool.description ?? "")
    .split("\n")
    .filter(Boolean)
    .map((line) => `  ${line}`);
  return [`${renderSignature(tool)}${stream}${hints.join("")}`, ...about].join("\n");
}

function withWords(name: string, description: string | undefined): string {
  return description === undefined ? name : `${name}\n  ${description.split("\n")[0]}`;
}
