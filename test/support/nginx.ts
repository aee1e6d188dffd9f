import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after } from "node:test";

/** Where Debian installs servers. */
export const SERVER_PATH = `${process.env["PATH"]}:/usr/sbin:/usr/local/sbin`;

/** Runs nginx with these `server` blocks until the tests of the file or suite have ended. */
export function startNginx(folder: string, servers: string): void {
  const own = join(folder, "nginx");
  mkdirSync(own);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const http = `access_log off;\n${temporary.map((name) => `${name}_temp_path ${own}/${name};`).join("\n")}\n${servers}`;
  const configuration = join(own, "nginx.conf");
  writeFileSync(
    configuration,
    `pid ${own}/pid;\nerror_log stderr;\ndaemon off;\nmaster_process off;\nevents {}\nhttp {\n${http}}\n`,
  );
  const nginx = spawn("nginx", ["-c", configuration], {
    stdio: "ignore",
    env: { ...process.env, PATH: SERVER_PATH },
  });
  const ended = once(nginx, "exit");
  after(async () => {
    nginx.kill("SIGKILL");
    await ended;
  });
}
