// Finds what Berth needs from outside of npm, and installs what is missing where it may: `npm test` runs it first.
// Exit code 0: everything is there. 1: something is missing, and what a person should do stands on stderr.
import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { installFolder } from "./install-folder.mjs";

/** `apt` names the package on Debian and Ubuntu. */
const programs = [
  { name: "bwrap", apt: "bubblewrap", why: "bubblewrap 0.8 or newer isolates guest code" },
  { name: "prlimit", apt: "util-linux", why: "prlimit (util-linux) limits guest processes" },
];

const isThere = ({ name }) =>
  [...(process.env.PATH ?? "").split(delimiter), "/usr/local/bin", "/usr/bin", "/bin"]
    .filter(Boolean)
    .some((folder) => {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });

const succeeds = (command, args) => spawnSync(command, args, { stdio: "ignore" }).status === 0;

/** How to become root without a question; undefined when there is no way. */
function asRoot() {
  if (process.getuid?.() === 0) return [];
  return succeeds("sudo", ["-n", "true"]) ? ["sudo", "-n"] : undefined;
}

function run(prefix, ...command) {
  const [file, ...args] = [...prefix, ...command];
  console.log(`setup: ${[file, ...args].join(" ")}`);
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  return spawnSync(file, args, { stdio: ["ignore", "ignore", "inherit"], env }).status === 0;
}

function giveUp(missing, reason) {
  console.error(`setup: cannot install ${missing.map(({ name }) => name).join(", ")}: ${reason}`);
  for (const { name, why } of missing) console.error(`setup: ${name} is needed because ${why}`);
  console.error(`setup: install the package${missing.length > 1 ? "s" : ""} by hand, for example`);
  console.error(`setup:   sudo apt-get update && sudo apt-get install ${missing.map(({ apt }) => apt).join(" ")}`);
  console.error("setup:   sudo dnf install bubblewrap util-linux");
  process.exit(1);
}

try {
  // The clients that tests point at Berth: the inspector, mcporter, the older SDK, and a Node that they run on.
  installFolder(fileURLToPath(new URL("../test/clients", import.meta.url)), (line) => console.log(`setup: ${line}`));
} catch (error) {
  console.error(`setup: ${error.message}`);
  process.exit(1);
}

if (process.platform !== "linux") {
  console.log(
    `setup: the sandbox exists on Linux only; on ${process.platform} guests run for the default tenant alone`,
  );
  process.exit(0);
}

const missing = programs.filter((program) => !isThere(program));
if (missing.length > 0) {
  const root = asRoot();
  if (!root) giveUp(missing, "this user is not root and sudo asks for a password");
  if (!succeeds("apt-get", ["--version"])) giveUp(missing, "there is no apt-get here");
  const packages = missing.map(({ apt }) => apt);
  if (!run(root, "apt-get", "update", "-qq"))
    console.error("setup: apt-get update failed; trying what is known already");
  if (!run(root, "apt-get", "install", "-y", "-qq", "--no-install-recommends", ...packages)) {
    giveUp(missing, "apt-get install failed");
  }
  const stillMissing = missing.filter((program) => !isThere(program));
  if (stillMissing.length > 0) giveUp(stillMissing, "the package was installed but the program is not in PATH");
  console.log(`setup: installed ${packages.join(", ")}`);
}
