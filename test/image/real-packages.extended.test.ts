import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { readCompiled } from "../../src/image/compiled.ts";
import { readImage } from "../../src/image/read.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { berth, cli, type Ran } from "../support/commands.ts";

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
});
