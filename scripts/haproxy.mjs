import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** haproxy in front of several nodes, as docs/scaling.md says how: what the page shows is what is measured and tested. */

const page = fileURLToPath(new URL("../docs/scaling.md", import.meta.url));
/** Where Debian puts it, which is not in the PATH of everybody. */
const PATH = `${process.env["PATH"]}:/usr/sbin:/usr/local/sbin`;

/**
 * @param {string} folder for its configuration
 * @param {number[]} ports of the nodes
 * @returns {Promise<{ port: number, stop: () => Promise<void> }>}
 */
export async function startHaproxy(folder, ports) {
  const port = await freePort();
  const file = join(folder, "haproxy.cfg");
  writeFileSync(file, configFor(port, ports));
  const child = spawn("haproxy", ["-db", "-f", file], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, PATH },
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (said = (said + text).slice(-4_096)));
  const ended = once(child, "exit");
  const killOnExit = () => child.kill("SIGKILL");
  process.prependListener("exit", killOnExit);
  const end = performance.now() + 10_000;
  while (!(await reaches(port))) {
    if (child.exitCode !== null || performance.now() > end) {
      killOnExit();
      throw new Error(`haproxy does not reach the nodes:\n${said}`);
    }
  }
  return {
    port,
    async stop() {
      process.removeListener("exit", killOnExit);
      child.kill("SIGKILL");
      await ended;
    },
  };
}

function configFor(port, ports) {
  const [, text] = /```haproxy\n(.*?)```/s.exec(readFileSync(page, "utf8"));
  const servers = ports.map((each, index) => `  server berth${index + 1} 127.0.0.1:${each}\n`).join("");
  return text.replace("bind :8080", `bind 127.0.0.1:${port}`).replace(/( {2}server berth\d .*\n)+/, servers);
}

async function reaches(port) {
  try {
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 20));
    return false;
  }
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}
