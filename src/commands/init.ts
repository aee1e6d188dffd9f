import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join, relative, resolve } from "node:path";
import { isPublished, packageRoot } from "../config.ts";
import { shellWord } from "../http/pages/parts/text.ts";
import { findServerList, MCPS_FILE, PACKAGE_JSON } from "../image/image.ts";
import { DATA_FOLDER } from "../lib/data-folder.ts";
import { BerthError } from "../lib/errors.ts";
import { faultOfPlace, shownFolder } from "./own-folder.ts";

const SCHEMA = "mcps.schema.json";
const TYPES = "berth.d.ts";

/**
 * `berth init [DIR]`: creates a folder to commit to git: a list of servers, one definition, and the files that npm, git
 * and editors need. Existing files are left unchanged. Throws `config_invalid` if the folder already lists servers.
 */
export async function init(path = "."): Promise<number> {
  const folder = resolve(path);
  refuseUnfit(folder, path);
  mkdirSync(folder, { recursive: true });
  const server = ["hello", "hello-berth", "berth-hello"].find((name) => !existsSync(join(folder, `${name}.ts`)));
  if (server === undefined)
    throw new BerthError(
      "config_invalid",
      `${path} already has hello.ts, hello-berth.ts and berth-hello.ts: rename one, or choose another folder`,
    );
  const unchanged: string[] = [];
  say(`Created in ${shownFolder(folder)}:`);
  for (const [name, { about, text }] of Object.entries(filesOf(folder, server))) {
    if (write(join(folder, name), text)) say(`  ${name.padEnd(SCHEMA.length)}  ${about}`);
    else unchanged.push(name);
  }
  if (unchanged.length > 0) say(`Left unchanged: ${unchanged.join(", ")}`);
  const steps = [
    ...(folder === process.cwd() ? [] : [`cd ${shellWord(relative(process.cwd(), folder))}`]),
    "berth dev",
  ];
  say(`\n${origin()}`);
  say(["", "Next:", ...steps.map((step) => `  ${step}`)].join("\n"));
  return 0;
}

function refuseUnfit(folder: string, path: string): void {
  const refuse = (message: string): never => {
    throw new BerthError("config_invalid", message);
  };
  const stats = statSync(folder, { throwIfNoEntry: false });
  if (stats && !stats.isDirectory()) refuse(`${path} is not a folder`);
  const fault = faultOfPlace(folder);
  if (fault !== undefined) refuse(fault);
  const list = existsSync(join(folder, MCPS_FILE))
    ? MCPS_FILE
    : findServerList((name) => existsSync(join(folder, name)));
  if (list === undefined) return;
  const dir = path === "." ? "" : ` ${path}`;
  refuse(`${shownFolder(folder)} already has an ${list}: add your servers to it, and run \`berth dev${dir}\``);
}

/** Returns false if the file exists. */
function write(file: string, text: string): boolean {
  try {
    writeFileSync(file, text, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

interface NewFile {
  /** Its description in the list of created files. */
  readonly about: string;
  readonly text: string;
}

function filesOf(folder: string, server: string): Readonly<Record<string, NewFile>> {
  const name = basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, "-")
    .replaceAll(/^[._-]+|[._-]+$/g, "");
  return {
    [MCPS_FILE]: {
      about: "the list of servers: add yours here",
      text: prettyPrinted({
        $schema: `./${SCHEMA}`,
        [server]: { description: "Greets people and counts words", definition: `${server}.ts` },
      }),
    },
    [`${server}.ts`]: { about: `the definition of the server "${server}"`, text: definition },
    [PACKAGE_JSON]: {
      about: "scripts, and the npm packages that you add",
      text: prettyPrinted({
        name: name || "my-servers",
        private: true,
        type: "module",
        scripts: { dev: "berth dev", start: "berth serve", check: "berth check --strict" },
      }),
    },
    "tsconfig.json": { about: "compiler options for your editor", text: prettyPrinted(tsconfig) },
    [TYPES]: { about: 'types of the module "berth" and of globals, for your editor', text: template(TYPES) },
    [SCHEMA]: { about: `JSON Schema of ${MCPS_FILE}, for your editor`, text: template(SCHEMA) },
    ".gitignore": { about: "files that git ignores", text: `node_modules/\n${DATA_FOLDER}/\n.env\n` },
    "README.md": { about: "commands to run", text: readme(name || "my-servers", server) },
  };
}

/** Where the command `berth` comes from: the folder lists no package of Berth that npm could not install. */
const origin = (): string =>
  isPublished()
    ? "Install the command `berth` with `npm install --global berth-mcp`."
    : "Berth is not published to npm. The command `berth` comes from a clone of Berth: run `npm link` in it.";

function template(name: string): string {
  return readFileSync(join(packageRoot, "reference_templates", name), "utf8");
}

/** Keeps the order of keys. */
function prettyPrinted(value: object): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

const definition = `import type { ToolContext } from "berth";

/**
 * Greets a person.
 * @param name - The person's name.
 * @param times - Number of greetings.
 * @minimum 1
 * @maximum 10
 * @readOnly
 */
export function greet(name: string, times = 1): string {
  return Array(times).fill(\`Hello, \${name}!\`).join(" ");
}

interface WordCount {
  word: string;
  count: number;
}

/**
 * Returns the most frequent words of a text.
 * @param text - The text to analyze.
 * @param limit - Maximum number of words to return.
 * @minimum 1
 * @readOnly
 */
export function count_words(text: string, limit = 5, context: ToolContext): WordCount[] {
  const words = text.toLowerCase().match(/[\\p{L}\\p{N}']+/gu) ?? [];
  context.log.info(\`\${words.length} words\`);
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts]
    .map(([word, count]) => ({ word, count }))
    .sort((one, other) => other.count - one.count || (one.word < other.word ? -1 : 1))
    .slice(0, limit);
}
`;

const tsconfig = {
  compilerOptions: {
    target: "es2022",
    lib: ["es2022"],
    module: "esnext",
    moduleResolution: "bundler",
    allowImportingTsExtensions: true,
    resolveJsonModule: true,
    types: [],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
  },
  include: ["**/*.ts"],
};

function readme(name: string, server: string): string {
  return `# ${name}

MCP servers for Berth. \`${MCPS_FILE}\` lists them. Each definition is a TypeScript module whose exported functions are
tools, or a shell script.

${origin()}

\`\`\`sh
berth dev        # serve them, and reload after each save
berth check      # report every problem with its line
berth serve      # serve them permanently; data is stored in ${DATA_FOLDER}
berth add zod    # add an npm package that definitions may import
\`\`\`

\`berth dev\` prints the command that adds a server to a client. While it runs, call a tool from another terminal:

\`\`\`sh
berth call ${server}.greet --name Ada
\`\`\`

\`${TYPES}\` and \`${SCHEMA}\` are copies from Berth, for editors. To update them, copy both again from the
folder \`reference_templates\` of Berth.
`;
}
