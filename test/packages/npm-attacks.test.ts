import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import type { RegistryConfig } from "../../src/config.ts";
import { BerthError } from "../../src/lib/errors.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { openNpm, type Npm } from "../../src/packages/npm.ts";
import type { PackageSet } from "../../src/packages/package-set.ts";
import { spawnDirectly } from "../../src/processes/spawn/spawn.ts";
import { GUESTS } from "../support/guests.ts";
import { lower } from "../support/lowered-limits.ts";
import { registryOf, type Answer, type TestRegistry } from "../support/registry.ts";
import { temporaryFolder } from "../support/suite.ts";

const nothing = () => undefined;
const token = "token-of-the-operator-0f1e2d3c";
const mode = GUESTS;

/** Writes for ever, as fast as it is read. */
function endless(response: ServerResponse, head: string): void {
  response.write(head);
  const chunk = Buffer.alloc(64 * 1024, " ");
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once("drain", more);
  };
  more();
}

/** Every text of an error that somebody may read. */
const textOf = (error: unknown): string => {
  const { message, data, stack } = error as BerthError;
  return [message, JSON.stringify(data), stack].join("\n");
};

let restore = (): void => {};
after(() => restore());

const folders = temporaryFolder();

const open = (
  { url }: TestRegistry,
  { packageSetBytes = defaultLimits.packageSetBytes, ...bounds }: Record<string, number> = {},
  more: Partial<RegistryConfig> = {},
): Npm => {
  restore();
  restore = lower({ packageFetchMs: 120_000, ...bounds });
  const npm = openNpm({
    mode: "confined",
    registry: { url, token, tarballOrigins: [], ...more },
    confinement: mode,
    start: spawnDirectly,
    makeFolder: (prefix) => mkdtempSync(join(folders, prefix)),
    limits: { ...defaultLimits, packageSetBytes },
  });
  after(() => npm.close());
  return npm;
};
const refused = async (work: Promise<unknown>, said: RegExp): Promise<BerthError> => {
  const error: unknown = await work.then(
    () => assert.fail("it was not refused"),
    (error: unknown) => error,
  );
  assert.ok(error instanceof BerthError, String(error));
  assert.match(error.message, said);
  assert.ok(!textOf(error).includes(token), "no error has the token");
  return error;
};

