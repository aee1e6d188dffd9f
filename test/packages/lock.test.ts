import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { prettyJson } from "../../src/lib/pretty-json.ts";
import type { Problem } from "../../src/lib/problem.ts";
import { readLock, type ReadLockOptions } from "../../src/packages/lock.ts";
import type { PackageSet } from "../../src/packages/package-set.ts";
import { pluck, rows } from "../support/rows.ts";

type Line = Readonly<Record<string, unknown>>;

const integrityOf = (text: string): string => `sha512-${createHash("sha512").update(text).digest("base64")}`;
const line = (version: string, more: Line = {}): Line => ({
  version,
  integrity: integrityOf(JSON.stringify([version, more])),
  ...more,
});

function read(
  dependencies: Line,
  packages: Readonly<Record<string, Line>>,
  options: Partial<ReadLockOptions> = {},
  more: { readonly packageJson?: Line; readonly lock?: Line } = {},
): { set?: PackageSet; problems: Problem[] } {
  const packageJson = prettyJson({ dependencies, ...more.packageJson });
  const lock = prettyJson({ lockfileVersion: 3, packages: { "": { dependencies }, ...packages }, ...more.lock });
  return readLock({ file: "package.json", text: packageJson }, { file: "package-lock.json", text: lock }, options);
}

function setOf(...given: Parameters<typeof read>): PackageSet {
  const { set, problems } = read(...given);
  assert.ok(set, JSON.stringify(problems));
  return set;
}

/** The only error; its sentence has all of these words. */
function refusal(given: Parameters<typeof read>, code: string, ...said: readonly string[]): Problem {
  const { set, problems } = read(...given);
  assert.equal(set, undefined, "there is no set");
  const errors = problems.filter(({ severity }) => severity === "error");
  assert.deepEqual(pluck(errors, "code"), [code], JSON.stringify(errors));
  for (const words of said) assert.ok(errors[0]!.message.includes(words), errors[0]!.message);
  return errors[0]!;
}

describe("a package.json and its lock", () => {
  test("give the packages that production dependencies reach, and what each of them may import", () => {
    const set = setOf(
      { a: "^1.0.0", "@s/b": "2.x" },
      {
        "node_modules/a": line("1.2.0", { dependencies: { c: "^1" }, engines: { node: ">=4" } }),
        "node_modules/@s/b": line("2.5.0", { dependencies: { c: "^2" } }),
        "node_modules/@s/b/node_modules/c": line("2.0.0"),
        "node_modules/c": line("1.0.0"),
        "node_modules/only-for-tests": line("1.0.0", { dev: true }),
        "node_modules/left-over": line("1.0.0"),
      },
      { npm: "11.0.0" },
      { packageJson: { devDependencies: { "only-for-tests": "*" } } },
    );
    assert.equal(set.npm, "11.0.0");
    assert.deepEqual(set.dependencies, { "@s/b": "2.x", a: "^1.0.0" });
    assert.deepEqual(Object.keys(set.packages), [
      "node_modules/@s/b",
      "node_modules/@s/b/node_modules/c",
      "node_modules/a",
      "node_modules/c",
    ]);
    const { name, version, dependencies } = set.packages["node_modules/@s/b"]!;
    assert.deepEqual([name, version, dependencies], ["@s/b", "2.5.0", ["c"]]);
    assert.deepEqual(set.lines?.["node_modules/a"], { dependencies: { c: "^1" } });
  });

  test("give the same set whatever the order of their lines", () => {
    const lines = { "node_modules/b": line("1.0.0"), "node_modules/a": line("1.0.0") };
    const reversed = Object.fromEntries(Object.entries(lines).toReversed());
    const [one, other] = [setOf({ b: "1", a: "1" }, lines), setOf({ a: "1", b: "1" }, reversed)];
    assert.equal(JSON.stringify(one), JSON.stringify(other));
  });

  test("may have cycles, peers, and optional packages that are not there", () => {
    const set = setOf(
      { a: "*" },
      {
        "node_modules/a": line("1.0.0", { dependencies: { b: "*" }, optionalDependencies: { gone: "*" } }),
        "node_modules/b": line("1.0.0", { dependencies: { a: "*" }, peerDependencies: { p: "*", absent: "*" } }),
        "node_modules/p": line("1.0.0", { peer: true }),
      },
    );
    assert.deepEqual(set.packages["node_modules/b"]!.dependencies, ["a", "p"]);
    assert.deepEqual(set.packages["node_modules/a"]!.dependencies, ["b"]);
  });

  test("may name a package otherwise than it is called", () => {
    const set = setOf({ old: "npm:a@^1" }, { "node_modules/old": line("1.5.0", { name: "a" }) });
    assert.equal(set.packages["node_modules/old"]!.name, "a");
  });

  test("keep variants for some machines without what only those need", () => {
    const { set, problems } = read(
      { a: "1" },
      {
        "node_modules/a": line("1.0.0", { optionalDependencies: { "a-linux": "1" } }),
        "node_modules/a-linux": line("1.0.0", { os: ["linux"], cpu: "x64", libc: ["glibc"], dependencies: { n: "1" } }),
        "node_modules/n": line("1.0.0"),
      },
    );
    assert.deepEqual(problems, []);
    const { os, cpu, libc } = set!.packages["node_modules/a-linux"]!;
    assert.deepEqual([os, cpu, libc], [["linux"], ["x64"], ["glibc"]]);
    assert.equal(set!.packages["node_modules/n"], undefined);
  });

  test("may come from the registry in use, under whichever path that has", () => {
    const resolved = "https://npm.example.com/private/a/-/a-1.0.0.tgz";
    const packages = { "node_modules/a": line("1.0.0", { resolved }) };
    setOf({ a: "1" }, packages, { registries: ["https://npm.example.com/private"] });
    refusal([{ a: "1" }, packages, { registries: ["https://npm.example.com/public"] }], "not-of-registry", resolved);
  });
});

