import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";

const CLI = "dist/src/cli.js";

/** Makes an image of `from` and serves it on a port of the system's choice. */
export function startBerth(from, folder) {
  const image = join(folder, "boot");
  const made = spawnSync(process.execPath, [CLI, "boot", "--from", from, "--out", image], { encoding: "utf8" });
  if (made.status !== 0) throw new Error(`the image could not be made:\n${made.stderr}`);
  const args = [CLI, "serve", "--port", "0", "--data", join(folder, "data"), "--image", image];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  return new Promise((resolve, reject) => {
    let text = "";
    child.stderr.setEncoding("utf8").on("data", (chunk) => {
      text += chunk;
      const url = /Berth serves (http:\S+)\/mcp/.exec(text)?.[1];
      if (url) resolve({ url, stop: () => (child.kill(), exited) });
    });
    void exited.then(() => reject(new Error(`berth serve ended:\n${text}`)));
  });
}
