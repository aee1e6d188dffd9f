import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { discoverShell } from "../../../src/discover/shell/shell.ts";
import type { JsonSchema } from "../../../src/lib/json.ts";

const discover = (script: string, server = "find") =>
  discoverShell({ language: "shell", server, entry: `${server}.sh`, files: { [`${server}.sh`]: script } });

function tool(script: string) {
  const { tools, problems } = discover(script);
  assert.deepEqual(problems, []);
  assert.equal(tools.length, 1);
  return tools[0]!;
}

/** The schema that a header line gives its parameter, and whether the parameter is required. */
function param(text: string): { name: string; schema: JsonSchema; isRequired: boolean } {
  const { properties, required } = tool(`#!/bin/sh\n# ${text}\n`).inputSchema as {
    properties: Record<string, JsonSchema>;
    required?: string[];
  };
  const [[name, schema]] = Object.entries(properties) as [[string, JsonSchema]];
  return { name, schema, isRequired: required?.includes(name) ?? false };
}

/** Each problem as `severity code line:column`, with the text that the frame marks. */
function problemsOf(header: string): string[] {
  return discover(`#!/bin/sh\n${header}\n`).problems.map(({ severity, code, line, column, frame }) => {
    const [shown = "", marker = ""] = (frame ?? "").split("\n");
    return `${severity} ${code} ${line}:${column} ${shown.slice(marker.indexOf("^"), marker.lastIndexOf("^") + 1)}`;
  });
}

test("a script is one tool, named after its server, described by the comment at its head (T11.2)", () => {
  const found = tool(`#!/usr/bin/env bash
# shellcheck disable=SC2034

# Finds lines that
# hold a text.
#
# This is for readers of the script.
#
# @param {string} text - What to look for.
#   It may be long.
# @minLength 1
# @param {"asc" | "desc"} [order=asc] Which way.
# @title Find lines
# @readOnly
# @destructive false
set -eu
# @param {string} late - Not in the header.
`);
  assert.deepEqual(found, {
    name: "find",
    title: "Find lines",
    description: "Finds lines that\nhold a text.",
    inputSchema: {
      type: "object",
      properties: {
        text: { type: "string", minLength: 1, description: "What to look for.\nIt may be long." },
        order: { type: "string", enum: ["asc", "desc"], description: "Which way.", default: "asc" },
      },
      required: ["text"],
      additionalProperties: false,
    },
    outputSchema: null,
    annotations: { readOnlyHint: true, destructiveHint: false },
    call: { export: "", style: "positional", params: ["text", "order"] },
    file: "find.sh",
    line: 1,
    column: 1,
  });
});

test("a script without a word about parameters takes one text, unless it says that it takes none", () => {
  for (const script of ["echo hi", "#!/bin/sh", "#!/bin/sh\n\necho hi", "#!/bin/sh\n# Says hi.\n"]) {
    const { inputSchema, call } = tool(script);
    assert.deepEqual(inputSchema["properties"], { args: { type: "string", description: "Text for the script." } });
    assert.equal(inputSchema["required"], undefined);
    assert.deepEqual(call.params, ["args"]);
  }
  assert.deepEqual(tool("#!/bin/sh\r\n# Says hi.\r\n# @noArgs\r\n").call.params, []);
});

test("types of parameters become schemas", () => {
  const types: [string, JsonSchema][] = [
    ["string", { type: "string" }],
    ["number", { type: "number" }],
    ["integer", { type: "integer" }],
    ["boolean", { type: "boolean" }],
    ["string[]", { type: "array", items: { type: "string" } }],
    ["'a' | \"b c\"", { type: "string", enum: ["a", "b c"] }],
    ["1 | 2.5 | -3", { type: "number", enum: [1, 2.5, -3] }],
    ['"all" | 1', { type: ["string", "number"], enum: ["all", 1] }],
    ["('a' | 'b')[]", { type: "array", items: { type: "string", enum: ["a", "b"] } }],
    ["string | number", { type: ["string", "number"] }],
    ["number[][]", { type: "array", items: { type: "array", items: { type: "number" } } }],
  ];
  for (const [type, schema] of types)
    assert.deepEqual(param(`@param {${type}} it`), { name: "it", schema, isRequired: true });
  assert.deepEqual(param("@param it - Text"), {
    name: "it",
    schema: { type: "string", description: "Text" },
    isRequired: true,
  });
});

test("defaults are read by the type of their parameter", () => {
  const defaults: [string, unknown][] = [
    ["{string} [it=plain]", "plain"],
    ["{string} [it=two words]", "two words"],
    ['{string} [it="a ] b"]', "a ] b"],
    ["{string} [it=12]", "12"],
    ["{string} [it=]", ""],
    ["{number} [it=1.5]", 1.5],
    ["{integer} [ it = 3 ]", 3],
    ["{boolean} [it=true]", true],
    ['{string[]} [it=["a", "]"]]', ["a", "]"]],
    ["{1 | 2} [it=2]", 2],
    ["{string | number} [it=x]", "x"],
  ];
  for (const [text, value] of defaults) {
    const { schema, isRequired } = param(`@param ${text} - Text`);
    assert.deepEqual([schema["default"], schema["description"], isRequired], [value, "Text", false], text);
  }
  assert.deepEqual(param("@param {number} [it]").schema, { type: "number" });
});

