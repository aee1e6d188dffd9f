import assert from "node:assert/strict";
import { builtinModules } from "node:module";
import { test } from "node:test";
import { builtinFor, builtinName, importableBuiltins, requireBanner } from "../../../src/discover/bundle/builtins.ts";

test("definitions and packages may import what works in a guest's own room, with and without node:", () => {
  for (const name of ["fs", "fs/promises", "http", "net", "tls", "dns", "os", "process", "zlib", "stream/web"]) {
    for (const importer of ["definition", "package"] as const) {
      assert.equal(builtinName(name), name);
      assert.equal(builtinName(`node:${name}`), name);
      assert.deepEqual(builtinFor(name, importer), { kind: "external" });
    }
  }
});

test("every module of this Node has an answer", () => {
  const names = builtinModules.filter((name) => !name.startsWith("node:"));
  const without = names.filter((name) => builtinName(name) === undefined);
  // Deprecated, and inner.
  const others = without.filter((name) => name !== "_stream_wrap");
  assert.deepEqual(others, []);
});

test("names that Node has only with its prefix are packages without it", () => {
  for (const name of ["sqlite", "test", "test/reporters", "sea"]) {
    assert.equal(builtinName(name), undefined);
    assert.equal(builtinName(`node:${name}`), name);
  }
  assert.equal(builtinName("punycode/"), undefined);
  assert.equal(builtinName("constructor"), undefined);
});

test("a definition that imports a refused module is told what to use instead", () => {
  const refused = ["child_process", "cluster", "inspector", "repl", "sea", "sqlite", "test", "trace_events", "wasi"];
  for (const name of [...refused, "worker_threads", "_http_agent", "no_such", "toString"]) {
    const answer = builtinFor(name, "definition");
    assert.equal(answer.kind, "refused", name);
    assert.match(answer.kind === "refused" ? answer.why : "", /^[A-Z].{30,}\.$/, name);
  }
  const { why } = builtinFor("child_process", "definition") as { why: string };
  assert.match(why, /write a shell definition \(\.sh\)/);
});

test("the banner is one line, and nothing of the machine is in it", () => {
  const banner = requireBanner(["path", "fs"]);
  assert.doesNotMatch(banner, /\n/);
  assert.match(banner, /\["fs","path"\]/);
  assert.equal(requireBanner(["fs", "path"]), banner);
  for (const name of importableBuiltins) assert.ok(requireBanner().includes(JSON.stringify(name)), name);
});