describe("a lock is refused", () => {
  const a = { "node_modules/a": line("1.0.0") };

  test("that lacks a dependency, with the place in package.json", () => {
    const problem = refusal([{ a: "1", b: "^2" }, a], "lock-outdated", '"b"', "npm install");
    assert.deepEqual(
      [problem.file, problem.line, problem.column, problem.pointer],
      ["package.json", 4, 5, "/dependencies/b"],
    );
  });

  test("that has another version than the range allows", () => {
    refusal([{ a: "^2.0.0" }, a], "lock-outdated", "a 1.0.0", '"^2.0.0"');
    setOf({ a: "latest" }, a);
  });

  test("that has another package under the name of one", () => {
    const packages = { "node_modules/a": line("1.0.0", { name: "evil" }) };
    refusal([{ a: "1" }, packages], "lock-outdated", '"evil" for "a"');
    const inner = {
      "node_modules/a": line("1.0.0", { dependencies: { b: "1" } }),
      "node_modules/b": line("1.0.0", { name: "evil" }),
    };
    refusal([{ a: "1" }, inner], "lock-outdated", '"evil" for "b"');
  });

  test("that lacks what a package needs", () => {
    const packages = { "node_modules/a": line("1.0.0", { dependencies: { b: "1" } }) };
    const problem = refusal([{ a: "1" }, packages], "lock-outdated", '"b"', "node_modules/a");
    assert.equal(problem.pointer, "/packages/node_modules~1a/dependencies/b");
    assert.equal(problem.file, "package-lock.json");
  });

  test("with a line without sha512", () => {
    refusal([{ a: "1" }, { "node_modules/a": { version: "1.0.0" } }], "no-integrity", "no integrity");
    const sha1 = { version: "1.0.0", integrity: "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=" };
    refusal([{ a: "1" }, { "node_modules/a": sha1 }], "no-integrity", "only sha1");
    const cut = { version: "1.0.0", integrity: "sha512-abc" };
    refusal([{ a: "1" }, { "node_modules/a": cut }], "no-integrity");
  });

  for (const [what, resolved] of [
    ["git", "git+ssh://git@github.com/who/a.git#0123456789abcdef"],
    ["a path", "file:../a"],
    ["elsewhere", "https://evil.example/a/-/a-1.0.0.tgz"],
    ["elsewhere", "https://registry.npmjs.org@evil.example/a/-/a-1.0.0.tgz"],
    ["elsewhere", "https://registry.npmjs.org.evil.example/a/-/a-1.0.0.tgz"],
    ["elsewhere", "http://registry.npmjs.org/a/-/a-1.0.0.tgz"],
  ] as const) {
    test(`with a line of ${resolved}`, () => {
      refusal([{ a: "1" }, { "node_modules/a": line("1.0.0", { resolved }) }], "not-of-registry", what);
    });
  }

  test("with a password in an address, which is not repeated", () => {
    const resolved = "https://me:hunter2@evil.example/a/-/a-1.0.0.tgz";
    const problem = refusal([{ a: "1" }, { "node_modules/a": line("1.0.0", { resolved }) }], "not-of-registry");
    assert.ok(!problem.message.includes("hunter2"), problem.message);
  });

  for (const spec of [
    "git+https://h.example/a.git",
    "github:who/a",
    "who/a",
    "file:../a",
    "..",
    "https://h.example/a.tgz",
    "link:../a",
    "workspace:*",
  ]) {
    test(`whose package.json asks for ${spec}`, () => {
      refusal([{ a: spec }, a], "not-of-registry", "only packages of the registry");
    });
  }

  test("with an address for git deep inside", () => {
    const packages = {
      "node_modules/a": line("1.0.0", { dependencies: { b: "1" } }),
      "node_modules/b": line("1.0.0", { dependencies: { c: "git+ssh://git@h.example/c.git" } }),
      "node_modules/c": line("1.0.0"),
    };
    const problem = refusal([{ a: "1" }, packages], "not-of-registry", "an address for git", "node_modules/b");
    assert.equal(problem.pointer, "/packages/node_modules~1b/dependencies/c");
  });

  test("with a link, a bundled package, or a place outside of node_modules", () => {
    refusal([{ a: "1" }, { "node_modules/a": { link: true, resolved: "packages/a" } }], "not-of-registry", "a link");
    const bundled = {
      "node_modules/a": line("1.0.0", { dependencies: { b: "1" }, bundleDependencies: ["b"] }),
      "node_modules/a/node_modules/b": { version: "1.0.0", inBundle: true },
    };
    refusal([{ a: "1" }, bundled], "bundled-package", "inside of the tarball of node_modules/a");
  });

  test("with names that lead elsewhere", () => {
    for (const name of ["../../etc", "__proto__", ".hidden", "a/b/c", "--registry=x", "node_modules", "a b"]) {
      const { set, problems } = readLock(
        { file: "package.json", text: `{"dependencies":{${JSON.stringify(name)}:"1"}}` },
        { file: "package-lock.json", text: '{"lockfileVersion":3,"packages":{}}' },
      );
      assert.equal(set, undefined);
      assert.equal(problems[0]?.code, "bad-package-name", name);
    }
    refusal([{ a: "1" }, { "node_modules/a": line("1.0.0", { name: "../x" }) }], "bad-package-name");
  });

  test("with a version that is none", () => {
    for (const version of ["^1.0.0", "latest", "file:/etc", "1.0.0 || 2.0.0", 1])
      refusal([{ a: "*" }, { "node_modules/a": { ...line("1.0.0"), version } }], "lock-outdated", "no exact version");
  });

  test("with more packages than a set may have", () => {
    const names = Array.from({ length: 2_000 }, (_, index) => `p${index}`);
    const packages = Object.fromEntries(names.map((name) => [`node_modules/${name}`, line("1.0.0")]));
    const dependencies = Object.fromEntries(names.map((name) => [name, "1"]));
    refusal([dependencies, packages], "too-many-packages", "more than 1000");
  });

  test("of workspaces, of another format, or that is no JSON", () => {
    refusal([{ a: "1" }, a, {}, { packageJson: { workspaces: ["x/*"] } }], "workspaces");
    refusal([{ a: "1" }, a, {}, { lock: { lockfileVersion: 1 } }], "lock-version", "npm 7");
    const broken = readLock(
      { file: "package.json", text: "{}" },
      { file: "package-lock.json", text: '{"lockfileVersion": 3,\n  "packages": {,}}' },
    );
    assert.deepEqual([broken.problems[0]?.code, broken.problems[0]?.line], ["invalid-json", 2]);
  });

  test("with fields of other kinds than npm writes, without an exception", () => {
    for (const bad of [
      null,
      1,
      "x",
      [],
      { version: null },
      line("1.0.0", { dependencies: [1] }),
      line("1.0.0", { os: {} }),
    ]) {
      const { set } = read({ a: "1" }, { "node_modules/a": bad as Line });
      assert.equal(set, undefined, JSON.stringify(bad));
    }
  });
});

