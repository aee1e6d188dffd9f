import assert from "node:assert/strict";
import { existsSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { generateImage } from "../../src/image/generate.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Problem } from "../../src/lib/problem.ts";
import {
  bootWithMcps,
  countingCompiling,
  helloSource,
  sourcesWith,
  temporaryFolder,
  writeSources,
  type Sources,
} from "../support/image-sources.ts";

async function problemsOf(from: string): Promise<readonly Problem[]> {
  const out = join(temporaryFolder(), "boot");
  const { image, problems } = await generateImage({ from, out }, countingCompiling());
  assert.equal(image, undefined);
  assert.equal(existsSync(out), false);
  return problems;
}

/** `file:line:column pointer code`, by which a person and an editor find the fault. */
const place = ({ file, line, column, pointer, code }: Problem): string =>
  `${[file, line, column].filter((part) => part !== undefined).join(":")} ${pointer ?? "-"} ${code}`;

/** Sources whose `mcps.source.json` is this text, word for word. */
const mcpsText = (text: string, files: Sources = {}): Sources => ({
  ...sourcesWith({}, files),
  "mcps.source.json": text,
});
const bootText = (text: string, files: Sources = {}): Sources => ({
  ...sourcesWith({}, files),
  "default.boot.source.json": text,
});
const refusedScript = rawBlock("#!/bin/bash -e -u\necho hello\n");
const missingCid = rawBlock("nobody has this").cid;

const cases: Record<string, readonly [Sources, ...problems: string[]]> = {
  "a definition that is not there": [
    mcpsText(`{\n  "echo": {\n    "definition": "ehco.ts"\n  }\n}\n`),
    "mcps.source.json:3:19 /echo/definition missing-file",
  ],
  "a transform that is not there": [
    mcpsText(`{ "a": { "tools_transform_cid": "no.ts", "resources_transform_cid": "x.ts" } }`),
    "mcps.source.json:1:33 /a/tools_transform_cid missing-file",
    "mcps.source.json:1:69 /a/resources_transform_cid missing-file",
  ],
  "a path below what is a file": [
    mcpsText(`{ "a": { "definition": "a.ts/b.ts" } }`, { "a.ts": helloSource }),
    "mcps.source.json:1:24 /a/definition missing-file",
  ],
  "a folder in place of a file": [
    mcpsText(`{ "a": { "definition": "folder" } }`, { "folder/a.ts": helloSource }),
    "mcps.source.json:1:24 /a/definition not-a-file",
  ],
  "a path that leads outside": [
    mcpsText(`{ "a": { "definition": "../a.ts" },\n  "b": { "definition": "x/../../a.ts" } }`),
    "mcps.source.json:1:24 /a/definition outside",
    "mcps.source.json:2:24 /b/definition outside",
  ],
  "an absolute path, in either spelling": [
    mcpsText(`{ "a": { "definition": "/etc/passwd" }, "b": { "definition": "C:/a.ts" } }`),
    "mcps.source.json:1:24 /a/definition absolute-path",
    "mcps.source.json:1:62 /b/definition absolute-path",
  ],
  "a path with backslashes, with a NUL, and an empty one": [
    mcpsText(
      `{ "a": { "definition": "x\\\\a.ts" },\n"b": { "definition": "a\\u0000.ts" },\n"c": { "definition": "" } }`,
    ),
    "mcps.source.json:1:24 /a/definition bad-path",
    "mcps.source.json:2:22 /b/definition bad-path",
    "mcps.source.json:3:22 /c/definition bad-path",
  ],
  "a comma too many": [
    mcpsText(`{\n  "echo": { "definition": "echo.ts" },\n}\n`),
    "mcps.source.json:3:1  invalid-json",
  ],
  "a comma too few": [mcpsText(`{\n  "echo": {}\n  "hello": {}\n}`), "mcps.source.json:3:3  invalid-json"],
  "a file that ends too early": [mcpsText(`{ "a": {`), "mcps.source.json:1:9  invalid-json"],
  "a byte-order mark": [mcpsText("\uFEFF{}"), "mcps.source.json:1:1  invalid-json"],
  "an empty file": [mcpsText(""), "mcps.source.json:1:1  invalid-json"],
  "a comment, which JSON has not": [mcpsText(`{\n  // hello\n}`), "mcps.source.json:2:3  invalid-json"],
  "a line break in a text": [
    mcpsText(`{\n  "a": { "description": "one\ntwo" }\n}`),
    "mcps.source.json:2:29  invalid-json",
  ],
  "nesting without end": [
    mcpsText(`{"a":{"options":{"x":${"[".repeat(100_000)}${"]".repeat(100_000)}}}}`),
    "mcps.source.json:1:1  invalid-json",
  ],
  "a file that is not UTF-8": [
    { ...sourcesWith({}), "mcps.source.json": Uint8Array.of(0x7b, 0xff, 0x7d) },
    "mcps.source.json - not-utf8",
  ],
  "sources that are not there": [
    { "mcps.source.json": "{}" },
    "default.boot.source.json - missing-file",
    "readonly.boot.source.json - missing-file",
  ],
  "an unknown field": [
    mcpsText(`{ "a": {\n "definiton": "a.ts" } }`),
    "mcps.source.json:2:2 /a/definiton unknown-field",
  ],
  "a key that stands twice": [
    mcpsText(`{\n  "a": {},\n  "b": {},\n  "a": {}\n}`),
    "mcps.source.json:4:3 /a duplicate-key",
  ],
  "fields of the wrong type, each of them": [
    mcpsText(`{ "a": {
 "definition": 1,
 "upstream": [],
 "description": null,
 "tools": [],
 "resources": { "x": 1 },
 "prompts": "p",
 "auto_discover": "yes",
 "tools_transform_cid": {},
 "enabled": 1,
 "mcp_enabled": null,
 "options": []
} }`),
    "mcps.source.json:2:16 /a/definition wrong-type",
    "mcps.source.json:3:14 /a/upstream wrong-type",
    "mcps.source.json:4:17 /a/description wrong-type",
    "mcps.source.json:5:11 /a/tools wrong-type",
    "mcps.source.json:6:15 /a/resources wrong-type",
    "mcps.source.json:7:13 /a/prompts wrong-type",
    "mcps.source.json:8:19 /a/auto_discover wrong-type",
    "mcps.source.json:9:25 /a/tools_transform_cid wrong-type",
    "mcps.source.json:10:13 /a/enabled wrong-type",
    "mcps.source.json:11:17 /a/mcp_enabled wrong-type",
    "mcps.source.json:12:13 /a/options wrong-type",
  ],
  "an entry, and a whole file, that is no object": [
    { ...mcpsText(`[]`), "default.boot.source.json": `{ "servers": [1], "variables": ["x"] }` },
    "default.boot.source.json:1:15 /servers/0 wrong-type",
    "default.boot.source.json:1:33 /variables/0 wrong-type",
    "mcps.source.json:1:1  wrong-type",
  ],
  "names that cannot be served": [
    mcpsText(
      `{ "meta": {},\n"a/b": {},\n"../x": {},\n"": {},\n"-a": {},\n"${"a".repeat(65)}": {},\n"ä": {},\n"new": {} }`,
    ),
    "mcps.source.json:1:3 /meta bad-name",
    "mcps.source.json:2:1 /a~1b bad-name",
    "mcps.source.json:3:1 /..~1x bad-name",
    "mcps.source.json:4:1 / bad-name",
    "mcps.source.json:5:1 /-a bad-name",
    `mcps.source.json:6:1 /${"a".repeat(65)} bad-name`,
    "mcps.source.json:7:1 /ä bad-name",
    "mcps.source.json:8:1 /new bad-name",
  ],
  "a server that is two things": [
    mcpsText(`{ "a": { "definition": "a.ts", "upstream": "mcp+npx://x" } }`, { "a.ts": helloSource }),
    "mcps.source.json:1:44 /a/upstream two-kinds",
  ],
  "a definition of another kind": [
    mcpsText(`{ "a": { "definition": "a.py" } }`, { "a.py": "def a(): pass\n" }),
    "mcps.source.json:1:24 /a/definition unknown-kind",
  ],
  "a shell script without its first line, and a module with one": [
    mcpsText(`{ "a": { "definition": "a.sh" },\n"b": { "definition": "b.ts" } }`, {
      "a.sh": "echo hello\n",
      "b.ts": `#!/usr/bin/env node\n${helloSource}`,
    }),
    "mcps.source.json:1:24 /a/definition unknown-kind",
    "mcps.source.json:2:22 /b/definition unknown-kind",
  ],
  "a script whose interpreter cannot run it, whatever its line ends": [
    mcpsText(
      `{ "a": { "definition": "a.sh" },\n"b": { "definition": "b.sh" },\n"c": { "definition": "${refusedScript.cid}" } }`,
      {
        "a.sh": "\uFEFF#!/usr/bin/fish\r\necho hello\r\n",
        "b.sh": "\uFEFF#!/bin/bash -e\r\necho hello\r\n",
        [`content/${refusedScript.cid}`]: refusedScript.bytes,
      },
    ),
    "a.sh:1:1 - bad-interpreter",
    "mcps.source.json:3:22 /c/definition bad-interpreter",
  ],
  "a transform that is a script": [
    mcpsText(`{ "a": { "prompts_transform_cid": "a.sh" } }`, { "a.sh": "#!/bin/sh\n" }),
    "mcps.source.json:1:35 /a/prompts_transform_cid unknown-kind",
  ],
  "a CID without its bytes in the sources": [
    mcpsText(`{ "a": { "definition": "${missingCid}" } }`),
    "mcps.source.json:1:24 /a/definition content-missing",
  ],
  "a CID whose bytes are not its own": [
    mcpsText(`{ "a": { "definition": "${missingCid}" } }`, { [`content/${missingCid}`]: "forged" }),
    "mcps.source.json:1:24 /a/definition content-corrupt",
  ],
  "a configuration file that is not there, or has faults of its own": [
    mcpsText(
      `{ "a": { "config_cid": "no.json" },\n"b": { "config_cid": "b.json" },\n"c": { "config_cid": "c.json" } }`,
      {
        "b.json": `{\n "tols": {} }`,
        "c.json": `{ "definition": "c.ts" `,
      },
    ),
    "b.json:2:2 /tols unknown-field",
    "c.json:1:23  invalid-json",
    "mcps.source.json:1:24 /a/config_cid missing-file",
  ],
  "config_cid beside other fields": [
    mcpsText(`{ "a": { "config_cid": "a.json", "enabled": true } }`, { "a.json": "{}" }),
    "mcps.source.json:1:34 /a/enabled unknown-field",
  ],
  "configurations that refer to each other": [
    mcpsText(`{ "a": { "config_cid": "a.json" } }`, {
      "a.json": `{ "config_cid": "b.json" }`,
      "b.json": `{\n  "config_cid": "./a.json" }`,
    }),
    "b.json:2:17 /config_cid cycle",
  ],
  "faults of a boot source": [
    bootText(
      `{
  "servers": [
    { "name": "mcp", "definition_cid": "a.ts" },
    { "name": "mcp", "definition_cid": "a.ts" },
    { "name": "x" },
    { "definition_cid": "no.ts", "enabled": "yes" },
    { "name": "a b", "definition_cid": "a.ts", "extra": 1 }
  ],
  "variables": [
    { "name": "mcps", "definition": "GENERATED:other.json" },
    { "name": "both", "definition": "x", "definition_cid": "a.ts" },
    { "name": "none" },
    { "name": "far", "definition_cid": "../far" },
    { "name": "none", "definition": "again" }
  ],
  "more": {}
}`,
      { "a.ts": helloSource },
    ),
    "default.boot.source.json:4:15 /servers/1/name duplicate-name",
    "default.boot.source.json:5:5 /servers/2 missing-field",
    "default.boot.source.json:6:5 /servers/3 missing-field",
    "default.boot.source.json:6:45 /servers/3/enabled wrong-type",
    "default.boot.source.json:7:15 /servers/4/name bad-name",
    "default.boot.source.json:7:48 /servers/4/extra unknown-field",
    "default.boot.source.json:10:37 /variables/0/definition unknown-generated",
    "default.boot.source.json:11:60 /variables/1/definition_cid two-values",
    "default.boot.source.json:12:5 /variables/2 missing-field",
    "default.boot.source.json:13:40 /variables/3/definition_cid outside",
    "default.boot.source.json:14:15 /variables/4/name duplicate-name",
    "default.boot.source.json:16:3 /more unknown-field",
  ],
  "a definition with a syntax error, named by its own file": [
    mcpsText(`{ "a": { "definition": "deep/a.ts" } }`, { "deep/a.ts": "// syntax error\n" }),
    "deep/a.ts:2:1 - syntax",
  ],
  "an import that leads nowhere": [
    mcpsText(`{ "a": { "definition": "a.ts" } }`, { "a.ts": `import { b } from "./b.ts";\n${helloSource}` }),
    "a.ts:1:19 - missing-file",
  ],
  "an import that leads outside": [
    mcpsText(`{ "a": { "definition": "a.ts" } }`, { "a.ts": `import { b } from "../b.ts";\n${helloSource}` }),
    "a.ts:1:19 - outside",
  ],
  "a definition that is not UTF-8": [
    mcpsText(`{ "a": { "definition": "a.ts" } }`, { "a.ts": Uint8Array.of(0xff, 0xfe, 0x00) }),
    "mcps.source.json:1:24 /a/definition unknown-kind",
  ],
  "everything that is wrong in all files, at once": [
    {
      "mcps.source.json": `{ "a": { "definition": "no.ts", "x": 1 }, "b": { "definition": "b.ts" } }`,
      "default.boot.source.json": `{ "server": [] }`,
      "readonly.boot.source.json": `{`,
      "b.ts": "// syntax error\n",
    },
    "b.ts:2:1 - syntax",
    "default.boot.source.json:1:3 /server unknown-field",
    "mcps.source.json:1:24 /a/definition missing-file",
    "mcps.source.json:1:33 /a/x unknown-field",
    "readonly.boot.source.json:1:2  invalid-json",
  ],
};

describe("bad sources give every problem with its place, and no image:", () => {
  for (const [name, [sources, ...problems]] of Object.entries(cases)) {
    test(name, async () => {
      const found = await problemsOf(writeSources(sources));
      assert.deepEqual(found.map(place), problems);
      for (const { message, severity } of found) {
        assert.equal(severity, "error");
        assert.match(message, /^["A-Z].{8,}/s);
      }
    });
  }

  test("an import through a link that leads outside", async () => {
    const outside = join(temporaryFolder(), "secret.ts");
    writeFileSync(outside, "export const secret = 1;\n");
    const files = { "a.ts": `import { secret } from "./link.ts";\n${helloSource}` };
    const from = writeSources(sourcesWith({ a: { definition: "a.ts" } }, files));
    symlinkSync(outside, join(from, "link.ts"));
    const [problem, ...rest] = await problemsOf(from);
    assert.deepEqual(rest, []);
    assert.equal(problem!.file, "a.ts");
    assert.equal(problem!.code, "outside");
  });

  test("links that lead outside, around the corner too, or nowhere", async () => {
    const outside = join(temporaryFolder(), "secret.ts");
    writeFileSync(outside, helloSource);
    const mcps = { a: { definition: "link.ts" }, b: { definition: "folder/secret.ts" }, c: { definition: "loop.ts" } };
    const from = writeSources(sourcesWith(mcps));
    symlinkSync(outside, join(from, "link.ts"));
    symlinkSync(join(outside, ".."), join(from, "folder"));
    symlinkSync("loop.ts", join(from, "loop.ts"));
    assert.deepEqual((await problemsOf(from)).map(place), [
      "mcps.source.json:3:19 /a/definition outside",
      "mcps.source.json:6:19 /b/definition outside",
      "mcps.source.json:9:19 /c/definition cycle",
    ]);
  });

  test("a link inside of the folder is a file like any other", async () => {
    const from = writeSources(sourcesWith({ a: { definition: "link.ts" } }, { "hello.ts": helloSource }));
    symlinkSync("hello.ts", join(from, "link.ts"));
    const { image } = await generateImage({ from, out: join(from, "boot") }, countingCompiling());
    assert.ok(image);
  });

  test("a problem shows its line with a marker below the fault, of a very long line only the part", async () => {
    const [short] = await problemsOf(writeSources(mcpsText(`{ "a": {\n\t"definiton": "a.ts" } }`)));
    assert.equal(short!.frame, `> 2 | \t"definiton": "a.ts" } }\n    | \t^`);
    const [long] = await problemsOf(writeSources(mcpsText(`{${" ".repeat(5_000)}"meta": {}${" ".repeat(5_000)}}`)));
    const [line, marker] = long!.frame!.split("\n");
    assert.ok(line!.length < 200);
    assert.equal(line!.slice(marker!.indexOf("^")).slice(0, 6), '"meta"');
  });

  test("a file that is larger than the limit of its kind", async () => {
    const files = {
      "a.ts": "//".padEnd(1_100_000, "x"),
      "b.sh": "#!/bin/sh\n".padEnd(1_100_000, "x"),
      "c.txt": "c".repeat(5_000_000),
    };
    const boot = { servers: [], variables: [{ name: "c", definition_cid: "c.txt" }] };
    const mcps = { a: { definition: "a.ts" }, b: { definition: "b.sh" } };
    const problems = await problemsOf(writeSources(sourcesWith(mcps, { ...files, "default.boot.source.json": boot })));
    assert.equal(problems.map(({ code }) => code).join(), "too-large,too-large,too-large");

    const from = writeSources(sourcesWith({ a: {} }));
    const { image } = await generateImage({ from, out: from, sourceBytes: 10 }, countingCompiling());
    assert.equal(image, undefined);
  });

  test("one bad tool is a warning that names it, and the image is made with the others", async () => {
    const files = { "deep/a.ts": `// bad tool\n${helloSource}`, "default.boot.source.json": bootWithMcps };
    const from = writeSources(sourcesWith({ a: { definition: "deep/a.ts" }, b: { definition: "deep/a.ts" } }, files));
    const { image, problems } = await generateImage({ from, out: join(from, "boot") }, countingCompiling());
    const lock = JSON.parse(new TextDecoder().decode(image?.files.get("image.lock.json"))) as { results: object };
    assert.equal(Object.keys(lock.results).length, 2);
    assert.deepEqual(problems.map(place), ["deep/a.ts:2:1 - unsupported-type"]);
    assert.equal(problems[0]!.severity, "warning");
    assert.equal(problems[0]!.tool, "bad");
  });

  test("what a transform exports need not be a tool", async () => {
    const files = { "t.ts": `// bad tool\nexport function transform(tools: unknown) { return tools; }\n` };
    const from = writeSources(sourcesWith({ a: { tools_transform_cid: "t.ts" } }, files));
    const { image, problems } = await generateImage({ from, out: join(from, "boot") }, countingCompiling());
    assert.ok(image);
    assert.deepEqual(problems, []);
  });
});
