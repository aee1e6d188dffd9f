import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, it } from "node:test";
import { packageRoot } from "../../src/config.ts";
import { certificateFile, keyFile } from "../support/certificate.ts";
import { cli } from "../support/commands.ts";
import { freePort } from "../support/free-port.ts";
import { SERVER_PATH, startNginx } from "../support/nginx.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { until } from "../support/until.ts";

it("steps 3 to 6 of docs/team-setup.md work behind the nginx configuration of docs/operations.md", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-team-"));
  after(() => rm(folder, { recursive: true, force: true }));
  const [port, tlsPort, trialPort] = [await freePort(), await freePort(), await freePort()];
  const url = `https://127.0.0.1:${tlsPort}`;
  const env = {
    BERTH_DATA: join(folder, "data"),
    HOME: folder,
    NODE_EXTRA_CA_CERTS: certificateFile,
    CURL_CA_BUNDLE: certificateFile,
    PATH: SERVER_PATH,
  };
  const settings = { ...env, BERTH_PUBLIC_URL: url, BERTH_ACCESS: "required" };
  const berth = await ServeProcess.start(["--port", String(port)], settings, {}, folder);
  after(() => berth.end("SIGTERM"));

  const read = (page: string): Promise<string> => readFile(join(packageRoot, "docs", page), "utf8");
  const server = /```nginx\n(.*?)```/s
    .exec(await read("operations.md"))![1]!
    .replace("listen 443", `listen 127.0.0.1:${tlsPort}`)
    .replace(/ssl_certificate .*;/, `ssl_certificate ${certificateFile};`)
    .replace(/ssl_certificate_key .*;/, `ssl_certificate_key ${keyFile};`)
    .replace("127.0.0.1:7420", `127.0.0.1:${port}`);
  startNginx(folder, server);

  const page = await read("team-setup.md");
  const step = (number: number): string[] => {
    const [, text] = new RegExp(`^## ${number}\\. .*?\n(.*?)(?=^## )`, "ms").exec(page)!;
    return [...text!.matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block!);
  };
  const prelude = `set -e\nberth() { "${process.execPath}" "${cli}" "$@"; }\n`;
  const run = (script: string) =>
    spawn("/bin/sh", ["-c", prelude + script.replaceAll("https://mcp.example.com", url)], {
      cwd: folder,
      env: { ...process.env, ...env },
    });
  async function ran(script: string): Promise<string> {
    const child = run(script);
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    const [code] = await once(child, "close");
    assert.equal(code, 0, `${script}\n${stdout}${stderr}`);
    return stdout;
  }

  const ready = `curl -fsS ${url}/readyz`;
  await until(async () => (await once(run(ready), "close"))[0] === 0, "nginx reaches Berth");

  const tokens = (await ran(step(3).join(""))).trim().split("\n");
  assert.equal(tokens.length, 3);
  const [, agents, globex] = tokens;
  for (const script of step(4)) await ran(script.replace("BERTH_TOKEN=…", `BERTH_TOKEN=${globex}`));
  const connect = step(5).join("");
  assert.match(await ran(connect.replace("BERTH_TOKEN=…", `BERTH_TOKEN=${agents}`)), /Hello, Ada!/);
  assert.match(await readFile(join(folder, ".claude.json"), "utf8"), /\/t\/acme\/mcp\/hello/);
  const refused = run(connect.replace("BERTH_TOKEN=…", `BERTH_TOKEN=${globex}`));
  assert.notEqual((await once(refused, "close"))[0], 0);

  const [backup, serve] = step(6)
    .join("")
    .split(/^(?=berth serve)/m);
  await ran(backup!);
  assert.match(serve!, /^berth serve --data trial --port 7421\n$/);
  const trial = await ServeProcess.start(["--data", "trial", "--port", String(trialPort)], env, {}, folder);
  after(() => trial.end("SIGTERM"));
  const servers = await (await fetch(`${trial.url}/t/acme/api/servers`)).json();
  assert.deepEqual(
    (servers as { servers: { name: string }[] }).servers.map(({ name }) => name),
    ["hello"],
  );
});
