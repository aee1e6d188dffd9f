// Finds the system programs that Berth needs, or installs them by apt-get where this user may.
import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * Any of `names` will do, the first is the usual one; `apt` names the package on Debian and Ubuntu. `versionsIn`: where it
 * has a folder for each version of a program.
 */
const programs = [
  { names: ["bwrap"], apt: "bubblewrap", why: "bubblewrap 0.8 or newer isolates guest code" },
  { names: ["prlimit"], apt: "util-linux", why: "prlimit (util-linux) limits guest processes" },
  { names: ["curl"], apt: "curl", why: "the tests of scripts reach hosts with it" },
  {
    names: ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"],
    setting: "BERTH_TEST_CHROMIUM",
    apt: "chromium",
    why: "the tests of pages use them in a browser; one elsewhere can be named in BERTH_TEST_CHROMIUM",
  },
  { names: ["haproxy"], apt: "haproxy", why: "the tests of several nodes reach them through haproxy" },
  { names: ["nginx"], apt: "nginx-light", why: "the tests of several nodes reach them through nginx, too" },
  {
    names: ["initdb"],
    versionsIn: "/usr/lib/postgresql",
    apt: "postgresql",
    why: "the tests of stores on Postgres use the system's, too; Debian has it in /usr/lib/postgresql",
  },
  { names: ["pgbouncer"], apt: "pgbouncer", why: "the tests of stores on Postgres reach it through pgbouncer" },
  { names: ["caddy"], apt: "caddy", why: "tests serve behind the proxies of docs/operations.md" },
  { names: ["systemd-analyze"], apt: "systemd", why: "a test checks the unit in deploy/" },
  { names: ["faketime"], apt: "faketime", why: "the tests of several nodes give one of them another time" },
];

/** Where Debian puts programs that are not in the PATH of everybody. */
const SYSTEM_FOLDERS = ["/usr/sbin", "/usr/local/sbin"];

/** Reports its steps to `say`; throws an error that says what a person should do. Silent when everything is there. */
export function installPrograms(say) {
  if (process.platform !== "linux") {
    say(`the sandbox exists on Linux only; on ${process.platform} only the default tenant's guests run`);
    return;
  }
  const missing = programs.filter((program) => !isThere(program));
  if (missing.length === 0) return;

  const root = asRoot();
  if (!root) throw giveUp(missing, "this user is not root and sudo asks for a password");
  if (!succeeds("apt-get", ["--version"])) throw giveUp(missing, "there is no apt-get here");
  const packages = missing.map(({ apt }) => apt);
  const run = (...command) => {
    const [file, ...args] = [...root, ...command];
    say([file, ...args].join(" "));
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    return spawnSync(file, args, { stdio: ["ignore", "ignore", "inherit"], env }).status === 0;
  };
  if (!run("apt-get", "update", "-qq")) say("apt-get update failed; trying what is known already");
  if (!run("apt-get", "install", "-y", "-qq", "--no-install-recommends", ...packages)) {
    throw giveUp(missing, "apt-get install failed");
  }
  const stillMissing = missing.filter((program) => !isThere(program));
  if (stillMissing.length > 0) throw giveUp(stillMissing, "the package was installed but the program is not in PATH");
  say(`installed ${packages.join(", ")}`);
}

function isThere({ names, setting, versionsIn }) {
  if (setting && process.env[setting]) return isExecutable(process.env[setting]);
  const folders = (process.env.PATH ?? "/usr/local/bin:/usr/bin:/bin").split(delimiter);
  const versions = versionsIn && existsSync(versionsIn) ? readdirSync(versionsIn) : [];
  const ofVersions = versions.map((version) => join(versionsIn, version, "bin"));
  return [...folders.filter(Boolean), ...SYSTEM_FOLDERS, ...ofVersions].some((folder) =>
    names.some((name) => isExecutable(join(folder, name))),
  );
}

function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** How to become root without a prompt; undefined when there is no way. */
function asRoot() {
  if (process.getuid?.() === 0) return [];
  return succeeds("sudo", ["-n", "true"]) ? ["sudo", "-n"] : undefined;
}

function succeeds(command, args) {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}

function giveUp(missing, reason) {
  return new Error(
    [
      `cannot install ${missing.map(({ names }) => names[0]).join(", ")}: ${reason}`,
      ...missing.map(({ names, why }) => `  ${names[0]} is needed because ${why}`),
      "  install it by hand, for example with one of",
      `    sudo apt-get update && sudo apt-get install ${missing.map(({ apt }) => apt).join(" ")}`,
      `    sudo dnf install ${missing.map(({ apt }) => apt).join(" ")}`,
    ].join("\n"),
  );
}
