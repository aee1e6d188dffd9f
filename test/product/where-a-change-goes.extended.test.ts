import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { apiOf } from "../support/api.ts";
import { compileCopy, copyProject, run, serveCopy } from "../support/compiled-copy.ts";
import { inSuite, temporaryFolder } from "../support/suite.ts";

/** A new file with its source, or a text to insert after the first match of a pattern. */
type Change = string | { readonly after: RegExp; readonly insert: string };

interface Project {
  readonly folder: string;
  readonly url: string;
  readonly cli: (...words: string[]) => Promise<string>;
}

interface Trial {
  readonly changes: Readonly<Record<string, Change>>;
  readonly works: (project: Project) => Promise<void>;
}

const API_ROUTE = `import { Router } from "express";
import { BerthError } from "../../lib/errors.ts";
import { reading } from "../access/permit.ts";
import { addRoute } from "./add-route.ts";

export function teapotRoutes(): Router {
  const router = Router();
  const everyone = reading(() => "teapot");
  addRoute(router, "/", { read: everyone, write: everyone }, { get: ({ response }) => void response.json({ tea: true }) });
  addRoute(router, "/coffee", { read: everyone, write: everyone }, { get: () => { throw new BerthError("teapot", "coffee"); } });
  return router;
}
`;

/** By the first cell of a row. */
const trials: Readonly<Record<string, Trial>> = {
  "a feature": {
    changes: {
      "src/features/greetings/feature.ts": `import type { Feature } from "../feature.ts";

export const greetingsFeature: Feature = {
  name: "greetings",
  commands: (program) => void program.command("greet").action(() => console.log("good morning")),
  open: async () => ({}),
};
`,
      "src/compose/features.ts": { after: /\[\n/, insert: "  greetingsFeature,\n" },
    },
    works: async ({ cli }) => assert.equal(await cli("greet"), "good morning\n"),
  },
  "a tab of a server": {
    changes: {
      "src/http/pages/server-tabs/notes.ts": `import type { ServerTab } from "./tab.ts";

export const notesTab: ServerTab = {
  id: "notes",
  label: "Notes",
  isFor: () => true,
  view: async ({ name }) => ({ subject: name }),
};
`,
      "views/partials/tab-notes.hbs": "<p>Notes about {{subject}}</p>\n",
      "src/http/pages/meta.ts": { after: /TABS: readonly ServerTab\[\] = \[/, insert: "notesTab, " },
    },
    works: async ({ url }) => assert.match(await page(`${url}/mcp/meta/echo?tab=notes`), /Notes about echo/),
  },
  "a page": {
    changes: {
      "src/http/pages/garden.ts": `import type { PageRoute } from "../routed.ts";
import type { Pages } from "./pages.ts";

export const gardenPage: PageRoute<{ readonly pages: Pages }> = {
  path: "/garden",
  create: ({ pages }) => (context) => pages.send(context, "garden", { title: "Garden", section: "garden" }),
};
`,
      "views/pages/garden.hbs": "<h1>{{title}}</h1>\n",
      "src/http/app.ts": { after: /const allPages = \[\n/, insert: "  gardenPage,\n" },
      "src/http/pages/pages.ts": {
        after: /SECTIONS: readonly Section\[\] = \[\n/,
        insert: '  { section: "garden", label: "Garden", href: "/garden", isShown: () => true },\n',
      },
    },
    works: async ({ url }) => {
      assert.match(await page(`${url}/garden`), /<h1>Garden<\/h1>/);
      assert.match(await page(`${url}/mcp`), /href="\/garden"/);
    },
  },
  "a route of the JSON API": {
    changes: {
      "src/http/api/teapot.ts": API_ROUTE,
      "src/http/api/api.ts": { after: /\.\.\.subjects\.map[^\n]*\n/, insert: '    ["/teapot", teapotRoutes()],\n' },
      "docs/api.md": "",
    },
    works: async (berth) => assert.deepEqual((await apiOf(berth).send("GET", "/teapot")).body, { tea: true }),
  },
  "an error": {
    changes: {
      "src/lib/errors.ts": {
        after: /export const errors = \{\n/,
        insert: '  teapot: { status: 418, rpc: -32603, message: "This is a teapot" },\n',
      },
    },
    works: async (berth) => {
      const { status, body } = await apiOf(berth).send("GET", "/teapot/coffee");
      assert.equal(status, 418);
      assert.match(JSON.stringify(body), /This is a teapot/);
    },
  },
  "a limit": {
    changes: {
      "src/limits/limits.ts": {
        after: /const requestLimits = \{\n/,
        insert: "  /** Cups of tea at the same time. Raise it for guests. */\n  cupsOfTea: 4,\n",
      },
    },
    works: async ({ folder }) => {
      await run(process.execPath, ["scripts/check-reference.mjs", "--write"], { cwd: folder });
      assert.match(readFileSync(join(folder, "docs/settings.md"), "utf8"), /BERTH_CUPS_OF_TEA.*Cups of tea/);
    },
  },
  "a command": {
    changes: {
      "src/commands/brew.ts":
        'export async function brew(): Promise<number> {\n  console.log("tea");\n  return 0;\n}\n',
      "src/cli.ts": {
        after: /(?=\nprogram\n {2}\.command\("serve"\))/,
        insert:
          '\nprogram.command("brew").action(async () => run(import("./commands/brew.ts").then(({ brew }) => brew())));\n',
      },
    },
    works: async ({ cli }) => assert.equal(await cli("brew"), "tea\n"),
  },
  "a tag of definitions": {
    changes: {
      "src/discover/tags/tags.ts": {
        after: /(?=\n {2}title: )/,
        insert: '\n  flavor: { at: everywhere, form: "mint", help: "The flavor for people." },',
      },
    },
    works: async ({ cli, folder }) => {
      const file = join(folder, "tea.ts");
      writeFileSync(
        file,
        '/**\n * Brews tea.\n * @flavor mint\n */\nexport function brew(): string {\n  return "tea";\n}\n',
      );
      assert.doesNotMatch(await cli("discover", file), /flavor/);
      await run(process.execPath, ["scripts/check-reference.mjs", "--write"], { cwd: folder });
      assert.match(readFileSync(join(folder, "reference_templates/README.md"), "utf8"), /@flavor mint/);
    },
  },
  "a field of an entry": {
    changes: {
      "src/entry/entry-fields.ts": {
        after: /export const entryFields = \{\n/,
        insert:
          '  /** How strong the tea is. */\n  strength: { type: "text", form: { label: "Strength", control: "text" } },\n',
      },
    },
    works: async (berth) => {
      const api = apiOf(berth);
      const { files } = (await api.send("GET", "/entries/echo")).body;
      const entry = JSON.stringify({ ...JSON.parse(Object.values<string>(files)[0]!), strength: "strong" });
      const { status, body } = await api.put("/entries/echo", entry);
      assert.equal(status, 200, JSON.stringify(body));
      assert.match(await page(`${berth.url}/mcp/meta/echo?tab=settings`), /Strength/);
    },
  },
  "another store": {
    changes: {},
    // Only these files name a kind of store.
    works: async () => {
      const importers = files(join(packageRoot, "src")).filter(
        (file) =>
          !/^store\/(?:sqlite|postgres)\//.test(file) &&
          /from "[^"]*\/(?:sqlite|postgres)\//.test(readFileSync(join(packageRoot, "src", file), "utf8")),
      );
      assert.deepEqual(importers, ["store/open-store.ts"]);
    },
  },
};

/** The imports that the inserted lines need. */
const IMPORTS: Readonly<Record<string, string>> = {
  "src/compose/features.ts": 'import { greetingsFeature } from "../features/greetings/feature.ts";\n',
  "src/http/pages/meta.ts": 'import { notesTab } from "./server-tabs/notes.ts";\n',
  "src/http/app.ts": 'import { gardenPage } from "./pages/garden.ts";\n',
  "src/http/api/api.ts": 'import { teapotRoutes } from "./teapot.ts";\n',
};

function files(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => /\.m?ts$/.test(file));
}

async function page(url: string): Promise<string> {
  const response = await fetch(url, { headers: { Accept: "text/html" } });
  assert.equal(response.status, 200, url);
  return response.text();
}

/** The rows of a table of src/README.md: the first cell, and the paths in code that the second one names. */
function rows(): ReadonlyMap<string, readonly string[]> {
  const [, table] = readFileSync(join(packageRoot, "src/README.md"), "utf8").split("## Where a change goes\n");
  const lines = table!.split("\n## ")[0]!.split("\n");
  const cells = lines.filter((line) => line.startsWith("| ")).map((line) => line.split("|").map((cell) => cell.trim()));
  return new Map(
    cells
      .slice(2)
      .map(([, change, where]) => [change!, [...where!.matchAll(/`([^`\s]+)`/g)].map(([, path]) => path!)] as const),
  );
}

describe("the table of places for changes", () => {
  const folder = temporaryFolder();
  const berth = inSuite(async () => {
    const parts = ["src", "scripts", "views", "docs", "reference_templates", "boot", "dist/browser"];
    copyProject(folder, ...parts, "package.json", "tsconfig.json", "README.md", ".oxfmtrc.json");
    for (const { changes } of Object.values(trials))
      for (const [path, change] of Object.entries(changes)) apply(path, change);
    await compileCopy(folder);
    await run(process.execPath, ["scripts/compile-views.mjs"], { cwd: folder });
    return serveCopy(folder);
  });

  function apply(path: string, change: Change): void {
    const file = join(folder, path);
    if (typeof change === "string") {
      mkdirSync(dirname(file), { recursive: true });
      return writeFileSync(file, change, { flag: change === "" ? "a" : "wx" });
    }
    const text = readFileSync(file, "utf8");
    assert.match(text, change.after, path);
    writeFileSync(file, (IMPORTS[path] ?? "") + text.replace(change.after, (match) => match + change.insert));
  }

  const table = rows();

  it("has a trial for each row", () => assert.deepEqual([...table.keys()].toSorted(), Object.keys(trials).toSorted()));

  for (const [change, { changes, works }] of Object.entries(trials)) {
    it(`names every file to change for ${change}`, async () => {
      const named = table.get(change)!;
      for (const path of Object.keys(changes)) {
        const pattern = named.some((each) => path.startsWith(each.replace(/<[^>]*>.*$/, "")));
        assert.ok(pattern, `${path} is not among ${named.join(", ")}`);
      }
      const cli = async (...words: string[]): Promise<string> =>
        (await run(process.execPath, [join(folder, "dist/src/cli.js"), ...words])).stdout;
      await works({ folder, url: berth.url, cli });
    });
  }
});
