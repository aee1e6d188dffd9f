import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import type { RegistryConfig } from "../../src/config.ts";
import { matches } from "../../src/lib/cid.ts";
import type { Problem } from "../../src/lib/problem.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { findNpm } from "../../src/packages/find-npm.ts";
import { openNpm, type Npm, type NpmLimits } from "../../src/packages/npm.ts";
import type { PackageSet } from "../../src/packages/package-set.ts";
import { spawnDirectly } from "../../src/processes/spawn/spawn.ts";
import { makeTemporary } from "../../src/processes/work-folders.ts";
import { registryOf, sha512, startTestRegistry, tarballOf, type TestRegistry } from "../support/registry.ts";
import { temporaryFolder } from "../support/suite.ts";

const nothing = () => undefined;

function confined(registry: Pick<RegistryConfig, "url">, limits: Partial<NpmLimits> = {}): Npm {
  const npm = openNpm({
    mode: "confined",
    registry: { token: undefined, tarballOrigins: [], ...registry },
    confinement: process.platform === "linux" ? "sandboxed" : "auto",
    start: spawnDirectly,
    makeFolder: makeTemporary,
    limits: { ...defaultLimits, ...limits },
  });
  after(() => npm.close());
  return npm;
}

/** npm as its user has it, with a home and a cache of its own. */
function own(registry: TestRegistry, env: NodeJS.ProcessEnv = {}): { npm: Npm; folder: string } {
  const folder = temporaryFolder();
  writeFileSync(join(folder, ".npmrc"), `registry=${registry.url}\nignore-scripts=false\n`);
  const npm = openNpm({
    mode: "own",
    folder,
    env: {
      PATH: process.env["PATH"],
      HOME: folder,
      npm_config_cache: join(folder, "cache"),
      npm_config_fetch_retries: "0",
      ...env,
    },
    limits: defaultLimits,
  });
  return { npm, folder };
}

const versionsIn = ({ packages }: PackageSet): Record<string, string> =>
  Object.fromEntries(
    Object.entries(packages).map(([place, { version }]) => [place.replace("node_modules/", ""), version]),
  );

const family = [
  { name: "a", version: "1.0.0", manifest: { dependencies: { "@s/b": "^1.0.0" } } },
  { name: "a", version: "1.1.0", manifest: { dependencies: { "@s/b": "^1.0.0" } } },
  { name: "@s/b", version: "1.0.0", files: { "index.js": "module.exports = 1;" } },
  { name: "lonely", version: "3.2.1" },
];

/** The user's own npm in the extended suite: few tests of it, below, are about more than the confined one. */
const mode = process.env["BERTH_TEST_NPM"] ?? "confined";
const open = (registry: TestRegistry): Npm => (mode === "own" ? own(registry).npm : confined(registry));

