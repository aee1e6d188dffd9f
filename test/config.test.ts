import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { environmentOf } from "../src/commands/environment.ts";
import { inDatabase } from "../src/compose/service-log.ts";
import { knownVariables, unknownSettings } from "../src/compose/unknown-settings.ts";
import { mayHavePackages, readConfig } from "../src/config.ts";
import { BerthError } from "../src/lib/errors.ts";
import { defaultLimits, limitSettings, limitsFrom, limitVariable } from "../src/limits/limits.ts";
import { folderWith } from "./support/suite.ts";

const token = "npm_0123456789abcdef";

describe("the configuration", () => {
  it("refuses an address that other machines reach, with the reason", () => {
    assert.throws(() => readConfig({ BERTH_HOST: "0.0.0.0", BERTH_ACCESS: "open" }), /reachable from other machines/);
  });

  it("reports every problem at once, by the variable's name", () => {
    const env = { BERTH_PORT: "http", BERTH_GUESTS: "maybe", BERTH_CALL_MS: "-1" };
    assert.throws(
      () => readConfig(env),
      (error: unknown) =>
        error instanceof BerthError &&
        ["BERTH_PORT", "BERTH_GUESTS", "BERTH_CALL_MS"].every((name) => error.message.includes(name)),
    );
  });

  it("has a variable for each limit, named after it", () => {
    assert.equal(limitVariable("callMs"), "BERTH_CALL_MS");
    for (const name of limitSettings) {
      const { limits } = readConfig({ [limitVariable(name)]: "12345" });
      assert.deepEqual(limits, limitsFrom({ [name]: 12345 }));
    }
  });

  it("derives limits from others", () => {
    const { limits } = readConfig({
      BERTH_CALLS_PER_TENANT: "1000",
      BERTH_RUNNING_TASKS: "8",
      BERTH_OUTPUT_BYTES: "9000000",
    });
    assert.deepEqual(
      [limits.queuedCallsPerTenant, limits.runningTasksPerTenant, limits.guestFrameBytes],
      [4_000, 6, 9_000_000],
    );
  });

  it("has no variable for the limits that nobody needs to change, and 110 settings at most", () => {
    assert.equal(readConfig({ BERTH_REPLAY_BYTES: "1" }).limits.replayBytes, defaultLimits.replayBytes);
    assert.ok(knownVariables.filter((name) => !name.endsWith("_FILE")).length <= 110);
  });

  it("names each variable that nothing reads, with the nearest setting, and never its value", () => {
    assert.deepEqual(
      unknownSettings({
        BERTH_CAL_MS: "swordfish",
        BERTH_QQQQQQQQQQ: "1",
        BERTH_PROGRAM: "x",
        BERTH_PORT: "1",
        PATH: "/bin",
      }),
      [
        "BERTH_CAL_MS is not a setting; did you mean BERTH_CALL_MS?",
        "BERTH_QQQQQQQQQQ is not a setting; docs/settings.md lists them",
      ],
    );
  });

  it("ignores what Kubernetes sets for a Service named berth, and explains it", () => {
    const links = {
      BERTH_PORT: "tcp://10.0.0.1:7420",
      BERTH_SERVICE_HOST: "10.0.0.1",
      BERTH_SERVICE_PORT_HTTP: "7420",
      BERTH_PORT_7420_TCP_ADDR: "10.0.0.1",
    };
    assert.equal(readConfig(links).port, 7420);
    const [sentence, ...others] = unknownSettings(links);
    assert.match(sentence!, /^Kubernetes sets BERTH_PORT, .* enableServiceLinks: false/);
    assert.deepEqual(others, []);
    assert.throws(() => readConfig({ BERTH_PORT: "http" }), /BERTH_PORT must be a whole number/);
  });

  it("has a default for everything", () => {
    const { host, port, limits } = readConfig({});
    assert.deepEqual([host, port, limits.callMs], ["127.0.0.1", 7420, 30_000]);
  });

  it("names a Postgres by its address, or by a file with it, and without either the data folder has the store", () => {
    const url = "postgresql://berth:swordfish@db.internal:5432/berth?sslmode=verify-full";
    const folder = folderWith({ database: `${url}\n` });
    const file = join(folder, "database");
    assert.equal(readConfig({}).database, undefined);
    assert.equal(readConfig({ BERTH_DATABASE: url }).database, url);
    const { database, databaseFile } = readConfig({ BERTH_DATABASE_FILE: file });
    assert.deepEqual([database, databaseFile], [url, file]);
    const { dataDir, ...other } = readConfig(environmentOf({ data: folder }));
    assert.deepEqual([dataDir, other.database], [folder, undefined], "a data folder that is named is meant");
  });

  it("has an address for other nodes, with a port or any", () => {
    const at = (text: string) => readConfig({ BERTH_NODE_ADDRESS: text }).nodeAddress;
    assert.deepEqual(at("10.0.0.5"), { host: "10.0.0.5", port: 0 });
    assert.deepEqual(at("berth-1.internal:7430"), { host: "berth-1.internal", port: 7430 });
    assert.deepEqual(at("[fd00::5]:7430"), { host: "fd00::5", port: 7430 });
    for (const wrong of ["http://10.0.0.5", "10.0.0.5:99999", "a b", ":7430"])
      assert.throws(() => at(wrong), /BERTH_NODE_ADDRESS must be/);
  });

  it("refuses what is no address of a database or a registry, and never shows a given secret", () => {
    const empty = join(folderWith({ empty: "\n" }), "empty");
    for (const [env, said] of [
      [{ BERTH_DATABASE: "mysql://berth:swordfish@db/berth" }, /BERTH_DATABASE must be the address of a Postgres/],
      [{ BERTH_DATABASE: "swordfish" }, /BERTH_DATABASE must be/],
      [{ BERTH_DATABASE: "postgres://berth:sword fish@db/berth" }, /BERTH_DATABASE must be/],
      [{ BERTH_DATABASE_FILE: empty }, /BERTH_DATABASE must be/],
      [{ BERTH_DATABASE_FILE: "/nowhere/x" }, /BERTH_DATABASE_FILE cannot be read \(ENOENT\)/],
      [
        { BERTH_DATABASE: "postgres://db/x", BERTH_DATABASE_FILE: empty },
        /both set the database; use only one of them/,
      ],
      [{ BERTH_REGISTRY: "npm.example.com" }, /BERTH_REGISTRY must be the address/],
      [{ BERTH_REGISTRY: "file:///etc" }, /BERTH_REGISTRY must be the address/],
      [{ BERTH_REGISTRY: "https://me:swordfish@npm.example.com/" }, /BERTH_REGISTRY must not contain a password/],
      [{ BERTH_REGISTRY_TOKEN: `${token} x` }, /token of the registry must be printable/],
      [{ BERTH_REGISTRY_TOKEN: token, BERTH_REGISTRY_TOKEN_FILE: "/nowhere/x" }, /use only one of them/],
      [{ BERTH_REGISTRY_TOKEN_FILE: "/nowhere/x" }, /BERTH_REGISTRY_TOKEN_FILE cannot be read \(ENOENT\)/],
      [{ BERTH_REGISTRY_TARBALL_ORIGINS: "https://cdn.example.com/path" }, /must list origins/],
    ] as const) {
      assert.throws(
        () => readConfig(env),
        (error: Error) => said.test(error.message) && !/sword ?fish|mysql|npm_0123/.test(error.message),
      );
    }
  });

  it("lets no log show the address of a database, nor its password as it is meant", () => {
    const url = "postgres://berth:sword%20fish%21@db/berth";
    assert.deepEqual(inDatabase(url), [url, "sword%20fish%21", "sword fish!"]);
    assert.deepEqual(inDatabase(undefined), []);
    assert.deepEqual(inDatabase("postgres://a:a@db/a"), ["postgres://a:a@db/a"]);
  });
});

describe("the settings of packages", () => {
  it("are the public registry without a token, for the tenant default alone", () => {
    const config = readConfig({});
    const none = { token: undefined, tokenFile: undefined };
    assert.deepEqual(config.registry, { url: "https://registry.npmjs.org/", ...none, tarballOrigins: [] });
    const mayUsePackages = ["default", "acme"].map((tenant) => mayHavePackages(config, tenant));
    assert.deepEqual(mayUsePackages, [true, false]);
  });

  it("give packages to all tenants, or to some", () => {
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

  it("name a registry with a path, its token in a file, and where its tarballs are", () => {
    const tokenFile = join(folderWith({ token: `${token}\n` }), "token");
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
});
