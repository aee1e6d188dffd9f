// Builds what a release publishes into release/: tarball, image, bill of materials, checksums. Then installs the tarball
// into an empty folder and calls a tool of it. `npm run release -- --built` packs dist/ as it is; `--no-image` builds none.
// The image needs podman, and the registry of its base image; `--build-arg` and other options for podman follow `--`.
// The package is tried with the Node.js of test/nodes, which `node scripts/setup.mjs` installs.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { installTarball } from "./release/install-tarball.mjs";

const MB = 1_000_000;
const INSTALLED_BYTES = 90 * MB;
const IMAGE_BYTES = 250 * MB;

const { values, positionals: podmanOptions } = parseArgs({
  allowPositionals: true,
  options: { built: { type: "boolean" }, "no-image": { type: "boolean" }, out: { type: "string", default: "release" } },
});
const { name, version } = JSON.parse(readFileSync("package.json", "utf8"));
const node = resolve("test/nodes/node_modules/node/bin/node");
const out = resolve(values.out);
const temporary = mkdtempSync(join(tmpdir(), "berth-release-"));
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
try {
  if (!existsSync(node)) throw new Error(`${node} does not exist: run node scripts/setup.mjs`);
  const options = ["--silent", "--pack-destination", out, ...(values.built ? ["--ignore-scripts"] : [])];
  execFileSync("npm", ["pack", ...options], { stdio: ["ignore", "ignore", "inherit"] });
  const tarball = join(out, `${name}-${version}.tgz`);

  const sbom = join(out, `${name}-${version}.cdx.json`);
  // Not a dependency: it would add 130 packages to each installation of a clone.
  const cyclonedx = ["--yes", "@cyclonedx/cyclonedx-npm@6.0.1", "--package-lock-only", "--omit", "dev"];
  execFileSync("npx", [...cyclonedx, "--output-reproducible", "--output-file", sbom], {
    stdio: ["ignore", "ignore", "inherit"],
  });

  const installed = join(temporary, "installed");
  installTarball(tarball, installed, node);
  check("installed package", measureFolder(installed), INSTALLED_BYTES);
  await callTool(join(installed, "node_modules/.bin/berth"), join(temporary, "data"));

  if (!values["no-image"]) {
    const image = join(out, `berth-${version}.oci.tar`);
    const podman = (...args) => execFileSync("podman", args, { stdio: ["ignore", "ignore", "inherit"] });
    podman("build", "--file", "deploy/Containerfile", "--tag", `berth:${version}`, ...podmanOptions, ".");
    podman("save", "--format", "oci-archive", "--output", image, `berth:${version}`);
    check("image", statSync(image).size, IMAGE_BYTES);
  }

  const sums = readdirSync(out).map(
    (file) =>
      `${createHash("sha256")
        .update(readFileSync(join(out, file)))
        .digest("hex")}  ${file}\n`,
  );
  writeFileSync(join(out, "SHA256SUMS"), sums.join(""));
  process.stdout.write(sums.join(""));
} finally {
  rmSync(temporary, { recursive: true, force: true });
}

function check(what, bytes, most) {
  console.log(`${what}: ${(bytes / MB).toFixed(1)} MB (limit: ${most / MB} MB)`);
  if (bytes <= most) return;
  console.error(`${what} exceeds its limit`);
  process.exitCode = 1;
}

function measureFolder(folder) {
  const files = readdirSync(folder, { recursive: true }).map((file) => lstatSync(join(folder, file)));
  return files.reduce((bytes, stats) => bytes + (stats.isFile() ? stats.size : 0), 0);
}

async function callTool(berth, data) {
  const child = spawn(node, [berth, "serve", "--port", "0", "--data", data], { stdio: ["ignore", "ignore", "pipe"] });
  try {
    let log = "";
    const url = await new Promise((found, fail) => {
      child.stderr.setEncoding("utf8").on("data", (text) => {
        log += text;
        const [, address] = /Berth serves (http:\S+)\/mcp/.exec(log) ?? [];
        if (address !== undefined) found(address);
      });
      child.once("exit", () => fail(new Error(`the installed package does not serve: ${log}`)));
    });
    const response = await fetch(`${url}/mcp/echo`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "echo", arguments: { message: "released" } },
      }),
    });
    const { result } = await response.json();
    if (result?.content?.[0]?.text !== "released") throw new Error(`unexpected result: ${JSON.stringify(result)}`);
    console.log("installed package: a tool was called");
  } finally {
    const ended = once(child, "exit");
    if (child.exitCode === null && child.kill("SIGTERM")) await ended;
  }
}