describe("a lock comes with a warning", () => {
  test("for each install script, once, and with advice for native addons", () => {
    const { set, problems } = read(
      { a: "1", bcrypt: "1", n: "1" },
      {
        "node_modules/a": line("1.0.0", { hasInstallScript: true, dependencies: { b: "1" } }),
        "node_modules/a/node_modules/b": line("1.0.0"),
        "node_modules/bcrypt": line("1.0.0", { hasInstallScript: true }),
        "node_modules/n": line("1.0.0", { hasInstallScript: true, dependencies: { "prebuild-install": "1", a: "2" } }),
        "node_modules/n/node_modules/a": line("2.0.0", { hasInstallScript: true }),
        "node_modules/prebuild-install": line("1.0.0"),
      },
    );
    assert.ok(set);
    assert.deepEqual(rows(problems, "code", "severity", "pointer"), [
      "install-script warning /packages/node_modules~1a",
      "native-addon warning /packages/node_modules~1bcrypt",
      "native-addon warning /packages/node_modules~1n",
    ]);
    assert.match(problems[0]!.message, /its install script is never run/);
    assert.match(problems[1]!.message, /native addons do not run here: use bcryptjs/);
    assert.match(problems[2]!.message, /it needs prebuild-install/);
  });

  test("for a name that differs by one letter from a famous one", () => {
    for (const [name, famous] of [
      ["lodahs", "lodash"],
      ["expres", "express"],
      ["node-fetchh", "node-fetch"],
      ["nodefetch", "node-fetch"],
      ["reakt", "react"],
    ] as const) {
      const { set, problems } = read({ [name]: "1" }, { [`node_modules/${name}`]: line("1.0.0") });
      assert.ok(set);
      assert.deepEqual([problems[0]?.code, problems[0]?.severity], ["similar-name", "warning"], name);
      assert.ok(problems[0]!.message.includes(`"${famous}"`), problems[0]!.message);
    }
    for (const name of ["preact", "react", "lodash-es", "my-own-tool", "pg"])
      assert.deepEqual(read({ [name]: "1" }, { [`node_modules/${name}`]: line("1.0.0") }).problems, [], name);
  });

  test("for a dependency for some machines alone", () => {
    const { set, problems } = read({ a: "1" }, { "node_modules/a": line("1.0.0", { os: ["darwin"] }) });
    assert.ok(set);
    assert.equal(problems.map(({ code }) => code).join(), "machine-variant");
  });
});
