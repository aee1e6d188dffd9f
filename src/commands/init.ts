import { existsSync, mkdirSync, realpathSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { packageVersion } from "../config.ts";
import { shellWord } from "../http/pages/parts/text.ts";
import { listOfServers, MCPS_FILE, PACKAGE_JSON } from "../image/image.ts";
import { DATA_FOLDER } from "../lib/data-folder.ts";
import { BerthError } from "../lib/errors.ts";
import { faultOfPlace, shownFolder } from "./own-folder.ts";

/** Where an installed Berth has the JSON Schema of the list of servers. */
const SCHEMA = "./node_modules/berth-mcp/reference_templates/mcps.schema.json";
const WORKFLOW = ".github/workflows/check.yml";

/**
 * `berth init [DIR]`: makes a folder that is anyone's git repository: a list of servers, one definition, and what npm, git,
 * editors and CI want. What is there already stays as it is. Throws `config_invalid` for a folder that has such a list.
 */
export async function init(path = "."): Promise<number> {
  const folder = resolve(path);
  refuseUnfit(folder, path);
  mkdirSync(folder, { recursive: true });
  const server = ["hello", "hello-berth", "berth-hello"].find((name) => !existsSync(join(folder, `${name}.ts`)));
  if (server === undefined)
    throw new BerthError("config_invalid", `${path} has a hello.ts and the like: choose another folder`);
  const root = repositoryAbove(folder);
  const left: string[] = [];
  say(`Made in ${shownFolder(folder)}:`);
  for (const [name, { about, text }] of Object.entries(filesOf(folder, server))) {
    if (name === WORKFLOW && root !== undefined) continue;
    if (write(folder, name, text)) say(`  ${name.padEnd(WORKFLOW.length)}  ${about}`);
    else left.push(name);
  }
  if (left.length > 0) say(`Left as they were: ${left.join(", ")}`);
  if (root !== undefined) say(`No ${WORKFLOW}: GitHub reads workflows at the root of the repository, ${root}`);
  const isNew = !left.includes(PACKAGE_JSON);
  const install = isNew ? "npm install" : `npm install --save-dev --save-exact berth-mcp@${packageVersion()}`;
  const steps = [
    ...(folder === process.cwd() ? [] : [`cd ${shellWord(relative(process.cwd(), folder))}`]),
    install,
    "npx berth-mcp dev",
  ];
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
    : listOfServers((name) => existsSync(join(folder, name)));
  if (list === undefined) return;
  const dir = path === "." ? "" : ` ${path}`;
  refuse(
    `${shownFolder(folder)} has an ${list}, which lists its servers: add yours there, and run \`npx berth-mcp dev${dir}\``,
  );
}

/** The root of the git repository that a folder is inside of, unless it is the root itself. */
function repositoryAbove(folder: string): string | undefined {
  if (existsSync(join(folder, ".git"))) return undefined;
  for (let above = dirname(folder); ; above = dirname(above)) {
    if (existsSync(join(above, ".git"))) return above;
    if (above === dirname(above)) return undefined;
  }
}

/** False where a file of the name is, or a link leads out of the folder. */
function write(folder: string, name: string, text: string): boolean {
  const file = join(folder, name);
  try {
    mkdirSync(dirname(file), { recursive: true });
    const [root, place] = [realpathSync(folder), realpathSync(dirname(file))];
    if (place !== root && !place.startsWith(root + sep)) return false;
    writeFileSync(file, text, { flag: "wx" });
    return true;
  } catch (error) {
    if (["EEXIST", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  }
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

interface NewFile {
  /** A few words for whoever reads the list of files. */
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
      about: "lists the servers: add yours here",
      text: prettyPrinted({
        $schema: SCHEMA,
        [server]: { description: "Greets, and counts words", definition: `${server}.ts` },
      }),
    },
    [`${server}.ts`]: { about: `the definition of the server "${server}"`, text: definition },
    [PACKAGE_JSON]: {
      about: "Berth at this version, and packages that you add",
      text: prettyPrinted({
        name: name || "my-servers",
        private: true,
        type: "module",
        scripts: { dev: "berth dev", start: "berth serve", check: "berth check --strict" },
        devDependencies: { "berth-mcp": packageVersion() },
        // npm asks for leave to run the scripts of packages: these two fetch programs for this machine.
        allowScripts: { "better-sqlite3": true, esbuild: true },
      }),
    },
    "tsconfig.json": { about: "for your editor", text: prettyPrinted(tsconfig) },
    "berth.d.ts": { about: 'types: of the module "berth", and of what definitions find around them', text: types },
    ".gitignore": { about: "what git leaves out", text: `node_modules/\n${DATA_FOLDER}/\n.env\n` },
    [WORKFLOW]: { about: "checks each push on GitHub", text: workflow },
    "README.md": { about: "what to run", text: readme(name || "my-servers", server) },
  };
}

/** As a person would write it: keys in their order. */
function prettyPrinted(value: object): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}

const definition = `import type { ToolContext } from "berth";

/**
 * Greets somebody.
 * @param name - Whom to greet.
 * @param times - How often.
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
 * Counts the words of a text, and returns the most frequent ones.
 * @param text - The text to count.
 * @param limit - How many words to return at most.
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

const types = `/// <reference types="berth-mcp/definitions" />
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

const workflow = `name: Check
on: [push, pull_request]
permissions:
  contents: read
jobs:
  check:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
        with:
          node-version: 22
          cache: npm
      - run: npm ci
      - run: npx berth-mcp check --strict
`;

function readme(name: string, server: string): string {
  return `# ${name}

MCP servers that [Berth](https://www.npmjs.com/package/berth-mcp) hosts. \`${MCPS_FILE}\` lists them, and each definition is a
TypeScript module whose exported functions are tools, or a shell script.

\`\`\`sh
npm install              # once; commit package-lock.json
npx berth-mcp dev        # serve them, and again whenever you save
npx berth-mcp check      # every problem, with its line
npx berth-mcp serve      # serve them for good; data is kept in ${DATA_FOLDER}
npx berth-mcp add zod    # add an npm package that definitions may import
\`\`\`

\`npx berth-mcp dev\` prints what to add to a client. To call a tool at once:

\`\`\`sh
npx berth-mcp call ${server}.greet --name Ada
\`\`\`
`;
}
