import assert from "node:assert/strict";
import { createServer as createHttp } from "node:http";
import { type Socket, createServer } from "node:net";
import { after, before, describe, it } from "node:test";
import { apiOf, setNetwork } from "../support/api.ts";
import { callText } from "../support/berth.ts";
import { listening } from "../support/listening.ts";
import { berthInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

/** Runs whatever a test wants: the network around it is what is tested. */
const SCRIPT = `#!/bin/bash
# Runs a text.
#
# @param {string} text
eval "$text"
`;

const skip = process.platform !== "linux" ? "there is no sandbox here" : false;

describe("the network of scripts", { skip }, () => {
  const web = createHttp(({ method, url, headers }, response) => response.end(`${method} ${url} ${headers.host}`));
  const sockets = new Set<Socket>();
  const received: string[] = [];
  let mostSockets = 0;
  const echoing = createServer((socket) => {
    sockets.add(socket);
    mostSockets = Math.max(mostSockets, sockets.size);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
    socket.on("data", (chunk) => received.push(String(chunk)));
    socket.pipe(socket);
  });
  let [webPort, port] = [0, 0];
  before(async () => void ([webPort, port] = await Promise.all([listening(web), listening(echoing)])));
  const berth = berthInSuite(() => {
    const names = ["localhost", "127.0.0.1"].flatMap((host) => [webPort, port].map((each) => `${host}:${each}`));
    return {
      texts: { "script.sh": SCRIPT, "offline.sh": SCRIPT },
      mcps: { script: { definition: "script.sh", network: [...names, "db.invalid:5432", "*.example.invalid"] } },
      env: { BERTH_GUESTS: "sandboxed", BERTH_PRIVATE_HOSTS: "localhost" },
    };
  });
  after(() => {
    for (const socket of sockets) socket.destroy();
    for (const server of [web, echoing]) server.close();
  });

  const run = (text: string, name = "script"): Promise<string> => callText(`${berth.url}/mcp/${name}`, name, { text });

  it("resolves names and carries any protocol over TCP", async () => {
    assert.equal(await run(`curl -sS http://localhost:${webPort}/a?b=c`), `GET /a?b=c localhost:${webPort}`);
    assert.equal(await run(`curl -sS http://127.0.0.1:${webPort}/`), `GET / 127.0.0.1:${webPort}`);
    const speak = `exec 3<>/dev/tcp/localhost/${port}; echo hello >&3; read -r said <&3; echo "$said"`;
    assert.equal(await run(speak), "hello\n");
    await until(() => sockets.size === 0, "it ends with the script");
    assert.match(await run(`curl -sS http://localhost:${webPort}/ >&2; exit 1`), /^exit code 1: GET \/ localhost:\d+$/);
  });

  it("offers an HTTP proxy, which the environment names", async () => {
    const through = "--noproxy '' -x $https_proxy";
    const get = (url: string, more = ""): Promise<string> => run(`curl -sS ${through} ${more} ${url}`);
    const url = `http://127.0.0.1:${webPort}`;
    assert.equal(await get(`${url}/one ${url}/two`), `GET /one 127.0.0.1:${webPort}GET /two 127.0.0.1:${webPort}`);
    assert.equal(await get(`${url}/`, "--proxytunnel -X PUT -d text"), `PUT / 127.0.0.1:${webPort}`);
    for (const [asked, status] of [
      ["CONNECT localhost:0 HTTP/1.1", 400],
      ["GET / HTTP/1.1", 400],
      ["GET http://localhost:1/ HTTP/1.1", 403],
      ["CONNECT db.invalid:5432 HTTP/1.1", 502],
    ] as const) {
      const said = await run(`exec 3<>/dev/tcp/127.0.0.2/1080; printf '${asked}\\r\\n\\r\\n' >&3; head -1 <&3`);
      assert.match(said, new RegExp(`^HTTP/1.1 ${status} `), asked);
    }
  });

  it("reaches listed hosts only, and errors name what to add to the entry", async () => {
    const unlisted = '"network" of the entry "script" in mcps does not list it: add';
    const attempts: [script: string, ...parts: string[]][] = [
      ["curl -sS https://example.org/", `${unlisted} "example.org:443"`],
      ["curl -sS http://example.org/", `${unlisted} "example.org:80"`],
      [
        "getent hosts db.example.org",
        "exit code 2: db.example.org cannot be looked up",
        `${unlisted} "db.example.org:<port>"`,
      ],
      ["exec 3<>/dev/tcp/localhost/1", "exit code 1: ", "Connection refused"],
      ["exec 3<>/dev/tcp/169.254.169.254/80", "exit code 1: ", "Network is unreachable"],
      ["cat < /dev/tcp/db.invalid/5432", "db.invalid:5432 may not be reached: the host has no address"],
      ["getent hosts a.example.invalid", "a.example.invalid cannot be looked up: the host has no"],
    ];
    for (const [script, ...parts] of attempts) {
      const output = await run(script);
      for (const part of parts) assert.ok(output.includes(part), `${script}: ${output}`);
    }
  });

  it("is missing for an entry without hosts", async () => {
    const said = await run(`exec 3<>/dev/tcp/127.0.0.1/${port}`, "offline");
    assert.match(said, /^exit code 1: .*Address family not supported/s);
    assert.equal(await run("printenv http_proxy https_proxy all_proxy; ls /etc", "offline"), "alternatives\n");
  });

  it("limits the connections of a script, and does not delay other scripts", async () => {
    const many = `for i in $(seq 80); do exec {fd}<>/dev/tcp/localhost/${port}; echo a >&$fd; done
      for fd in $(seq 10 89); do read -r -t 5 said <&$fd; done 2>/dev/null; exit 1`;
    const [said] = await Promise.all([run(many), run(`curl -sS http://localhost:${webPort}/`)]);
    assert.match(said, /64 connections of this server's process are open/);
    assert.ok(mostSockets > 32 && mostSockets <= 64, `${mostSockets}`);
    await until(() => sockets.size === 0, "all of them are over");
    assert.equal(await run(`curl -sS http://localhost:${webPort}/x`), `GET /x localhost:${webPort}`);
  });

  it("closes connections when the entry changes, and the script goes on", async () => {
    const outcome = run(`exec 3<>/dev/tcp/localhost/${port}; printf held >&3; cat <&3; echo over`);
    await until(() => received.includes("held"), "the call holds a connection");
    await setNetwork(apiOf(berth), "script", ["db.invalid:5432"]);
    assert.equal(await outcome, "heldover\n");
    assert.match(await run(`curl -sS http://localhost:${webPort}/`), /^exit code 7: /);
  });
});
