// Runs the unpacked root file system of the image (FOLDER/rootfs) by crun, as root, with the restrictions of a container, where
// no container engine works: node scripts/run-image.mjs FOLDER DATA [NAME=VALUE …]
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { PROCESS } from "./release/image.mjs";

/**
 * Writes the OCI configuration of a bundle whose root file system is in `rootfs`: not root, no capabilities, a read-only
 * root, `/data` as the only writable folder next to `/tmp`, the network of the host, nothing of /proc masked.
 */
function writeBundle(folder, data, env, args = PROCESS.args) {
  execFileSync("crun", ["spec"], { cwd: folder });
  const file = join(folder, "config.json");
  const config = JSON.parse(readFileSync(file, "utf8"));
  config.root = { path: "rootfs", readonly: true };
  config.process = {
    ...config.process,
    terminal: false,
    args,
    env: [...PROCESS.env, ...env],
    cwd: PROCESS.cwd,
    user: PROCESS.user,
    capabilities: {},
    noNewPrivileges: true,
  };
  delete config.process.rlimits;
  delete config.linux.resources;
  config.linux.namespaces = config.linux.namespaces.filter(({ type }) => type !== "network" && type !== "cgroup");
  Object.assign(config.linux, { maskedPaths: [], readonlyPaths: [] });
  config.mounts = [
    ...config.mounts.filter(({ destination }) => !destination.startsWith("/sys")),
    { destination: "/data", type: "none", source: data, options: ["rbind", "rw"] },
    { destination: "/tmp", type: "tmpfs", source: "tmpfs", options: ["mode=1777"] },
  ];
  writeFileSync(file, JSON.stringify(config));
}

const [folder, data, ...env] = process.argv.slice(2);
writeBundle(resolve(folder), resolve(data), env);
const state = join(resolve(folder), "state");
execFileSync("crun", ["--root", state, "--cgroup-manager=disabled", "run", "berth"], { cwd: folder, stdio: "inherit" });
