import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { readCompiled } from "../../src/image/compiled.ts";
import { readImage } from "../../src/image/read.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { call } from "../support/berth.ts";
import { berth, cli, type Ran } from "../support/commands.ts";
import { startDev } from "../support/dev-process.ts";
import { ServeProcess } from "../support/serve-process.ts";

const PRICES = `import Papa from "papaparse";
import { z } from "zod";

const Price = z.object({ item: z.string(), euros: z.number().describe("Without taxes.").optional() });

/** Reads prices. */
export function prices(csv: string): z.infer<typeof Price>[] {
  const { data } = Papa.parse(csv, { header: true, dynamicTyping: true, skipEmptyLines: true });
  return data.map((row) => Price.parse(row));
}

/** Adds prices. */
export function total(prices: z.infer<typeof Price>[]): number {
  return prices.reduce((sum, { euros = 0 }) => sum + euros, 0);
}
`;
const ISSUES = `import type { Endpoints } from "@octokit/types";

type Issue = Endpoints["GET /repos/{owner}/{repo}/issues/{issue_number}"]["response"]["data"];

/** Names an issue. */
export function name({ number, title, locked }: Pick<Issue, "number" | "title" | "locked">): string {
  return \`#\${number} \${title}\${locked ? " (locked)" : ""}\`;
}
`;
const DATES = `import { addDays } from "date-fns/addDays";
import { format } from "date-fns";

/** Says which day it will be. */
export function later(day: Date, days: number): string {
  return format(addDays(day, days), "yyyy-MM-dd");
}
`;
const NODE_24 = join(packageRoot, "test", "clients", "node_modules", ".bin", "node");

