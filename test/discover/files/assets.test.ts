import assert from "node:assert/strict";
import { test } from "node:test";
import { bundleDefinition } from "../../../src/discover/bundle/bundle.ts";
import { selectLoader } from "../../../src/discover/files/resolve.ts";
import { gatherDefinition } from "../../../src/discover/gather.ts";
import { discover } from "../../../src/discover/typescript/discover.ts";
import { openProgram } from "../../../src/discover/typescript/program.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { importBundle } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";
import { folderWith } from "../../support/suite.ts";

/** The bytes of the shortest module that exports a function, and a byte that is no UTF-8. */
const PIXEL = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0xff, 0x00]);
const CSV = 'name,price\n"a ""b""",1\n//# sourceMappingURL=file:///etc/passwd\n${x} `\\n';

const SOURCE = `
import prices from "./data/prices.csv";
import query from "./query.sql" with { type: "text" };
import pixel from "./pixel.png" with { type: "bytes" };
/** The prices. */
export function table(): string { return prices; }
export function sql(): string { return query; }
export function bytes(): number[] { return [...pixel]; }
`;

const all = { "a.ts": SOURCE, "data/prices.csv": CSV, "query.sql": "select 1", "pixel.png": PIXEL };

test("files beside a definition are its own, and import as text or bytes", async () => {
  const root = folderWith({ ...all, "unused.csv": "1" });
  const { files, problems } = await gatherDefinition(root, "a.ts");
  assert.deepEqual(problems, []);
  assert.deepEqual(Object.keys(files), ["a.ts", "data/prices.csv", "pixel.png", "query.sql"]);
  assert.equal(files["pixel.png"], PIXEL.toString("base64"));

  const source = { language: "typescript", server: "a", entry: "a.ts", files } as const;
  const { tools, problems: found } = discover(source);
  assert.deepEqual(found, []);
  assert.deepEqual(tools.map(({ name }) => name).sort(), ["bytes", "sql", "table"]);

  const { bundle, problems: bundling } = await bundleDefinition(source);
  assert.deepEqual(bundling, []);
  const { table, sql, bytes } = await importBundle(bundle!);
  assert.deepEqual([table(), sql(), bytes()], [CSV, "select 1", [...PIXEL]]);
  const map = Buffer.from(/base64,(\S+)\s*$/.exec(bundle!)![1]!, "base64").toString();
  assert.ok(!map.includes("select 1"), "its source map holds no asset a second time");
});

test("a byte-order mark stays in the file, and is left out of the text", async () => {
  const root = folderWith({
    "a.ts": 'import t from "./t.csv";\nexport const text = (): string => t;',
    "t.csv": "\uFEFFa,b",
  });
  const { files } = await gatherDefinition(root, "a.ts");
  assert.equal(files["t.csv"], "\uFEFFa,b");
  const { bundle } = await bundleDefinition({ language: "typescript", server: "a", entry: "a.ts", files });
  assert.equal((await importBundle(bundle!))["text"](), "a,b");
});

test("their limits are those of all files of a definition, counted in bytes", async () => {
  const root = folderWith({ ...all, "pixel.png": Buffer.alloc(900) });
  const small = { ...defaultLimits, sourceFileBytes: 800 };
  const { problems } = await gatherDefinition(root, "a.ts", small);
  const reported = problems.map(({ code, message }) => [code, /"pixel\.png" has 900 bytes/.test(message)]);
  assert.deepEqual(reported, [["too-large", true]]);
  assert.deepEqual((await gatherDefinition(root, "a.ts", { ...small, sourceFileBytes: 900 })).problems, []);
});

test("every kind that can be imported has a type", () => {
  const endings = ".css .csv .graphql .hbs .htm .html .ini .jsonl .md .sql .svg .toml .tsv .txt .xml .xsd .yaml .yml";
  const byteEndings =
    ".bin .bmp .db .docx .gif .gz .ico .jpeg .jpg .mp3 .otf .parquet .pdf .png .sqlite .ttf .wasm .wav .webp .woff .woff2 .xlsx .zip";
  const lines: string[] = [];
  const files: Record<string, string> = {};
  for (const [all, loader, type] of [
    [endings, "text", "string"],
    [byteEndings, "bytes", "Uint8Array"],
  ] as const) {
    for (const ending of all.split(" ")) {
      assert.equal(selectLoader(`x${ending}`), loader, ending);
      lines.push(
        `import a${lines.length} from "./x${ending}"; export const b${lines.length}: ${type} = a${lines.length};`,
      );
      files[`x${ending}`] = "";
    }
  }
  const { program, entry } = openProgram({
    language: "typescript",
    server: "a",
    entry: "a.ts",
    files: { "a.ts": lines.join("\n"), ...files },
  });
  assert.deepEqual(rows(program.getSemanticDiagnostics(entry), "messageText"), []);
});
