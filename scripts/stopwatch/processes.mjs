import { spawn } from "node:child_process";
import { once } from "node:events";

const RUN_MS_MAX = 180_000;

/** Each leads a group: npm and npx start the real program. */
const running = new Set();
process.once("exit", () => running.forEach((child) => signal(child, "SIGKILL")));
for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => process.exit(1));

/** Runs a command to its end. Returns its output, or throws it where the command fails. */
export async function run(words, options) {
  const { child, said } = open(words, options);
  const deadline = setTimeout(() => signal(child, "SIGKILL"), RUN_MS_MAX);
  const [code] = await once(child, "close");
  clearTimeout(deadline);
  if (code !== 0) throw new Error(`${words.join(" ")} ended with ${code}:\n${said()}`);
  return said();
}

/** Starts a command that goes on until `stop`. `until` resolves with what it says first that matches. */
export function start(words, options) {
  const { child, said } = open(words, options);
  const ended = once(child, "close");
  return {
    said,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const found = pattern.exec(said());
          if (found) resolve(found);
        };
        for (const stream of [child.stdout, child.stderr]) stream.on("data", look);
        void ended.then(() => reject(new Error(`${words.join(" ")} ended:\n${said()}`)));
        look();
      }),
    async stop() {
      signal(child, "SIGTERM");
      await ended;
    },
  };
}

function open([command, ...args], { cwd, env = {} }) {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  running.add(child);
  child.once("close", () => running.delete(child));
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (chunk) => (text += chunk));
  return { child, said: () => text };
}

function signal({ pid }, name) {
  try {
    process.kill(-pid, name);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}
