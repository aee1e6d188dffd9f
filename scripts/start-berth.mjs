import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";

const CLI = "dist/bin/berth.cjs";

/** Makes an image of the sources in `from`; returns its folder, which is a new one in `folder`. */
export function makeImage(from, folder) {
  const image = join(folder, "boot");
  berth(["boot", "--from", from, "--out", image], { XDG_CACHE_HOME: join(folder, "cache") });
  return image;
}

/** Runs a command to its end; returns its stdout. Throws its output where it fails. */
export function berth(args, variables = {}) {
  const env = { ...process.env, ...variables };
  const ended = spawnSync(process.execPath, [CLI, ...args], { encoding: "utf8", env });
  if (ended.status !== 0) throw new Error(`berth ${args.join(" ")} failed:\n${ended.stderr}`);
  return ended.stdout;
}

/** Serves an image on a port of the system's choice, with its data in `folder`. */
export function startBerth(image, folder, env = {}) {
  const data = join(folder, "data");
  const child = spawn(process.execPath, [CLI, "serve", "--port", "0", "--data", data, "--image", image], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, ...env },
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  return new Promise((resolve, reject) => {
    let text = "";
    child.stderr.setEncoding("utf8").on("data", (chunk) => {
      text += chunk;
      const url = /Berth serves (http:\S+)\/mcp/.exec(text)?.[1];
      if (url) resolve({ url, data, stop: () => (child.kill(), exited) });
    });
    void exited.then(() => reject(new Error(`berth serve ended:\n${text}`)));
  });
}
