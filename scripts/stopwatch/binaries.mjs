import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

const FILE = join("build", "Release", "better_sqlite3.node");

/**
 * A stand-in for the site that has the binaries of better-sqlite3, with those of this clone: not each machine reaches it,
 * and without it npm compiles SQLite for a minute.
 *
 * @returns {Promise<{ env: Record<string, string>, close(): void }>}
 */
export async function openBinaries(folder) {
  const archives = new Map();
  for (const name of ["better-sqlite3", "better-sqlite3-13"]) {
    const from = join("node_modules", name);
    if (!existsSync(join(from, FILE))) continue;
    const { version } = JSON.parse(readFileSync(join(from, "package.json"), "utf8"));
    const archive = join(folder, `${name}.tar.gz`);
    execFileSync("tar", ["-czf", archive, "-C", from, FILE]);
    archives.set(`v${version}`, readFileSync(archive));
  }
  const server = createServer(({ url }, response) => {
    const archive = archives.get(url.split("/").at(-2));
    response.writeHead(archive ? 200 : 404).end(archive);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const host = `http://127.0.0.1:${server.address().port}`;
  return { env: { npm_config_better_sqlite3_binary_host: host }, close: () => server.close() };
}