describe(`npm, ${mode}`, () => {
  test("makes a set of ranges, and brings its tarballs", async () => {
    const registry = await registryOf(...family);
    const npm = open(registry);
    const set = await npm.resolve({ a: "^1.0.0" });
    assert.deepEqual(versionsIn(set), { a: "1.1.0", "@s/b": "1.0.0" });
    assert.equal(set.npm, npm.version());
    const { set: fetched, blocks } = await npm.fetch(set, nothing);
    assert.equal(blocks.length, 2);
    for (const { cid, bytes } of blocks) assert.ok(matches(cid, bytes));
    for (const { tarball, integrity } of Object.values(fetched.packages)) {
      const block = blocks.find(({ cid }) => cid === tarball);
      assert.equal(block && sha512(block.bytes), integrity);
    }
  });

  test("does not believe a cache that has other bytes", async () => {
    const npm = open(await registryOf(...family));
    const set = await npm.resolve({ "@s/b": "*" });
    const { blocks } = await npm.fetch(set, () => Buffer.from("something else"));
    assert.equal(sha512(blocks[0]!.bytes), set.packages["node_modules/@s/b"]!.integrity);
  });

  test("names the package whose tarball is not what the lock says", async () => {
    const registry = await registryOf(...family);
    const npm = open(registry);
    const set = await npm.resolve({ a: "*", lonely: "*" });
    registry.publish({ name: "lonely", version: "3.2.1", files: { "evil.js": "evil()" } });
    await assert.rejects(npm.fetch(set, nothing), /lonely@3\.2\.1 does not have the sha512 of the lock/);
  });

  test("names the package whose tarball is not what the registry says", async () => {
    const registry = await registryOf(...family, { name: "bad", sent: Buffer.from("no tarball") });
    const npm = open(registry);
    const set = await npm.resolve({ a: "*", bad: "*" });
    await assert.rejects(npm.fetch(set, nothing), /bad@1\.0\.0: its tarball is not what the registry says/);
  });

  test("runs no install script, and warns of it", async () => {
    const marker = join(temporaryFolder(), "ran");
    const scripts = Object.fromEntries(
      ["preinstall", "install", "postinstall", "prepare", "prepack"].map((name) => [name, `touch ${marker}`]),
    );
    const registry = await registryOf({ name: "scripted", manifest: { scripts, hasInstallScript: true } });
    const npm = open(registry);
    const warnings: Problem[] = [];
    const set = await npm.resolve({ scripted: "*" }, undefined, undefined, (problem) => warnings.push(problem));
    assert.equal(warnings.map(({ code }) => code).join(), "install-script");
    await npm.fetch(set, nothing);
    assert.ok(!existsSync(marker));
  });

  test("takes no address for git, of a file, or of another host, however deep", async () => {
    for (const spec of ["git+https://127.0.0.1:1/x.git", "file:/etc", "http://127.0.0.1:1/x.tgz", "who/repository"]) {
      const registry = await registryOf(
        { name: "top", manifest: { dependencies: { middle: "*" } } },
        { name: "middle", manifest: { dependencies: { deep: spec } } },
      );
      const npm = open(registry);
      if (spec.startsWith("git") || mode === "own")
        await assert.rejects(npm.resolve({ top: "*" }), /The packages cannot be used/, spec);
      await assert.rejects(npm.resolve({ deep: spec }), /only packages of the registry are taken/);
    }
  });

  // The confined one differs in none of these.
  if (mode === "confined") return;

  test("keeps what is locked when more is asked for, and updates what it is told to", async () => {
    const registry = await registryOf(...family);
    const npm = open(registry);
    const before = await npm.resolve({ a: "^1.0.0", "@s/b": "^1.0.0" });
    registry.publish(
      { name: "a", version: "1.2.0", manifest: { dependencies: { "@s/b": "^1.0.0" } } },
      { name: "@s/b", version: "1.9.0" },
      { name: "@s/b", version: "2.0.0" },
    );
    const wanted = { ...before.dependencies, lonely: "" };
    const more = await npm.resolve(wanted, before);
    assert.deepEqual(versionsIn(more), { a: "1.1.0", "@s/b": "1.0.0", lonely: "3.2.1" });
    assert.equal(more.dependencies["lonely"], "^3.2.1");
    const named = await npm.resolve(more.dependencies, more, ["@s/b"]);
    assert.deepEqual(versionsIn(named), { a: "1.1.0", "@s/b": "1.9.0", lonely: "3.2.1" });
    const all = await npm.resolve(more.dependencies, more, true);
    assert.deepEqual(versionsIn(all), { a: "1.2.0", "@s/b": "1.9.0", lonely: "3.2.1" });
    const fewer = await npm.resolve({ lonely: "*" }, all);
    assert.deepEqual(versionsIn(fewer), { lonely: "3.2.1" });
  });

  test("gives another package its own version of what is locked", async () => {
    const registry = await registryOf(...family, { name: "@s/b", version: "2.0.0" });
    registry.publish({ name: "c", manifest: { dependencies: { "@s/b": "^2.0.0" } } });
    const npm = open(registry);
    const before = await npm.resolve({ a: "^1.0.0" });
    const more = await npm.resolve({ a: "^1.0.0", c: "*" }, before);
    assert.deepEqual(versionsIn(more), {
      a: "1.1.0",
      "@s/b": "1.0.0",
      c: "1.0.0",
      "c/node_modules/@s/b": "2.0.0",
    });
  });

  test("makes an empty set of nothing", async () => {
    const npm = open(await registryOf());
    const set = await npm.resolve({});
    assert.deepEqual(set.packages, {});
    assert.deepEqual((await npm.fetch(set, nothing)).blocks, []);
  });

  test("asks the registry for nothing that is known by its hash", async () => {
    const registry = await registryOf(...family);
    const npm = open(registry);
    const set = await npm.resolve({ a: "^1.0.0" });
    const known = new Map(family.map((each) => tarballOf(each)).map((bytes) => [sha512(bytes), bytes]));
    registry.requests.length = 0;
    const { blocks } = await npm.fetch(set, (integrity) => known.get(integrity));
    assert.equal(blocks.length, 2);
    assert.deepEqual(registry.requests, []);
  });

  test("brings packages whose files npm calls alike", async () => {
    const registry = await registryOf({ name: "@x/y-z" }, { name: "@x-y/z" }, { name: "x-y-z" });
    const npm = open(registry);
    const { blocks } = await npm.fetch(await npm.resolve({ "@x/y-z": "*", "@x-y/z": "*", "x-y-z": "*" }), nothing);
    assert.equal(blocks.length, 3);
  });

  test("names the package that vanished, and gives nothing of the others", async () => {
    const registry = await registryOf(...family);
    const npm = open(registry);
    const set = await npm.resolve({ a: "*", lonely: "*" });
    registry.unpublish("lonely");
    await assert.rejects(npm.fetch(set, nothing), /lonely@3\.2\.1: the registry does not have it/);
    await assert.rejects(npm.resolve({ lonely: "*" }), /packages cannot be used.*lonely/s);
  });

  test("says that the registry is not there", async () => {
    const registry = await startTestRegistry();
    await registry.close();
    await assert.rejects(open(registry).resolve({ a: "*" }), /could not be fetched.*(does not answer|ECONNREFUSED)/s);
  });
});

describe("npm, own", () => {
  test("takes tarballs from its cache when the registry is gone, and leaves the author's folder as it was", async () => {
    const registry = await registryOf(...family);
    const { npm, folder } = own(registry);
    const set = await npm.resolve({ a: "*" });
    await npm.fetch(set, nothing);
    await registry.close();
    assert.equal((await npm.fetch(set, nothing)).blocks.length, 2);
    assert.deepEqual(readdirSync(folder).sort(), [".npmrc", "cache"]);
  });
});

describe("npm itself", () => {
  test("is the one beside Node", () => {
    const { cli, version } = findNpm({});
    assert.equal(version, execFileSync(process.execPath, [cli, "--version"], { encoding: "utf8" }).trim());
  });

  test("is found on PATH, through links, where Node has none beside it", () => {
    const folder = temporaryFolder();
    const { cli } = findNpm({ PATH: process.env["PATH"] }, join(folder, "node"));
    assert.equal(cli, findNpm({}).cli);
    assert.throws(() => findNpm({ PATH: folder }, join(folder, "node")), /no npm beside Node.*install npm/s);
    assert.throws(() => findNpm({ npm_execpath: "/usr/bin/yarn.js" }, join(folder, "node")), /no npm/);
  });
});
