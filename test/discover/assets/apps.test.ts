import assert from "node:assert/strict";
import { test } from "node:test";
import { gatherDefinition } from "../../../src/discover/gather.ts";
import { packCompiled, readCompiled } from "../../../src/image/compiled.ts";
import { rawBlock } from "../../../src/lib/cid.ts";
import { found } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";
import { folderWith } from "../../support/suite.ts";

const CHART = '<!doctype html>\n<!-- ui {"prefersBorder": true} -->\n<p>chart</p>';

function faults(text: string, more: Record<string, string> = {}): string[] {
  return found(text, more).problems.map(({ code, line, message }) => `${code} ${line}: ${message}`);
}

test("@ui names the HTML file that shows a tool's results, and the callers of the tool", () => {
  const { tools, apps, problems } = found(
    `
    /** Draws. @ui chart.html */
    export function draw(points: number[]) { return points; }
    /**
     * Draws again.
     * @ui ./chart.html app
     */
    export function refresh() { return [1]; }
    /** @ui app */
    export function forget() {}
    /** @ui chart.html model, app */
    export function both() {}
    `.replace("/** Draws. @ui", "/**\n * Draws.\n * @ui"),
    { "chart.html": CHART },
  );
  assert.deepEqual(problems, []);
  const uri = "ui://demo/chart.html";
  assert.deepEqual(
    tools.map(({ name, ui }) => [name, ui]),
    [
      ["draw", { uri }],
      ["refresh", { uri, visibility: ["app"] }],
      ["forget", { visibility: ["app"] }],
      ["both", { uri }],
    ],
  );
  assert.equal(apps?.length, 1);
  const [app] = apps;
  assert.deepEqual([app!.uri, app!.file, app!.ui], [uri, "chart.html", { prefersBorder: true }]);
});

test("an app is stored with the CID of its file, and of what clients read, which changes with its wishes", () => {
  const appOf = (html: string) => {
    const files = { "a.html": html };
    const { result } = packCompiled(found("/** @ui a.html */\nexport function f() {}", files), files);
    return readCompiled(result.bytes).apps![0]!;
  };
  const texts = ["<p>1</p>", "<p>2</p>", "<!-- ui {} --><p>1</p>"];
  assert.equal(new Set(texts.map((text) => appOf(text).digest)).size, 3);
  assert.equal(appOf(texts[0]!).digest, appOf(texts[0]!).digest);
  assert.equal(appOf(texts[0]!).content, rawBlock(texts[0]!).cid);
});

test("what is wrong with @ui is said where it stands, and leaves the tool out", () => {
  const on = (tag: string) => `/**\n * Draws.\n * @ui ${tag}\n */\nexport function f() {}`;
  for (const [tag, fault] of [
    ["gone.html", "missing-file 3: f: @ui gone.html is not a file of the definition; put it next to this one"],
    ["../../up.html", "missing-file 3: f: @ui ../../up.html is not a file of the definition; put it next to this one"],
    ["", "missing-file 3: f: @ui needs the HTML file that shows the results of the tool: @ui chart.html"],
    ["a.html models", 'unknown-ui-word 3: f: @ui takes an HTML file, model and app, not "models"'],
  ] as const)
    assert.deepEqual(faults(on(tag), { "a.html": "" }), [fault]);
  for (const [wishes, message] of [
    ["{csp}", 'the comment "ui" is not JSON'],
    ["[]", 'the comment "ui" must be an object, such as {"prefersBorder": true}'],
    [
      '{"border": true}',
      'the comment "ui" has no field "border"; its fields are csp, permissions, prefersBorder, domain',
    ],
    [
      '{"csp": {"connect": []}}',
      '"csp" must contain lists of origins: connectDomains, resourceDomains, frameDomains, baseUriDomains',
    ],
    ['{"permissions": ["camera"]}', '"permissions" must be an object such as {"camera": {}}'],
    ['{"prefersBorder": "yes"}', '"prefersBorder" must be true or false'],
  ]) {
    const html = { "a.html": `<!doctype html>\n<!-- ui ${wishes} -->` };
    assert.deepEqual(faults(on("a.html"), html), [`invalid-ui 3: f: a.html, line 2: ${message}`]);
  }
});

test("the files that @ui names are gathered with a definition, from comments alone", async () => {
  const files = (text: string) => folderWith({ "chart.html": CHART, "tool.ts": text });
  const root = files(`
    // @ui no-doc-comment.html
    const text = "@ui in-a-text.html";
    /**
     * Draws. Not a tag: @ui in-words.html
     * @ui chart.html app
     */
    export function draw() { return text; }
  `);
  assert.deepEqual(Object.keys((await gatherDefinition(root, "tool.ts")).files), ["chart.html", "tool.ts"]);
  const { problems } = await gatherDefinition(files("/** @ui gone.html */\nexport function f() {}"), "tool.ts");
  assert.deepEqual(rows(problems, "code", "message", "line", "column"), [
    'missing-file "gone.html" names no file (looked for gone.html). 1 9',
  ]);
});

test("@ui and @icon are about the function wherever they stand, also after a @param", () => {
  const text = `
    /**
     * Draws.
     * @param points - What.
     * @minItems 2
     * @icon https://example.org/chart.svg
     * @ui chart.html
     */
    export function draw(points: number[]) { return points; }
  `;
  const { tools, problems } = found(text, { "chart.html": CHART });
  assert.deepEqual(problems, []);
  assert.deepEqual(
    [tools[0]!.ui, tools[0]!.icons],
    [{ uri: "ui://demo/chart.html" }, [{ src: "https://example.org/chart.svg", mimeType: "image/svg+xml" }]],
  );
});
