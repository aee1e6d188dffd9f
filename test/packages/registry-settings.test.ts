import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { mayHavePackages, readConfig } from "../../src/config.ts";

const token = "npm_0123456789abcdef";

describe("the settings of packages", () => {
  test("are the public registry without a token, for the tenant default alone", () => {
    const config = readConfig({});
    const none = { token: undefined, tokenFile: undefined };
    assert.deepEqual(config.registry, { url: "https://registry.npmjs.org/", ...none, tarballOrigins: [] });
    assert.deepEqual(
      ["default", "acme"].map((tenant) => mayHavePackages(config, tenant)),
      [true, false],
    );
  });

  test("give packages to all tenants, or to some", () => {
    const may = (value: string, tenant: string): boolean =>
      mayHavePackages(readConfig({ BERTH_TENANT_PACKAGES: value }), tenant);
    assert.ok(may("on", "acme"));
    assert.ok(!may("off", "acme"));
    assert.ok(may("acme, other", "other"));
    assert.ok(!may("acme", "other"));
    assert.throws(
      () => readConfig({ BERTH_TENANT_PACKAGES: "No Name" }),
      /BERTH_TENANT_PACKAGES must be off, on or names/,
    );
  });

  test("name a registry with a path, its token in a file, and where its tarballs are", () => {
    const folder = mkdtempSync(join(tmpdir(), "berth-token-"));
    after(() => rmSync(folder, { recursive: true }));
    const tokenFile = join(folder, "token");
    writeFileSync(tokenFile, `${token}\n`);
    const { registry } = readConfig({
      BERTH_REGISTRY: "https://npm.example.com/api/npm/all",
      BERTH_REGISTRY_TOKEN_FILE: tokenFile,
      BERTH_REGISTRY_TARBALL_ORIGINS: "https://cdn.example.com",
    });
    assert.deepEqual(registry, {
      url: "https://npm.example.com/api/npm/all/",
      token,
      tokenFile,
      tarballOrigins: ["https://cdn.example.com"],
    });
  });

  test("are refused where they are wrong, without telling a token or a password", () => {
    for (const [env, said] of [
      [{ BERTH_REGISTRY: "npm.example.com" }, /BERTH_REGISTRY must be the address/],
      [{ BERTH_REGISTRY: "file:///etc" }, /BERTH_REGISTRY must be the address/],
      [{ BERTH_REGISTRY: "https://me:hunter2@npm.example.com/" }, /BERTH_REGISTRY must hold no password/],
      [{ BERTH_REGISTRY_TOKEN: `${token} x` }, /token of the registry must be printable/],
      [{ BERTH_REGISTRY_TOKEN: token, BERTH_REGISTRY_TOKEN_FILE: "/nowhere/x" }, /set one of them/],
      [{ BERTH_REGISTRY_TOKEN_FILE: "/nowhere/x" }, /BERTH_REGISTRY_TOKEN_FILE cannot be read \(ENOENT\)/],
      [{ BERTH_REGISTRY_TARBALL_ORIGINS: "https://cdn.example.com/path" }, /must list origins/],
    ] as const) {
      assert.throws(
        () => readConfig(env),
        (error: Error) => {
          assert.match(error.message, said);
          return !error.message.includes(token) && !error.message.includes("hunter2");
        },
      );
    }
  });
});
