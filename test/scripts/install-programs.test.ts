import { strict as assert } from "node:assert";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { temporaryFolder } from "../support/suite.ts";

const script = `
  import { installPrograms } from ${JSON.stringify(new URL("../../../scripts/install-programs.mjs", import.meta.url).href)};
  installPrograms(console.log);
`;

/** Runs the setup with only these programs available; each is a shell script. */
function run(programs: Record<string, string>): {
  status: number | null;
  said: string;
  log: string;
  installed: boolean;
} {
  const folder = temporaryFolder();
  const add = (name: string, text: string): void => {
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(folder, name), 0o755);
  };
  for (const [name, text] of Object.entries(programs)) add(name, `echo "${name} $*" >> '${folder}/log'\n${text}`);
  // As root the script needs no sudo; as anyone else it asks for it, and this one gives way.
  add("sudo", 'shift; test "$1" = true || exec "$@"');
  const env = { PATH: folder, FOLDER: folder };
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    env,
    encoding: "utf8",
  });
  const log = existsSync(join(folder, "log")) ? readFileSync(join(folder, "log"), "utf8") : "";
  return { status, said: stdout + stderr, log, installed: existsSync(join(folder, "bwrap")) };
}

describe("setting up the programs of the system", () => {
  /** All programs except the one to be installed. */
  const others = {
    prlimit: "",
    curl: "",
    chromium: "",
    haproxy: "",
    nginx: "",
    faketime: "",
    caddy: "",
    "systemd-analyze": "",
  };
  const install = 'if [ "$1" = install ]; then /bin/cp "$0" "$FOLDER/bwrap"; fi';

  it("says nothing and does nothing when everything is there", () => {
    const { status, said, log } = run({ bwrap: "", ...others, "apt-get": "" });
    assert.deepEqual([status, log], [0, ""]);
    if (process.platform === "linux") assert.equal(said, "");
  });

  if (process.platform !== "linux") return;

  it("installs what is missing, after asking for the list of packages", () => {
    const { status, said, log, installed } = run({ ...others, "apt-get": install });
    assert.equal(status, 0, said);
    assert.ok(installed);
    assert.match(said, /installed bubblewrap/);
    assert.match(log, /apt-get update -qq\napt-get install .*bubblewrap\n/);
  });

  it("tells a person what to do when it cannot install", () => {
    const cases: [Record<string, string>, RegExp][] = [
      [others, /there is no apt-get here/],
      [{ ...others, "apt-get": 'test "$1" != install' }, /apt-get install failed/],
      [{ ...others, "apt-get": "" }, /not in PATH/],
    ];
    for (const [programs, why] of cases) {
      const { status, said } = run(programs);
      assert.equal(status, 1);
      assert.match(said, /cannot install bwrap/);
      assert.match(said, why);
      assert.match(said, /sudo apt-get update && sudo apt-get install bubblewrap/);
    }
  });
});
