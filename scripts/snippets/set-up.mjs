import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

const RUN_MS_MAX = 60_000;

/** Each leads a group of processes: some clients are programs that start the real one. */
const running = new Set();

/** Ends the processes that clients still run. */
export function stopClients() {
  for (const child of running) stopClient(child);
}

export function stopClient(child) {
  try {
    process.kill(-child.pid, "SIGTERM");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

/** One client with a home of its own, which runs in its folder `work`. */
export function setUp({ client, bin, home, token }) {
  const cwd = join(home, "work");
  const env = {
    PATH: [bin, process.env["PATH"]].join(delimiter),
    HOME: home,
    TMPDIR: join(home, "tmp"),
    NO_COLOR: "1",
    ...client.env,
    ...(token !== undefined && { BERTH_TOKEN: token }),
  };

  const start = (command, args, more = {}, msMax = RUN_MS_MAX) => {
    const child = spawn(command, args, { cwd, env: { ...env, ...more }, stdio: "pipe", detached: true });
    running.add(child);
    const deadline = setTimeout(() => stopClient(child), msMax);
    child.once("close", () => {
      running.delete(child);
      clearTimeout(deadline);
    });
    return child;
  };

  /** Returns all its output, whatever its exit code is: some end with 1 for want of a model. */
  const run = (command, args, more) =>
    new Promise((resolve, reject) => {
      const child = start(command, args, more);
      let said = "";
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding("utf8").on("data", (chunk) => (said += chunk));
      }
      child.stdin.end();
      child.once("error", reject);
      child.once("close", (code) => resolve({ code, said }));
    });

  /** Does with a copied text what the page says: runs it, or puts it into its file. A link is for the client itself. */
  run.text = async ({ kind, file, text, isServing }) => {
    if (kind === "link" || isServing) return "";
    if (kind === "command") {
      const { code, said } = await run("sh", ["-c", text]);
      if (code !== 0) throw new Error(`${text}\nended with ${code}: ${said}`);
      return said;
    }
    const path = file.startsWith("~/") ? join(home, file.slice(2)) : join(cwd, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return "";
  };

  return { run, start };
}