describe(`a hostile registry or package, ${mode}`, () => {
  test("reaches no other host through the address of a tarball", async () => {
    const other = await registryOf({ name: "other" });
    const registry = await registryOf({
      name: "pointing",
      dist: { tarball: `${other.url}other/-/other-1.0.0.tgz` },
    });
    const { message } = await refused(
      open(registry).resolve({ pointing: "*" }),
      /node_modules\/pointing: it is an address elsewhere/,
    );
    assert.ok(!message.includes(registry.url), "tenants are not told where the operator's registry is");
    assert.deepEqual(other.requests, []);
  });

  test("reaches no other host by a redirect, and no address of this machine", async () => {
    const other = await registryOf({ name: "redirected" });
    const targets = [
      `${other.url}redirected/-/redirected-1.0.0.tgz`,
      "http://169.254.169.254/latest/meta-data/",
      "http://127.0.0.1:1/",
      "file:///etc/passwd",
    ];
    for (const location of targets) {
      const registry = await registryOf({ name: "redirected" });
      registry.at("/redirected/-/redirected-1.0.0.tgz", (_request, response) => {
        response.writeHead(302, { location }).end();
      });
      const npm = open(registry);
      const set = await npm.resolve({ redirected: "*" });
      await refused(npm.fetch(set, nothing), /redirects to .*BERTH_REGISTRY_TARBALL_ORIGINS/);
    }
    assert.deepEqual(other.requests, []);
  });

  test("is followed to an origin that the operator named, without the token", async () => {
    const other = await registryOf({ name: "redirected" });
    const registry = await registryOf({ name: "redirected" });
    const path = "/redirected/-/redirected-1.0.0.tgz";
    registry.at(path, (_request, response) => {
      response.writeHead(302, { location: new URL(path, other.url).href }).end();
    });
    const npm = open(registry, {}, { tarballOrigins: [new URL(other.url).origin] });
    const { blocks } = await npm.fetch(await npm.resolve({ redirected: "*" }), nothing);
    assert.equal(blocks.length, 1);
    assert.deepEqual([...new Set(other.authorizations)], [undefined]);
    assert.deepEqual([...new Set(registry.authorizations)], [`Bearer ${token}`]);
  });

  test("is cut off where an answer has no end", async () => {
    const bytes = 1024 * 1024;
    const tarball = "/endless/-/endless-1.0.0.tgz";
    const cases: [path: string, answer: Answer, bounds: Record<string, number>, why: RegExp][] = [
      [
        "/a",
        (_, to) => endless(to, '{"name":"a","versions":{'),
        { packageAnswerBytes: bytes },
        /a is larger than 1048576/,
      ],
      ["/a", (_, to) => void to.writeHead(302, { location: "/a" }).end(), {}, /redirects more than 3 times/],
      ["/a", () => {}, { packageFetchMs: 3_000 }, /more than 3000 ms/],
      [
        tarball,
        (_, to) => endless(to, ""),
        { packageBytes: bytes },
        /endless-1\.0\.0\.tgz is larger than 1048576 bytes/,
      ],
      [
        tarball,
        (_, to) => endless(to.setHeader("content-length", 1e12), ""),
        { packageBytes: bytes },
        /endless-1\.0\.0\.tgz is larger than 1048576 bytes/,
      ],
    ];
    for (const [path, answer, bounds, why] of cases) {
      const registry = await registryOf({ name: "endless" });
      registry.at(path, answer);
      const npm = open(registry, bounds);
      const set = npm.resolve(path === "/a" ? { a: "*" } : { endless: "*" });
      await refused(path === "/a" ? set : npm.fetch(await set, nothing), why);
    }
  });

  test("gets no more requests and bytes than one set may take", async () => {
    const names = Array.from({ length: 12 }, (_, index) => `n${index}`);
    const registry = await registryOf(
      ...names.map((name) => ({ name, files: { "x.bin": randomBytes(64 * 1024).toString("base64") } })),
    );
    const dependencies = Object.fromEntries(names.map((name) => [name, "*"]));
    await refused(open(registry, { packageFetchRequests: 10 }).resolve(dependencies), /more than 10 requests/);
    const npm = open(registry, { packageFetchBytes: 256 * 1024 });
    const set = await npm.resolve(dependencies);
    await refused(npm.fetch(set, nothing), /more than 262144 bytes from the registry/);
    const small = open(registry, { packageSetBytes: 256 * 1024 });
    await refused(small.fetch(set, nothing), /more than 262144 bytes together \(BERTH_PACKAGE_SET_BYTES\)/);
  });

  test("leads to no more packages than a set may have", async () => {
    const names = Array.from({ length: 300 }, (_, index) => `many${index}`);
    const registry = await registryOf({
      name: "many",
      manifest: { dependencies: Object.fromEntries(names.map((name) => [name, "*"])) },
    });
    // Each of them is described alike, at an address of its own.
    for (const name of names) registry.publish({ name });
    const npm = open(registry, { packagesPerSet: 100, packageFetchMs: 600_000 });
    await refused(npm.resolve({ many: "*" }), /more than 100 packages/);
  });

  test("gives npm no name and no version that is an option, a path, or an address", async () => {
    const npm = open(await registryOf());
    const locked = { name: "a", version: "1.0.0", integrity: `sha512-${"A".repeat(86)}==` };
    for (const wrong of [
      { version: "file:/etc/passwd" },
      { version: "git+ssh://h.example/x.git" },
      { version: "latest" },
      { name: "--registry=http://h.example" },
      { name: "../../etc" },
    ]) {
      const set: PackageSet = { dependencies: { a: "*" }, packages: { "node_modules/a": { ...locked, ...wrong } } };
      await refused(npm.fetch(set, nothing), /this is no set of packages/);
    }
    await refused(npm.resolve({ a: "*" }, undefined, ["--global"]), /is no name of a package/);
    await refused(npm.resolve({ "--global": "*" }), /is no name of a package/);
  });

  test("leaves no file and no process behind", async () => {
    const registry = await registryOf({ name: "plain" });
    const npm = open(registry);
    await npm.fetch(await npm.resolve({ plain: "*" }), nothing);
    assert.deepEqual(readdirSync(folders), []);
  });
});
