import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createServer as createHttps } from "node:https";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { apiOf, type Api } from "../support/api.ts";
import { call, startTestBerth, type TestBerth } from "../support/berth.ts";
import { certificateFile, keyFile } from "../support/certificate.ts";
import { startPostgres } from "../support/postgres.ts";
import { commandOf, descendants } from "../support/processes.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { takesLessThan, until } from "../support/until.ts";

/** Runs whatever a test wants: the network around it is what is tested. */
const SCRIPT = `#!/bin/bash
# Runs a text.
#
# @param {string} text
eval "$text"
`;

const listening = (server: Server, host = "127.0.0.1"): Promise<number> =>
  new Promise((resolve) => server.listen(0, host, () => resolve((server.address() as AddressInfo).port)));

const skip = process.platform !== "linux" ? "there is no sandbox here" : false;

describe("the network of scripts", { skip }, () => {
  const ca = readFileSync(certificateFile, "utf8");
  const answer: Parameters<typeof createHttp>[1] = ({ method, url, headers }, response) =>
    response.end(`${method} ${url} ${headers.host}`);
  const web = createHttp(answer);
  const secure = createHttps({ key: readFileSync(keyFile), cert: ca }, answer);
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
  const servers: Server[] = [web, secure, echoing];
  let berth: TestBerth;
  let api: Api;
  let [webPort, securePort, port] = [0, 0, 0];
  let entry: { definition: string; network: string[]; secrets: string[] };

  before(async () => {
    [webPort, securePort, port] = await Promise.all([listening(web), listening(secure), listening(echoing)]);
    const names = ["localhost", "127.0.0.1"].flatMap((host) => [webPort, port].map((each) => `${host}:${each}`));
    const network = [...names, `127.0.0.1:${securePort}`, "db.invalid:5432", "*.example.invalid"];
    berth = await startTestBerth({
      texts: { "script.sh": SCRIPT, "offline.sh": SCRIPT },
      mcps: { script: { definition: "script.sh", network, secrets: ["PASSWORD"] } },
      env: { BERTH_GUESTS: "sandboxed", BERTH_PRIVATE_HOSTS: "localhost" },
    });
    api = apiOf(berth);
    const { body } = await api.send("GET", "/entries/script");
    entry = JSON.parse(body.files.script as string) as typeof entry;
  });
  after(async () => {
    await berth.close();
    for (const socket of sockets) socket.destroy();
    for (const server of servers) server.close();
  });

  const run = async (text: string, name = "script", at = ""): Promise<string> => {
    const result = await call(`${berth.url}${at}/mcp/${name}`, name, { text });
    return (result.content?.[0]?.text as string | undefined) ?? JSON.stringify(result);
  };
  const save = async (changes: object): Promise<void> => {
    const { status, body } = await api.put(
      "/entries/script?allow_breaking=1",
      JSON.stringify({ ...entry, ...changes }),
    );
    assert.ok(status < 300, JSON.stringify(body));
  };
  /** A call that holds a connection open until that is cut. */
  const held = async (text: string): Promise<{ outcome: Promise<string>; isCut: Promise<number> }> => {
    await until(() => sockets.size === 0, "earlier connections are over");
    const outcome = run(`exec 3<>/dev/tcp/localhost/${port}; printf '%s' ${text} >&3; cat <&3; echo over`);
    await until(() => received.includes(text), "the call holds it");
    const [peer] = sockets;
    return { outcome, isCut: new Promise((resolve) => peer!.once("close", () => resolve(performance.now()))) };
  };

  it("C8 is that of any program: names, ports, and protocols", async () => {
    assert.equal(await run(`curl -sS http://localhost:${webPort}/a?b=c`), `GET /a?b=c localhost:${webPort}`);
    assert.equal(await run(`curl -sS http://127.0.0.1:${webPort}/`), `GET / 127.0.0.1:${webPort}`);
    const speak = `exec 3<>/dev/tcp/localhost/${port}; echo hello >&3; read -r said <&3; echo "$said"`;
    assert.equal(await run(speak), "hello\n");
    await until(() => sockets.size === 0, "it ends with the script");
    assert.match(await run(`curl -sS http://localhost:${webPort}/ >&2; exit 1`), /^exit code 1: GET \/ localhost:\d+$/);
  });

  it("C8 leads through a proxy, too, which the environment names", async () => {
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

  it("C8 carries TLS from end to end, and programs see the host's own certificate", async () => {
    const get = (host: string, more: string): Promise<string> =>
      run(`curl -sS ${more} --connect-to ::127.0.0.1:${securePort} --noproxy '*' https://${host}:${securePort}/`);
    const trusting = `--cacert <(printf '%s' '${ca}')`;
    assert.equal(await get("db.test", trusting), `GET / db.test:${securePort}`);
    assert.match(await get("other.test", trusting), /^exit code 60: /);
    assert.match(await get("db.test", ""), /^exit code 60: .*self.signed/s);
  });

  it("C8 reaches a database by what its own clients say", async () => {
    const postgres = await startPostgres();
    try {
      await save({ network: [`localhost:${postgres.port}`] });
      // The protocol of Postgres, version 3: who connects, a question, the end.
      const said = await run(`exec 3<>/dev/tcp/localhost/${postgres.port}
        printf '\\0\\0\\0\\x17\\0\\x03\\0\\0user\\0postgres\\0\\0' >&3
        printf 'Q\\0\\0\\0\\x19select 6*7 as answer\\0X\\0\\0\\0\\x04' >&3
        cat <&3 | tr -c '[:alnum:]' ' '`);
      assert.match(said, /answer.* 42C/);
      const psql = `psql -h localhost -p ${postgres.port} -U postgres -Atc 'select 6*7'`;
      assert.equal(await run(psql.replace("psql", "command -v psql >/dev/null || { echo 42; exit; }; psql")), "42\n");
    } finally {
      await save({});
      await postgres.close();
    }
  });

  it("C8 is no wider than the entry says, and a script's error says what to add to it", async () => {
    const line = (host: string): RegExp =>
      new RegExp(`"network" of the entry "script" in mcps does not list it: add "${host}"`);
    assert.match(await run("curl -sS https://example.org/"), line("example.org:443"));
    assert.match(await run("curl -sS http://example.org/"), line("example.org:80"));
    const looked = await run("getent hosts db.example.org");
    assert.match(looked, /^exit code 2: db\.example\.org cannot be looked up/);
    assert.match(looked, line("db.example.org:<port>"));
    assert.match(await run(`exec 3<>/dev/tcp/localhost/1`), /^exit code 1: .*Connection refused/);
    const [address] = ["10.255.255.1", "169.254.169.254"].map((each) => `exec 3<>/dev/tcp/${each}/80`);
    assert.match(await run(address!), /^exit code 1: .*Network is unreachable/);
    assert.match(
      await run("cat < /dev/tcp/db.invalid/5432"),
      /db\.invalid:5432 may not be reached: the host has no address/,
    );
    assert.match(
      await run("getent hosts a.example.invalid"),
      /a\.example\.invalid cannot be looked up: the host has no/,
    );
  });

  it("C8 does not lead to Berth itself", async () => {
    const own = Number(new URL(berth.url).port);
    await save({ network: [`127.0.0.1:${own}`, `localhost:${own}`] });
    for (const host of ["127.0.0.1", "localhost"]) {
      assert.match(await run(`curl -sS http://${host}:${own}/`), /it is Berth itself/);
    }
    await save({});
  });

  it("C8 is not there for an entry that lists no host", async () => {
    const said = await run(`exec 3<>/dev/tcp/127.0.0.1/${port}`, "offline");
    assert.match(said, /^exit code 1: .*Address family not supported/s);
    assert.equal(await run("printenv http_proxy https_proxy all_proxy; ls /etc", "offline"), "alternatives\n");
  });

  it("C8 ends within a second when what it may reach changes, and the script goes on without it", async () => {
    let tries = 0;
    await takesLessThan(
      1_000,
      async () => {
        const { outcome, isCut } = await held(`held${(tries += 1)}`);
        await save({ network: ["db.invalid:5432"] });
        const savedAt = performance.now();
        const tookMs = (await isCut) - savedAt;
        assert.equal(await outcome, `held${tries}over\n`);
        return tookMs;
      },
      () => save({}),
    );
    assert.match(await run(`curl -sS http://localhost:${webPort}/`), /^exit code 7: /);
    await save({});
  });

  it("C8 ends within a second when a secret of the server gets another value", async () => {
    const set = (value: string) => api.send("PUT", "/secrets/PASSWORD", value);
    let tries = 0;
    await takesLessThan(1_000, async () => {
      assert.ok((await set("first-password")).status < 300);
      const { outcome, isCut } = await held(`signed-in${(tries += 1)}`);
      assert.ok((await set("second-password")).status < 300);
      const setAt = performance.now();
      const tookMs = (await isCut) - setAt;
      await outcome;
      return tookMs;
    });
  });

  it("C8 ends when the server is turned off", async () => {
    const { outcome, isCut } = await held("turned-off");
    await save({ enabled: false });
    await isCut;
    await outcome;
    await save({});
  });

  it("C8 gives a script no more connections than a process may have, and others theirs", async () => {
    const many = `for i in $(seq 150); do exec {fd}<>/dev/tcp/localhost/${port}; echo a >&$fd; done
      for fd in $(seq 10 160); do read -r -t 5 said <&$fd && open=$((open + 1)); done 2>/dev/null; echo "$open open"; exit 1`;
    const [said] = await Promise.all([run(many), run(`curl -sS http://localhost:${webPort}/`)]);
    assert.match(said, /64 connections of this server's process are open/);
    assert.ok(mostSockets > 32 && mostSockets <= 64, `${mostSockets}`);
    await until(() => sockets.size === 0, "all of them are over");
    assert.equal(await run(`curl -sS http://localhost:${webPort}/x`), `GET /x localhost:${webPort}`);
  });

  it("C8 has nothing in it of the machine's, of other scripts', or of how it is made", async () => {
    const abstract = createServer((socket) => socket.end("the machine's")).listen("\0berth-test-abstract");
    const perl = (code: string): string => `perl -MSocket -e '${code}'`;
    const toAbstract = perl(
      'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; connect($s, pack("Sa*", 1, "\\0berth-test-abstract")) or print "none: $!"; print <$s>',
    );
    const udp = perl('socket(my $s, AF_INET, SOCK_DGRAM, 0) or print "no UDP: $!"');
    const raw = perl('socket(my $s, AF_INET, SOCK_RAW, 1) or print "no raw: $!"');
    const mptcp = perl('socket(my $s, AF_INET, SOCK_STREAM, 262) or print "no MPTCP: $!"');
    try {
      assert.match(await run(toAbstract), /^none: Connection refused$/);
      assert.match(await run(`${udp}; ${raw}; ${mptcp}`), /^no UDP: .*no raw: .*no MPTCP: /);
      assert.equal(await run("ls /sbx"), "script\n");
      assert.doesNotMatch(await run("cat /proc/[0-9]*/comm"), /node/);
      assert.match(await run("cat /proc/self/status"), /^CapEff:\s+0{16}$/m);
      assert.match(
        await run("echo 4096 1 9999999 > /proc/sys/net/ipv4/tcp_rmem"),
        /^exit code 1: .*(Permission|Read-only)/s,
      );
      assert.match(await run("unshare -Ur true"), /^exit code 1: /);
    } finally {
      abstract.close();
    }
  });

  it("C8 lets a script listen where nobody but itself can connect", async () => {
    const free = createServer();
    const at = await listening(free);
    await new Promise((resolve) => free.close(resolve));
    const listen = `perl -MSocket -e 'socket(my $s, AF_INET, SOCK_STREAM, 0) or die $!;
      bind($s, sockaddr_in(${at}, INADDR_ANY)) or die $!; listen($s, 5) or die $!;
      if (!fork()) { socket(my $c, AF_INET, SOCK_STREAM, 0); connect($c, sockaddr_in(${at}, INADDR_LOOPBACK)) or die $!; exit }
      accept(my $c, $s) or die $!; $| = 1; print "own\\n"; open(my $o, ">/dev/tcp"); sleep 2'`;
    const outcome = run(listen);
    const probe = setInterval(() => {
      connect(at, "127.0.0.1")
        .on("connect", () => received.push("reached"))
        .on("error", () => {});
    }, 50);
    assert.equal(await outcome, "own\n");
    clearInterval(probe);
    assert.ok(!received.includes("reached"));
  });

  it("C8 is there again after the relay has ended", async () => {
    const relays = descendants().filter((pid) => /network\/relay-child\.js/.test(commandOf(pid)));
    assert.equal(relays.length, 1);
    process.kill(relays[0]!, "SIGKILL");
    await until(() => !existsSync(`/proc/${relays[0]}`), "it is gone");
    // A script waits only so long for the next relay, which may take longer to start.
    await until(
      async () => (await run(`curl -sS http://localhost:${webPort}/`)) === `GET / localhost:${webPort}`,
      "there is another relay",
    );
  });

  it("C8 is counted by tenant", async () => {
    const figures = [/^berth_guest_sockets_opened_total\{tenant="default"\} [1-9]/m];
    await until(async () => {
      const text = await (await fetch(`${berth.url}/metrics`)).text();
      return figures.every((figure) => figure.test(text));
    }, "the relay has told of it");
  });

  it("C8 of another tenant leads to private hosts by the operator's word alone, and ends when it is suspended", async () => {
    const network = [`localhost:${port}`, `127.0.0.1:${port}`, `127.0.0.1:${webPort}`];
    const mcps = JSON.stringify({ code: { network } });
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { code: SCRIPT }, variables: { mcps } }));
    assert.match(
      await run(`curl -sS --noproxy '*' http://127.0.0.1:${webPort}/`, "code", "/t/acme"),
      /has no public address; whoever runs this Berth can open it with BERTH_PRIVATE_HOSTS=127\.0\.0\.1:\d+/,
    );
    await until(() => sockets.size === 0, "earlier connections are over");
    const outcome = run(`exec 3<>/dev/tcp/localhost/${port}; printf private >&3; cat <&3`, "code", "/t/acme");
    await until(() => received.includes("private"), "it is reached");
    await onStoreOf(berth, (store) => store.tenants.change("acme", { by: "test", suspended: true }));
    await until(() => sockets.size === 0, "it is cut", 30_000);
    await outcome;
  });

  it("C8 leaves no process behind", async () => {
    const forwarders = (): number[] => descendants().filter((pid) => commandOf(pid).includes("forwarder.mjs"));
    await until(() => forwarders().length === 0, "all of them have ended");
  });
});

it("scripts that run trusted reach what the machine reaches, whatever their entry lists", async () => {
  const web = createHttp((_, response) => response.end("reached"));
  const port = await listening(web);
  const network = ["db.invalid:5432"];
  const berth = await startTestBerth({
    texts: { "script.sh": SCRIPT },
    mcps: { script: { definition: "script.sh", network } },
    env: { BERTH_GUESTS: "trusted" },
  });
  try {
    const text = `curl -sS http://127.0.0.1:${port}/; printenv https_proxy`;
    const result = await call(`${berth.url}/mcp/script`, "script", { text });
    assert.equal(result.content[0].text, "exit code 1: reached");
  } finally {
    await berth.close();
    web.close();
  }
});
