import assert from "node:assert/strict";
import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readConfig } from "../../../src/config.ts";
import { SecretFiles } from "../../../src/features/secrets/secret-files.ts";
import { apiOf } from "../../support/api.ts";
import { call } from "../../support/berth.ts";
import { lower } from "../../support/lowered-limits.ts";
import { berthInSuite } from "../../support/suite.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { until } from "../../support/until.ts";

const GUEST = `/** Fingerprints a secret, which no result may contain. */
export async function tell(name: string, context: import("berth").ToolContext): Promise<string> {
  const value = await context.secret(name);
  return value === undefined ? "nothing" : value.split("").reverse().join("");
}
`;
const SCRIPT = '#!/bin/bash\n# Reverses the secret in its environment.\nrev <<< "$API_TOKEN"\n';
const reversed = (text: string): string => text.split("").toReversed().join("");

/** Replaces what a folder holds as Kubernetes does: by one rename of a symbolic link. */
function mount(folder: string, version: string, files: Readonly<Record<string, string>>): void {
  mkdirSync(join(folder, version));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, version, name), text);
  symlinkSync(version, join(folder, "..new"));
  renameSync(join(folder, "..new"), join(folder, "..data"));
}

describe("secrets in files", () => {
  const folder = temporaryFolder();
  mount(folder, "..1", { API_TOKEN: "the first value\n", SHORT: "tiny" });
  for (const name of ["API_TOKEN", "SHORT"]) symlinkSync(`..data/${name}`, join(folder, name));
  mkdirSync(join(folder, "acme"));
  writeFileSync(join(folder, "acme/API_TOKEN"), "the value of acme");
  writeFileSync(join(folder, "PRINTED"), '#!/bin/sh\necho "printed for $BERTH_TENANT: $BERTH_SECRET"\n');
  writeFileSync(join(folder, "FAILING"), "#!/bin/sh\necho a value that must not be shown >&2\nexit 3\n");
  for (const name of ["PRINTED", "FAILING"]) chmodSync(join(folder, name), 0o700);
  const declared = ["API_TOKEN", "SHORT", "PRINTED", "FAILING", "STORED"];
  const berth = berthInSuite({
    texts: { "guest.ts": GUEST, "script.sh": SCRIPT },
    mcps: {
      guest: { definition: "guest.ts", secrets: declared },
      script: { definition: "script.sh", secrets: ["API_TOKEN"] },
    },
    env: { BERTH_SECRETS_DIR: folder, BERTH_SECRET_FILES_POLL_MS: "20", BERTH_SECRET_COMMAND_VALUE_MS: "0" },
  });
  const tell = async (name: string, at = ""): Promise<string> =>
    (await call(`${berth.url}${at}/mcp/guest`, "tell", { name })).content[0].text;

  it("reach functions and scripts, and a changed file the next call", async () => {
    const run = async (): Promise<string> => (await call(`${berth.url}/mcp/script`, "script")).content[0].text.trim();
    assert.equal(await tell("API_TOKEN"), reversed("the first value"));
    assert.equal(await run(), reversed("the first value"));
    mount(folder, "..2", { API_TOKEN: "the second value", SHORT: "tiny" });
    assert.equal(await tell("API_TOKEN"), reversed("the second value"));
    await until(async () => (await run()) === reversed("the second value"));
  });

  it("come before stored ones, and are listed with their source", async () => {
    const api = apiOf(berth);
    assert.equal((await api.send("PUT", "/secrets/API_TOKEN", "a stored value")).status, 204);
    assert.equal((await api.send("PUT", "/secrets/STORED", "another stored value")).status, 204);
    assert.equal(await tell("API_TOKEN"), reversed("the second value"));
    assert.equal(await tell("STORED"), reversed("another stored value"));
    const { body } = await api.send("GET", "/secrets");
    const sources = Object.fromEntries(body.secrets.map(({ name, by }: { name: string; by: string }) => [name, by]));
    assert.deepEqual([sources["API_TOKEN"], sources["STORED"]], ["BERTH_SECRETS_DIR", "api"]);
    assert.doesNotMatch(JSON.stringify(body), /value/);
  });

  it("reads the secrets of a tenant in its own folder only (C8)", async () => {
    const mcps = JSON.stringify({ guest: { secrets: ["API_TOKEN", "PRINTED"] } });
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { guest: GUEST }, variables: { mcps } }));
    assert.equal(await tell("API_TOKEN", "/t/acme"), reversed("the value of acme"));
    assert.equal(await tell("PRINTED", "/t/acme"), "nothing");
  });

  it("runs an executable file, which prints the value", async () => {
    assert.equal(await tell("PRINTED"), reversed("printed for default: PRINTED"));
  });

  it("fails a call that reads an invalid secret, without its value", async () => {
    for (const name of ["SHORT", "FAILING"]) {
      const result = await call(`${berth.url}/mcp/guest`, "tell", { name });
      assert.equal(result.isError, true);
      assert.match(result.content[0].text, new RegExp(`the secret "${name}" cannot be read now`));
      assert.doesNotMatch(JSON.stringify(result), /tiny|must not be shown/);
    }
  });
});

describe("the folder of secrets", () => {
  it("gives nothing for a name that leads elsewhere", async (t) => {
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, "OUTSIDE"), "a value of another tenant");
    mkdirSync(join(folder, "acme"));
    const files = await SecretFiles.open(folder, () => {});
    t.after(() => files.close());
    for (const name of ["../OUTSIDE", "acme", "", ".", "OUTSIDE/", "OUTSIDE\0"]) {
      assert.equal(await files.read("acme", name), undefined);
    }
  });

  it("reports each file that is added, changed or removed", async (t) => {
    t.after(lower({ secretFilesPollMs: 10 }));
    const folder = temporaryFolder(t);
    const changes: string[] = [];
    const files = await SecretFiles.open(folder, (tenant, name) => changes.push(`${tenant}/${name}`));
    t.after(() => files.close());
    mkdirSync(join(folder, "acme"));
    writeFileSync(join(folder, "acme/ADDED"), "a value");
    await until(() => changes.includes("acme/ADDED"));
    renameSync(join(folder, "acme/ADDED"), join(folder, "MOVED"));
    await until(() => changes.includes("default/MOVED"));
    assert.deepEqual(changes.sort(), ["acme/ADDED", "acme/ADDED", "default/MOVED"]);
  });

  it("fails the start if it does not exist", async (t) => {
    const missing = join(temporaryFolder(t), "missing");
    await assert.rejects(
      SecretFiles.open(missing, () => {}),
      /BERTH_SECRETS_DIR: .* cannot be read \(ENOENT\)/,
    );
  });
});

it("the operator's token may be in a file", (t) => {
  const file = join(temporaryFolder(t), "token");
  writeFileSync(file, "an-operators-own-token\n");
  assert.equal(readConfig({ BERTH_ADMIN_TOKEN_FILE: file }).adminToken, "an-operators-own-token");
  assert.throws(
    () => readConfig({ BERTH_ADMIN_TOKEN_FILE: `${file}s` }),
    /BERTH_ADMIN_TOKEN_FILE cannot be read \(ENOENT\)/,
  );
});