test("every mistake in a header is said at its place, and leaves the tool out (T11.2)", () => {
  const header = `# Finds.
# @minimum 3
# @param {strng} a - x
# @param {string b
# @param {string} PATH
# @param {string} 1x
# @param {integer} [c=1.5]
# @param {"x" | "y"} [d=z]
# @param {integer} [e
# @param {string} f
# @param {string} f
# @minimum 1
# @maxLength many
# @bogus
# @pattern (?=x)
# @param`;
  assert.deepEqual(problemsOf(header), [
    "warning unknown-tag 3:3 @minimum",
    "error unknown-type 4:11 strng",
    "error malformed-param 5:10 {string b",
    "error bad-param-name 6:19 PATH",
    "error bad-param-name 7:19 1x",
    "error bad-default 8:23 1.5",
    "error bad-default 9:25 z",
    "error malformed-param 10:20 [e",
    "error repeated-param 12:3 @param",
    "warning constraint-without-effect 13:3 @minimum",
    "warning constraint-malformed 14:3 @maxLength",
    "warning unknown-tag 15:3 @bogus",
    "error pattern-unusable 16:3 @pattern",
    "error malformed-param 17:9 ",
  ]);
  assert.deepEqual(discover(`#!/bin/sh\n${header}`).tools, []);
});

test("a warning leaves the tool in", () => {
  const { tools, problems } = discover("#!/bin/sh\n# @param it\n# @bogus\n");
  assert.deepEqual([tools.length, problems.length], [1, 1]);
});

test("no parameter can steer the shell that runs the script", () => {
  const names = {
    Berth: "BERTH_CONTEXT BERTH_OPTIONS BERTH_ANYTHING",
    "the shell": "PATH IFS ENV HOME BASH_ENV BASHOPTS SHELLOPTS PS4 PWD CDPATH OPTIND SECONDS UID REPLY",
    "the dynamic loader": "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT",
    "the C library": "LC_ALL LC_CTYPE LANG GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH TZ TMPDIR MALLOC_ARENA_MAX",
    "network programs": "http_proxy HTTPS_PROXY all_proxy NO_PROXY CURL_HOME CURL_CA_BUNDLE WGETRC",
    "language runtimes": "NODE_OPTIONS PYTHONPATH PERL5OPT RUBYLIB AWKPATH",
  };
  for (const [reader, given] of Object.entries(names)) {
    for (const name of given.split(" ")) {
      const { tools, problems } = discover(`#!/bin/sh\n# Says it.\n# @param {string} ${name}\n`);
      const [{ code, line, column, frame, message } = assert.fail(name)] = problems;
      assert.deepEqual([code, line, column, tools], ["bad-param-name", 3, 19, []], name);
      assert.ok(message.includes(`"${name}" is read by ${reader}`), message);
      assert.ok(frame!.endsWith(" ^" + "~".repeat(name.length - 1)) || frame!.endsWith("^".repeat(name.length)), frame);
    }
  }
  for (const name of ["lang", "LANGUAGES", "berth", "PATHS", "tz", "UIDS", "LDAP", "NODES", "term", "proxy", "curl"]) {
    assert.deepEqual(discover(`#!/bin/sh\n# @param {string} ${name}\n`).problems, [], name);
  }
  assert.deepEqual(discover("#!/bin/sh\n# @param {string} path\n").problems, []);
});

test("a server whose name no tool can have is a problem", () => {
  assert.equal(discover("#!/bin/sh\n", "zwölf").problems[0]?.code, "invalid-tool-name");
});

test("a script with more parameters than a tool may have is no tool, and none of the others is compared", () => {
  const header = Array.from({ length: 300 }, (_, at) => `# @param p${at}`).join("\n");
  const { tools, problems } = discover(`#!/bin/sh\n${header}\n`);
  assert.deepEqual(tools, []);
  assert.deepEqual(
    new Set(problems.map(({ code, line }) => [code, line! > 257].join())),
    new Set(["too-many-params,true"]),
  );
});

test("the documentation of headers is right", async () => {
  const page = await readFile(new URL("../../../../docs/scripts.md", import.meta.url), "utf8");
  const [, example] = /```sh\n([^]*?)```/.exec(page)!;
  assert.deepEqual(tool(example!).inputSchema["required"], ["text"]);
  const rows = [...page.matchAll(/^\| `(@param .*?)` +\| `(.*?)` +\| (yes|no) +\|$/gm)];
  assert.equal(rows.length, 8);
  for (const [, header, schema, required] of rows) {
    const found = param(header!.replaceAll("\\|", "|"));
    assert.deepEqual([found.schema, found.isRequired], [JSON.parse(schema!), required === "yes"], header);
  }
});
