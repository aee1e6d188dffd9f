import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { request, type IncomingHttpHeaders } from "node:http";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { startTestBerth } from "../support/berth.ts";
import { freePort } from "../support/free-port.ts";
import { SERVER_PATH, startNginx } from "../support/nginx.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const TOKEN = "an-operators-own-token";
const TEXTS = { "hello.ts": 'export function hello(): string { return "hello"; }' };
const AGAIN = 'export function again(): string { return "again"; }';
const FORWARDED = "proxy_set_header X-Forwarded-Proto $scheme; proxy_buffering off;";

/** The configuration of a proxy at `port` for a Berth at `to`. */
type Configure = (port: number, to: string) => string;

const nginx =
  (location: string, target: string, host: string): Configure =>
  (port, to) =>
    `server { listen 127.0.0.1:${port}; location ${location} {
      proxy_pass http://${to}${target}; proxy_set_header Host ${host}; ${FORWARDED} } }`;
const caddy =
  (route: string): Configure =>
  (port, to) =>
    `{\n  admin off\n  auto_https off\n}\nhttp://berth.test:${port} {\n  ${route} {\n    reverse_proxy ${to}\n  }\n}\n`;

const cases: readonly [name: string, path: string, run: (folder: string, text: string) => void, Configure][] = [
  ["nginx on an odd port, which passes on the host without it", "", startNginx, nginx("/", "", "$host")],
  ["nginx on an odd port", "", startNginx, nginx("/", "", "$http_host")],
  ["nginx under a path", "/berth", startNginx, nginx("/berth/", "", "$http_host")],
  ["nginx under a path that it removes", "/berth", startNginx, nginx("/berth/", "/", "$host")],
  ["Caddy on an odd port", "", startCaddy, caddy("handle")],
  ["Caddy under a path that it removes", "/apps/berth", startCaddy, caddy("handle_path /apps/berth/*")],
];

for (const [name, path, run, configure] of cases) {
  describe(`behind ${name}`, () => {
    it("pages, sign-in, changes and calls work, and every link leads through the proxy", async (t) => {
      const folder = temporaryFolder(t);
      const port = await freePort();
      const origin = `http://berth.test:${port}`;
      const berth = await startTestBerth({
        texts: TEXTS,
        env: { BERTH_PUBLIC_URL: `${origin}${path}`, BERTH_ADMIN_TOKEN: TOKEN, BERTH_ACCESS: "required" },
      });
      after(() => berth.close());
      run(folder, configure(port, new URL(berth.url).host));
      const ask = (method: string, url: string, headers: object = {}, body = ""): Promise<Answer> =>
        send(port, method, url, { Host: `berth.test:${port}`, ...headers }, body);
      await until(async () => (await ask("GET", `${path}/readyz`).catch(() => undefined))?.status === 200);

      const refused = await ask("GET", `${path}/mcp`, { Accept: "text/html" });
      assert.equal(refused.status, 401);
      const form = {
        Origin: origin,
        "Content-Type": "application/x-www-form-urlencoded",
        "Sec-Fetch-Site": "same-origin",
      };
      const next = encodeURIComponent(`${path}/mcp/meta/hello`);
      const signedIn = await ask("POST", `${path}/sign-in`, form, `token=${TOKEN}&next=${next}`);
      assert.equal(signedIn.status, 303, signedIn.text);
      assert.equal(signedIn.headers.location, `${path}/mcp/meta/hello`);
      const [cookie = ""] = signedIn.headers["set-cookie"] ?? [];
      assert.ok(cookie.includes(`Path=${path}/;`), cookie);

      const page = { Accept: "text/html", Cookie: cookie.split(";", 1)[0]! };
      for (const url of [`${path}/mcp`, `${path}/mcp/meta/hello?tab=connect`, `${path}/variables`]) {
        const { status, text } = await ask("GET", url, page);
        assert.equal(status, 200, url);
        const links = [...text.matchAll(/ (?:href|src|action)="(\/[^"]*)"/g)].map(([, link]) => link!);
        assert.deepEqual(
          links.filter((link) => !link.startsWith(`${path}/`)),
          [],
        );
        for (const asset of links.filter((link) => link.includes("/assets/"))) {
          assert.equal((await ask("GET", asset)).status, 200, asset);
        }
      }
      assert.ok(
        (await ask("GET", `${path}/mcp/meta/hello?tab=connect`, page)).text.includes(`${origin}${path}/mcp/hello`),
      );

      const json = { ...page, Accept: "*/*", Origin: origin, "Content-Type": "text/plain", "If-None-Match": "*" };
      const changed = await ask("PUT", `${path}/api/definitions/again`, json, AGAIN);
      assert.equal(changed.status, 201, changed.text);
      const called = await ask(
        "POST",
        `${path}/mcp/again`,
        {
          Authorization: `Bearer ${TOKEN}`,
          Accept: "application/json, text/event-stream",
          "Content-Type": "application/json",
        },
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"again","arguments":{}}}',
      );
      assert.match(called.text, /"text":"again"/);
      assert.equal((await ask("POST", `${path}/sign-in`, { ...form, Origin: "http://berth.test:1" }, "")).status, 403);
    });
  });
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** `fetch` sets Host by itself. */
function send(port: number, method: string, path: string, headers: object, body: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: "127.0.0.1", port, method, path, headers: { ...headers } });
    outgoing.once("error", reject).once("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.once("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    outgoing.end(body);
  });
}

function startCaddy(folder: string, text: string): void {
  const file = join(folder, "Caddyfile");
  writeFileSync(file, text);
  const env = { ...process.env, PATH: SERVER_PATH, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
  const child = spawn("caddy", ["run", "--config", file, "--adapter", "caddyfile"], { stdio: "ignore", env });
  const ended = once(child, "exit");
  after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
}
