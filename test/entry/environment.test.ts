import assert from "node:assert/strict";
import { describe, it } from "node:test";
import "../../src/compose/features.ts";
import { readEntry } from "../../src/entry/entry.ts";
import { ENVIRONMENT_NAMES_MAX } from "../../src/entry/environment-fields.ts";
import { withOperatorGrants } from "../../src/host/calls/operator-grants.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";

describe('"env" in an entry of mcps', () => {
  const read = (env: Json, more: JsonObject = {}) => readEntry("s", { env, ...more });
  const told = (env: Json, more?: JsonObject) => read(env, more).problems.map(({ code, pointer }) => [code, pointer]);

  it("has texts, in which secrets and variables are named in braces", () => {
    const { entry, problems } = read(
      { LOG_LEVEL: "info", AUTH: "Bearer ${TOKEN} of ${region.a}", LITERAL: "$${TOKEN}", OPEN: "${", _: "" },
      { secrets: ["TOKEN"] },
    );
    assert.deepEqual(problems, []);
    assert.deepEqual(entry.env, {
      LOG_LEVEL: { text: "info", secrets: [], variables: [] },
      AUTH: { text: "Bearer ${TOKEN} of ${region.a}", secrets: ["TOKEN"], variables: ["region.a"] },
      LITERAL: { text: "$${TOKEN}", secrets: [], variables: [] },
      OPEN: { text: "${", secrets: [], variables: [] },
      _: { text: "", secrets: [], variables: [] },
    });
  });

  it("sets nothing that Node, a shell, the system, npm or Berth reads", () => {
    const names =
      "NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS LD_PRELOAD DYLD_INSERT_LIBRARIES npm_config_registry NPM_TOKEN " +
      "BERTH_OPTIONS PATH HOME TMPDIR PWD IFS ENV BASH_ENV PS4 SSL_CERT_FILE OPENSSL_CONF TRACEPARENT __proto__ " +
      "UV_THREADPOOL_SIZE";
    for (const name of names.split(" ")) {
      const { problems, refused } = readEntry("s", { env: JSON.parse(`{"${name}": "x"}`) as Json });
      assert.equal(refused, true, name);
      assert.deepEqual([problems[0]?.code, problems[0]?.pointer], ["bad-name", `/s/env/${name}`]);
      assert.match(
        problems[0]!.message,
        new RegExp(`^"${name}" cannot be set in "env": .+\\. Give the value another name$`),
      );
    }
    assert.deepEqual(told({ TZ: "Europe/Oslo", LANG: "C", MY_NODE_ENV: "x", HOMEPAGE: "x", PATHS: "x" }), []);
  });

  it("has names that an environment can have, and texts that a program can take", () => {
    for (const name of ["", "1A", "A-B", "A B", "A=B", "Ä", "A".repeat(129)]) {
      assert.deepEqual(told({ [name]: "x" }), [["bad-name", `/s/env/${name}`]]);
    }
    assert.deepEqual(told({ A: 1, B: null, C: ["x"], D: "a\0b" }), [
      ["wrong-type", "/s/env/A"],
      ["wrong-type", "/s/env/B"],
      ["wrong-type", "/s/env/C"],
      ["wrong-value", "/s/env/D"],
    ]);
    assert.deepEqual(told(["A=x"]), [["wrong-type", "/s/env"]]);
  });

  it("has defaults, which values of berth dev replace unless they are empty", () => {
    const values: Readonly<Record<string, string>> = { SHORT: "a", EMPTY: "" };
    const { entry, problems } = read({ A: "${SHORT:-x} ${EMPTY:-y} ${UNSET:-z}" });
    assert.deepEqual([problems, entry.env["A"]!.variables], [[], ["SHORT", "EMPTY", "UNSET"]]);
    const operator = { network: [], value: () => undefined, plainValue: (name: string) => values[name] };
    const { env } = withOperatorGrants(entry, [], { ...operator, howToSet: () => "" });
    assert.deepEqual(env["A"], { text: "a y ${UNSET:-z}", secrets: [], variables: ["UNSET"] });
  });

  it("names nothing that the entry's grants do not give", () => {
    const granted = { secrets: ["TOKEN"], variables: ["region"] };
    assert.deepEqual(told({ A: "${TOKEN}${region}" }, granted), []);
    assert.deepEqual(told({ A: "${OTHER}" }, granted), [["not-granted", "/s/env/A"]]);
    assert.match(read({ A: "${OTHER}" }, granted).problems[0]!.message, /add "OTHER" to "secrets" or to "variables"/);
    assert.deepEqual(told({ A: "${a b}" }), [["bad-name", "/s/env/A"]]);
    assert.deepEqual(told({ A: "${berth:servers}" }), [["bad-name", "/s/env/A"]]);
  });

  it("is bounded, and is for definitions alone", () => {
    const many = Object.fromEntries(Array.from({ length: ENVIRONMENT_NAMES_MAX + 1 }, (_, at) => [`A${at}`, "x"]));
    assert.deepEqual(told(many), [["too-many-items", "/s/env"]]);
    delete many["A0"];
    assert.deepEqual(told(many), []);
    assert.deepEqual(told({ A: "x" }, { upstream: "mcp+npx://x" }), [["not-for-upstreams", "/s/env"]]);
  });

  it("names the spelling of a parameter of an upstream's URL", () => {
    const messages: [upstream: string, message: RegExp][] = [
      [
        "mcp+https://x/mcp?project_ref=a&query.b=c",
        /leave out "project_ref="; write "query\.project_ref=" .*\(At character 19 /,
      ],
      ['mcp+https://x/mcp?args={"a":1}', /write "query\.a="/],
      ["mcp+https://x/mcp?tool=t&a=1", /leave out "tool="\. /],
      ["mcp+npx://x?a=1", /leave out "a="\. /],
      [
        "https://x/mcp?project_ref=a%20b&query.c=d",
        /did you mean mcp\+https:\/\/x\/mcp\?query\.project_ref=a%20b&query\.c=d\?/,
      ],
    ];
    for (const [upstream, message] of messages)
      assert.match(readEntry("s", { upstream }).problems[0]!.message, message);
  });
});