describe("an image with packages of the registry", () => {
  const folder = mkdtempSync(join(tmpdir(), "berth-packages-test-"));
  const [from, out] = [join(folder, "sources"), join(folder, "boot")];
  const nowhere = { npm_config_registry: "http://127.0.0.1:9/", npm_config_cache: join(folder, "empty-cache") };
  const boot = (options: readonly string[] = [], env = {}): Promise<Ran> =>
    berth(["boot", "--from", from, "--out", out, ...options], {
      env: { XDG_CACHE_HOME: join(folder, "cache"), ...env },
    });
  let made: Ran;

  before(async () => {
    const own = join(packageRoot, "test", "packages-image");
    mkdirSync(from);
    for (const file of ["package.json", "package-lock.json"]) cpSync(join(own, file), join(from, file));
    const definitions = { "prices.ts": PRICES, "issues.ts": ISSUES, "dates.ts": DATES };
    for (const [file, text] of Object.entries(definitions)) writeFileSync(join(from, file), text);
    const mcps = Object.keys(definitions).map((file) => [file.replace(".ts", ""), { definition: file }]);
    writeFileSync(join(from, "mcps.source.json"), JSON.stringify(Object.fromEntries(mcps)));
    const variables = [{ name: "mcps", definition: "GENERATED:mcps.json" }];
    for (const name of ["default", "readonly"]) {
      writeFileSync(join(from, `${name}.boot.source.json`), JSON.stringify({ servers: [], variables }));
    }
    made = await boot(["--strict"]);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  /** The tools that a file of the sources gives, by name. */
  const toolsOf = async (file: string) => {
    const image = await readImage(out, "default");
    const results = Object.values(image.manifest.derived).map((cid) => readCompiled(image.content(cid)));
    const tools = results.flatMap((result) => result.tools).filter((tool) => tool.file === file);
    return Object.fromEntries(tools.map((tool) => [tool.name, tool]));
  };

  test("has schemas made of their types: z.infer, and types that a package only declares", async () => {
    assert.equal(made.code, 0, made.stderr);
    const { prices, total } = await toolsOf("prices.ts");
    const price = {
      type: "object",
      properties: { item: { type: "string" }, euros: { type: "number" } },
      required: ["item"],
    };
    const items = (schema: unknown): JsonObject => (schema as { items: JsonObject }).items;
    const plain = ({ type, properties, required }: JsonObject): JsonObject =>
      ({ type, properties, required }) as JsonObject;
    assert.deepEqual(plain(items(prices!.outputSchema)), price);
    const { properties } = total!.inputSchema as { properties: { prices: JsonObject } };
    assert.deepEqual(plain(items(properties.prices)), price);

    const { name } = await toolsOf("issues.ts");
    const { properties: of, required } = name!.inputSchema as {
      properties: Record<string, JsonObject>;
      required: string[];
    };
    const types = ["number", "title", "locked"].map((field) => of[field]!["type"]);
    assert.deepEqual(types, ["number", "string", "boolean"]);
    assert.deepEqual(required, ["number", "title", "locked"]);
  });

  test("comes with the size of each bundle and what weighs in it; only what is used is in it", () => {
    assert.match(made.stderr, /^ {2}prices\.ts \d+ kB: zod 4\.1\.12 \d+ kB, papaparse 5\.5\.3 \d+ kB$/m);
    assert.match(made.stderr, /^ {2}dates\.ts \d+ kB: date-fns 4\.1\.0 \d+ kB$/m);
    assert.doesNotMatch(made.stderr, /^ {2}issues\.ts/m, "types weigh nothing");
    const [, kilobytes] = /dates\.ts (\d+) kB/.exec(made.stderr)!;
    assert.ok(Number(kilobytes) < 100, "two functions out of hundreds");
  });

  test("is the same byte for byte on another Node, and without any registry", async () => {
    const args = [cli, "boot", "--check", "--json", "--from", from, "--out", out];
    const { stdout } = await new Promise<{ stdout: string }>((resolve, reject) => {
      const env = { ...process.env, ...nowhere };
      execFile(NODE_24, args, { env, maxBuffer: 64 * 1024 * 1024 }, (error, said, stderr) => {
        if (said === "") reject(new Error(`${error?.message}: ${stderr}`));
        else resolve({ stdout: said });
      });
    });
    const { status, differences, problems } = JSON.parse(stdout);
    assert.deepEqual({ status, differences, problems }, { status: "unchanged", differences: [], problems: [] });
  });

  test("is confirmed at once, and says which package cannot be fetched where it would have to be", async () => {
    const again = await boot(["--json"], nowhere);
    assert.equal(JSON.parse(again.stdout).status, "unchanged");
    const elsewhere = join(folder, "elsewhere");
    const refused = await berth(["boot", "--from", from, "--out", elsewhere], {
      env: { ...nowhere, npm_config_fetch_retries: "0" },
    });
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /package-lock\.json.*error: The packages could not be fetched/);
  });

  test("is served read-only, by bundles alone", async (t) => {
    const serving = await ServeProcess.start(
      ["--image", out, "--readonly", "--port", "0", "--data", join(folder, "data")],
      { ...nowhere },
    );
    t.after(() => serving.end("SIGTERM"));
    const prices = await call(`${serving.url}/mcp/prices`, "prices", { csv: "item,euros\nbread,2.5\nwater,1\n" });
    assert.deepEqual(prices.structuredContent, {
      result: [
        { item: "bread", euros: 2.5 },
        { item: "water", euros: 1 },
      ],
    });
    const later = await call(`${serving.url}/mcp/dates`, "later", { day: "2026-02-27T12:00:00Z", days: 3 });
    assert.equal(later.content[0].text, "2026-03-02");
  });
});

test("berth add zod, an import, berth dev, and a call take less than a minute", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "berth-packages-test-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const begun = performance.now();
  const { code, stderr } = await berth(["add", "zod"], { cwd: folder });
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^Added zod 4\.\d+\.\d+ to \. \(1 package more\)\.\n {2}zod has types of its own\.$/m);
  const text =
    'import { z } from "zod";\nconst Pair = z.object({ a: z.number(), b: z.number() });\n' +
    "export function add(pair: z.infer<typeof Pair>): number {\n  const { a, b } = Pair.parse(pair);\n  return a + b;\n}\n";
  const dev = await startDev(t, { "sums.ts": text }, ["sums.ts"], { folder });
  const { content } = await call(`${dev.url}/mcp/sums`, "add", { pair: { a: 1, b: 2 } });
  assert.equal(content[0].text, "3");
  const seconds = (performance.now() - begun) / 1000;
  // Others may keep the machine busy: then it took so much longer.
  const share = Math.max(1, loadavg()[0]! / availableParallelism());
  assert.ok(seconds < 60 * share, `${seconds} s`);
  assert.match(readFileSync(join(folder, "package.json"), "utf8"), /"zod": "\^?4/);

  // An editor sees the same types, with the files that stand beside the definitions.
  const templates = join(packageRoot, "reference_templates");
  for (const file of ["tsconfig.json", "berth.d.ts"]) cpSync(join(templates, file), join(folder, file));
  const wrong = text.replace("number {", "string {");
  writeFileSync(join(folder, "wrong.ts"), wrong);
  const tsc = spawnSync(
    process.execPath,
    [join(packageRoot, "node_modules", "typescript", "bin", "tsc"), "-p", folder],
    {
      encoding: "utf8",
    },
  );
  assert.match(tsc.stdout, /^\S*wrong\.ts\(5,3\): error TS2322: Type 'number' is not assignable to type 'string'\.\n$/);
});
