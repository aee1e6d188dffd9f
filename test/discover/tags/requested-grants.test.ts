import assert from "node:assert/strict";
import { test } from "node:test";
import type { Discovery } from "../../../src/discover/discovery.ts";
import { discoverShell } from "../../../src/discover/shell/shell.ts";
import { packCompiled, readCompiled } from "../../../src/image/compiled.ts";
import { found } from "../../support/discovered.ts";

const script = (text: string): Discovery =>
  discoverShell({ language: "shell", server: "demo", entry: "demo.sh", files: { "demo.sh": text } });
const requests = ({ requested = [] }: Discovery): string[] =>
  requested.map(({ field, value, purpose = "", file, line, column }) =>
    [field, value, purpose, `${file}:${line}:${column}`].filter(Boolean).join(" "),
  );
const faults = ({ problems }: Discovery): string[] =>
  problems.map(({ severity, code, line, column, message }) => `${severity} ${code} ${line}:${column} ${message}`);

test("a module requests secrets and hosts in the comment at its head, each with a purpose", () => {
  const discovery = found(
    [
      "/**",
      " * Issues of a repository.",
      " * @secret GITHUB_TOKEN - to read",
      " *   private issues",
      " * @network api.github.com",
      " * @network redis://cache",
      " */",
      'import type { ToolContext } from "berth";',
      "/** Lists. */",
      "export function list(): void {}",
    ].join("\n"),
  );
  assert.deepEqual(discovery.problems, []);
  assert.deepEqual(requests(discovery), [
    "secrets GITHUB_TOKEN to read private issues demo.ts:3:4",
    "network api.github.com demo.ts:5:4",
    "network redis://cache demo.ts:6:4",
  ]);
  assert.equal(discovery.tools[0]?.description, "Lists.");
});

test("a function that is exported requests in its own comment, wherever among its tags, and each grant counts once", () => {
  const discovery = found(`
    /** @secret A_TOKEN */

    /**
     * Lists.
     * @param name - Whose.
     * @network db.example.org:5432 the database
     * @secret A_TOKEN once more
     */
    export function list(name: string): void {}
    /** @secret UNSEEN_TOKEN */
    function hidden(): void {}
    /** Tells. */
    export const tell = (): void => hidden();
  `);
  assert.deepEqual(faults(discovery), [
    "warning unread-tag 11:9 @secret is only read at the head of a file and on exported functions; move it there",
  ]);
  assert.deepEqual(requests(discovery), [
    "secrets A_TOKEN demo.ts:2:9",
    "network db.example.org:5432 the database demo.ts:7:8",
  ]);
  const [list] = discovery.tools;
  assert.equal(list?.description, "Lists.");
  assert.deepEqual(list.inputSchema["properties"], { name: { type: "string", description: "Whose." } });
});

test("a comment with requests that a blank line keeps apart is about the file, and not about the first function", () => {
  const { tools } = found("/**\n * All of it.\n * @network api.example.org\n */\n\nexport function list(): void {}\n");
  assert.equal(tools[0]?.description, undefined);
});

test("all files of a definition request, and no package does", () => {
  const discovery = found('export { list } from "./list.ts";\nimport "./db.ts";\n', {
    "list.ts": "/** Lists. */\nexport function list(): void {}\n",
    "db.ts": "/** @network db.example.org:5432 */\nexport const db = 1;\n",
  });
  assert.deepEqual(requests(discovery), ["network db.example.org:5432 db.ts:1:5"]);
});

test("a script requests in its header, before and after its parameters", () => {
  const discovery = script(
    "#!/bin/sh\n# Lists.\n# @secret API_TOKEN to list\n# @param {string} name - Whose.\n# @maxLength 5\n# @network api.example.org\n",
  );
  assert.deepEqual(discovery.problems, []);
  assert.deepEqual(requests(discovery), [
    "secrets API_TOKEN to list demo.sh:3:3",
    "network api.example.org demo.sh:6:3",
  ]);
});

test("a name that no secret and no host can have is an error at its place, and the tools stay", () => {
  const wrong = found(
    "/**\n * @secret my-token\n * @network https://a.example/b\n * @secret\n */\nexport function f(): void {}\n",
  );
  const shown = faults(wrong).map((fault) => fault.replace(/(?<=: use|: write) .*/, ""));
  assert.deepEqual(shown, [
    'error invalid-secret 2:12 In @secret, "my-token" cannot be its name: use',
    'error invalid-network 3:13 In @network, "https://a.example/b" is not a host: write',
    "error invalid-secret 4:4 @secret needs the name of a secret, as in @secret API_TOKEN",
  ]);
  assert.deepEqual([wrong.tools.length, wrong.requested], [1, undefined]);
  const shell = script("#!/bin/sh\n# @secret PATH\n# @noArgs\n");
  assert.match(faults(shell)[0]!, /^error invalid-secret 2:11 demo: In @secret, "PATH" cannot be its name, since/);
  assert.equal(shell.tools.length, 1);
});

test("a misspelt tag is told with the one that was meant, and so is a tag where nobody reads it", () => {
  assert.deepEqual(
    faults(found("/** @secrets A_TOKEN */\nimport 'x';\n/** @netwrok a.example */\nexport function f(): void {}\n"))
      .filter((fault) => fault.includes("unknown-tag"))
      .map((fault) => fault.replace(/.*\d /, "")),
    [
      "f: Berth does not know the tag @netwrok and ignores it; did you mean @network?",
      "Berth does not know the tag @secrets and ignores it; did you mean @secret?",
    ],
  );
  assert.match(faults(script("#!/bin/sh\n# @secrets A_TOKEN\n"))[0]!, /did you mean @secret\?/);
  assert.deepEqual(faults(found("// @secret A_TOKEN\nexport function f(): void {}\n")), [
    "warning unread-tag 1:4 @secret is only read in a comment that begins with /**; write /** @secret … */",
  ]);
});

test("a definition requests a hundred grants, each with a purpose of some words", () => {
  const many = Array.from({ length: 101 }, (_, index) => ` * @secret T_${index} ${"x".repeat(300)}`).join("\n");
  const discovery = found(`/**\n${many}\n */\nexport function f(): void {}\n`);
  assert.deepEqual([discovery.requested?.length, discovery.requested?.[0]?.purpose?.length], [100, 201]);
  assert.match(faults(discovery)[0]!, /^error too-many-requests 102:4 A definition may request at most 100/);
});

test("what is compiled has the form of before where nothing is requested, and requests of another form are refused", () => {
  const plain = packCompiled(found("export function f(): void {}\n"));
  assert.deepEqual(Object.keys(JSON.parse(new TextDecoder().decode(plain.result.bytes))), [
    "tools",
    "resources",
    "prompts",
    "completions",
    "problems",
    "bundle",
  ]);
  const { result } = packCompiled(found("/** @secret A_TOKEN */\nexport function f(): void {}\n"));
  const read = readCompiled(result.bytes);
  assert.equal(read.requested?.[0]?.value, "A_TOKEN");
  for (const requested of [{}, [1], [{ ...read.requested[0], field: "folders" }], [{ field: "secrets", value: 1 }]]) {
    const bytes = new TextEncoder().encode(JSON.stringify({ ...read, requested }));
    assert.throws(() => readCompiled(bytes), /a compiled result is incomplete/);
  }
});
