import assert from "node:assert/strict";
import { once } from "node:events";
import { chmod, rm } from "node:fs/promises";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import type { Executor, ScriptOutcome, ScriptRun } from "../../src/executor/executor.ts";
import type { GuestNetwork } from "../../src/executor/guest-starter.ts";
import { openExecutor } from "../../src/executor/open-executor.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { SOCKET_NAME, type Asked, type SocketGrant, type RelayReply } from "../../src/network/relay-wire.ts";
import { grantFolder, makeTemporary } from "../../src/processes/work-folders.ts";
import { assertNothingLeft, failureOf, networkOf, openRig, scriptRun } from "../support/executor.ts";
import { freePort } from "../support/free-port.ts";
import { listening } from "../support/listening.ts";
import { descendants } from "../support/processes.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { until } from "../support/until.ts";

const skip = process.platform !== "linux" ? "there is no sandbox here" : false;

describe("a script's network in the sandbox", { skip }, () => {
  const doors: FakeDoor[] = [];
  let executor: Executor;

  before(async () => {
    await chmod(home, 0o755);
    const network: GuestNetwork = {
      open(user) {
        const folder = makeTemporary("door-");
        if (user) grantFolder(folder, user);
        const door = new FakeDoor(folder);
        doors.push(door);
        return { folder, bind: (grant) => door.open(grant), close: () => void door.close() };
      },
    };
    executor = await openExecutor({ mode: "sandboxed", limits: { ...defaultLimits, guestSpareProcesses: 0 }, network });
  });
  afterEach(() => void doors.splice(0));
  after(async () => {
    await executor.close();
    await assertNothingLeft();
  });
  const home = temporaryFolder();

  const LISTED = ["db.test:5432", "db.test:22", "*.wild.test:443", "*.wild.test:5432", "127.0.0.9:80"];
  const run = (script: string, more: Partial<ScriptRun> = {}, listed = LISTED): Promise<ScriptOutcome> =>
    executor.runScript(scriptRun(`#!/bin/bash\n${script}`, { network: networkOf(...listed), ...more }));
  const printed = async (...given: Parameters<typeof run>): Promise<string> => {
    const outcome = await run(...given);
    assert.ok(outcome.ok, JSON.stringify(outcome));
    return `${Buffer.from(outcome.stdout).toString()}${outcome.stderr}`;
  };
  const reach = (host: string, port: number): string =>
    `(exec 3<>/dev/tcp/${host}/${port} && echo hello >&3 && cat <&3);`;

  it("resolves hosts of listed domains on demand, and no others", async () => {
    const said = await printed(reach("a.wild.test", 443) + reach("b.wild.test", 5432) + reach("a.wild.test", 5432));
    assert.equal(said, "a.wild.test:443 hello\nb.wild.test:5432 hello\na.wild.test:5432 hello\n");
    assert.match(await printed(reach("wild.test", 443)), /wild\.test is not listed\n.*Name or service not known/);
    assert.match(await printed(reach("a.wild.test", 80)), /Connection refused/);
    assert.equal(await printed("getent ahosts a.wild.test | cut -d' ' -f1 | sort -u"), "127.1.0.3\n");
  });

  it("supports many hosts, and hosts listed twice", async () => {
    const many = Array.from({ length: 200 }, (_, index) => `h${index}.test:80`);
    const said = await printed(reach("h7.test", 80) + reach("h199.test", 80), {}, [...many, ...many, "localhost:80"]);
    assert.match(said, /^h7\.test:80 hello\n.*Connection refused/s, "only so many are listened for");
    assert.match(await printed(`curl -sS --http0.9 http://h199.test/`, {}, many), /^h199\.test:80 GET \/ HTTP/);
  });

  it("survives garbage sent to its resolver and proxy", async () => {
    const garbage = "head -c 100000 /dev/urandom";
    const said = await printed(
      `for at in 127.0.0.2/53 127.0.0.2/1080; do (exec 3<>/dev/tcp/$at; ${garbage} >&3 2>/dev/null; cat <&3 >/dev/null 2>&1); done
      (exec 3<>/dev/tcp/127.0.0.2/53; printf '\\0\\x0c\\0\\1\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0' >&3; cat <&3)
      ${reach("db.test", 5432)}`,
    );
    assert.match(said, /db\.test:5432 hello\n/);
  });

  it("does not reach sockets in the folders of a script", async () => {
    const server = createServer((socket) => socket.end("hello from outside")).listen(join(home, "socket"));
    await new Promise((resolve) => server.once("listening", resolve));
    await chmod(join(home, "socket"), 0o777);
    const folders = [{ name: "docs", path: home, writable: false }];
    const perl = `perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die "none: $!"; connect($s, sockaddr_un("/folders/docs/socket")) or die "unreached: $!"; print <$s>'`;
    const said = await printed(`ls "$BERTH_FOLDER_docs"; ${perl}; ${reach("db.test", 5432)}`, { folders });
    server.close();
    assert.match(said, /^socket\ndb\.test:5432 hello\nnone: Address family not supported/);
  });

  it("hides its egress socket from scripts", async () => {
    const look = "ls -A /sbx; find / -xdev -name door 2>/dev/null; ls /proc/*/root/sbx 2>/dev/null";
    const outcome = run(`${look}; cat < /dev/tcp/db.test/5432`);
    await until(() => doors[0]?.connections.size === 1, "it has looked");
    const other = `exec 3<>/dev/tcp/db.test/5432; ls ${doors[0]!.folder}; cat <&3`;
    assert.match(await printed(other.replace("cat <&3", ":")), /No such file/);
    for (const socket of doors[0]!.connections) socket.end();
    const ended = await outcome;
    assert.ok(ended.ok);
    assert.doesNotMatch(ended.stdout.toString(), /door|sockets|node/);
  });

  it("charges data in its sockets to the memory of the script", async () => {
    const perl = `exec perl -MSocket -MFcntl -e 'my @kept;
      for (1..8) { my $p = fork(); next if $p;
        socket(my $l, AF_INET, SOCK_STREAM, 0); bind($l, sockaddr_in(0, INADDR_LOOPBACK)); listen($l, 128);
        while (1) { socket(my $a, AF_INET, SOCK_STREAM, 0) or last; connect($a, getsockname($l)) or last; accept(my $b, $l) or last;
          for my $end ($a, $b) { setsockopt($end, SOL_SOCKET, SO_SNDBUF, pack("l", 1 << 30)); setsockopt($end, SOL_SOCKET, SO_RCVBUF, pack("l", 1 << 30));
            fcntl($end, F_SETFL, fcntl($end, F_GETFL, 0) | O_NONBLOCK); while (defined syswrite($end, "x" x 65536)) {} push @kept, $end } }
        while (1) { my $n = 0; $n++ for 1..1000000 } } wait()'`;
    const failure = failureOf(await run(perl));
    assert.equal(failure.reason, "memory", failure.message);
  });

  it("limits socket buffers, whatever a script sets", async () => {
    const perl = `perl -MSocket -MFcntl -e 'socket(my $l, AF_INET, SOCK_STREAM, 0); bind($l, sockaddr_in(0, INADDR_LOOPBACK)); listen($l, 1);
      socket(my $a, AF_INET, SOCK_STREAM, 0); setsockopt($a, SOL_SOCKET, SO_SNDBUF, pack("l", 1 << 30)); connect($a, getsockname($l)); accept(my $b, $l);
      setsockopt($b, SOL_SOCKET, SO_RCVBUF, pack("l", 1 << 30)); setsockopt($b, SOL_SOCKET, SO_RCVLOWAT, pack("l", 1 << 30));
      fcntl($a, F_SETFL, fcntl($a, F_GETFL, 0) | O_NONBLOCK); my $sent = 0; for (1..200) { while (my $n = syswrite($a, "x" x 4096)) { $sent += $n } select(undef, undef, undef, 0.002) } print $sent'`;
    const sent = Number(await printed(perl));
    assert.ok(sent > 4_096 && sent < 300_000, `${sent}`);
  });

  it("ends with the script, however that ends", async () => {
    const open = "exec 3<>/dev/tcp/db.test/5432;";
    assert.equal(failureOf(await run(`${open} sleep 100`, { deadlineMs: 500 })).reason, "timeout");
    const controller = new AbortController();
    const outcome = run(`${open} sleep 100`, { signal: controller.signal });
    await until(() => doors.at(-1)?.connections.size === 1, "it holds a connection");
    controller.abort();
    assert.equal(failureOf(await outcome).reason, "cancelled");
    assert.equal(await printed("kill -9 -1 2>/dev/null; echo here"), "here\n");
    const [killed, exited] = await Promise.all([run(`${open} kill -9 $$`), run("setsid sleep 100 & exit 3")]);
    assert.ok(killed.ok && exited.ok);
    assert.deepEqual([killed.exitCode, exited.exitCode], [137, 3]);
    await until(() => descendants().length === 0, "nothing of them is alive");
    await until(() => doors.every(({ connections }) => connections.size === 0), "no connection is left");
  });

  it("delivers what a script sent just before it ended", async () => {
    await printed("exec 3<>/dev/tcp/db.test/5432; head -c 300000 /dev/zero >&3");
    await until(() => doors[0]!.receivedBytes === 300_000, "all of it came");
  });

  it("leaves the script its own limits", async () => {
    const said = await printed(
      `ulimit -n; ulimit -u; (for i in $(seq 200); do sleep 5 & done) 2>&1 | grep -c -m1 fork; :`,
    );
    assert.equal(said, "256\n64\n1\n");
  });

  it("contains nothing of the machine, of other scripts, or of its own setup", async (t) => {
    const abstract = createServer((socket) => socket.end("the machine's")).listen("\0berth-test-abstract");
    const perl = (code: string): string => `perl -MSocket -e '${code}'`;
    const toAbstract = perl(
      'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; connect($s, pack("Sa*", 1, "\\0berth-test-abstract")) or print "none: $!"; print <$s>',
    );
    const udp = perl('socket(my $s, AF_INET, SOCK_DGRAM, 0) or print "no UDP: $!"');
    const raw = perl('socket(my $s, AF_INET, SOCK_RAW, 1) or print "no raw: $!"');
    const mptcp = perl('socket(my $s, AF_INET, SOCK_STREAM, 262) or print "no MPTCP: $!"');
    t.after(() => abstract.close());
    assert.match(await printed(toAbstract), /^none: Connection refused$/);
    assert.match(await printed(`${udp}; ${raw}; ${mptcp}`), /^no UDP: .*no raw: .*no MPTCP: /);
    assert.equal(await printed("ls /sbx"), "script\n");
    assert.doesNotMatch(await printed("cat /proc/[0-9]*/comm"), /node/);
    assert.match(await printed("cat /proc/self/status"), /^CapEff:\s+0{16}$/m);
    assert.match(await printed("echo 4096 1 9999999 > /proc/sys/net/ipv4/tcp_rmem || :"), /Permission|Read-only/);
    assert.equal(await printed("unshare -Ur true 2>/dev/null || echo refused"), "refused\n");
  });

  it("lets a script listen where only the script itself can connect", async () => {
    const port = await freePort();
    const listen = `perl -MSocket -e 'socket(my $s, AF_INET, SOCK_STREAM, 0) or die $!;
      bind($s, sockaddr_in(${port}, INADDR_ANY)) or die $!; listen($s, 5) or die $!;
      if (!fork()) { socket(my $c, AF_INET, SOCK_STREAM, 0); connect($c, sockaddr_in(${port}, INADDR_LOOPBACK)) or die $!; exit }
      accept(my $c, $s) or die $!; $| = 1; print "own\\n"; exec "bash", "-c", "cat < /dev/tcp/db.test/5432"'`;
    const outcome = printed(listen);
    await until(() => doors[0]?.connections.size === 1, "the script listens");
    await assert.rejects(once(connect(port, "127.0.0.1"), "connect"), { code: "ECONNREFUSED" });
    for (const socket of doors[0]!.connections) socket.end();
    assert.equal(await outcome, "own\n");
  });
});

it("a trusted script has the network of the machine, whatever its entry lists", async (t) => {
  const rig = await openRig("trusted", { guestSpareProcesses: 0 });
  const server = createServer((socket) => socket.end("reached"));
  const port = await listening(server);
  t.after(async () => {
    await rig.close();
    server.close();
  });
  const script = `#!/bin/bash\ncat < /dev/tcp/127.0.0.1/${port}; printenv https_proxy`;
  const outcome = await rig.executor.runScript(scriptRun(script, { network: networkOf("db.invalid:5432") }));
  assert.ok(outcome.ok && outcome.exitCode === 1);
  assert.equal(String(outcome.stdout), "reached");
});

/** Speaks as the relay does; whoever is connected gets the host and the port, and then what it sends, back. */
class FakeDoor {
  readonly folder: string;
  readonly connections = new Set<Socket>();
  receivedBytes = 0;
  readonly #servers: Server[] = [];
  #grant: SocketGrant | undefined;
  #sockets = 0;

  constructor(folder: string) {
    this.folder = folder;
  }

  async open(grant: SocketGrant): Promise<void> {
    this.#grant = grant;
    await this.#listen(SOCKET_NAME, (line, tell) => {
      const asked = JSON.parse(line) as Asked;
      if ("listed" in asked) {
        const none: RelayReply = { refused: "nothing is listed", code: "EACCES" };
        return tell(grant.hosts.length > 0 ? { hosts: grant.hosts } : none);
      }
      const host = "lookup" in asked ? asked.lookup : asked.connect.host;
      if (!this.#lists(host)) return tell({ refused: `${host} is not listed`, code: "EACCES" });
      if ("lookup" in asked) return tell({ addresses: ["203.0.113.1"] });
      void this.#offer(`${host}:${asked.connect.port} `).then((socket) => tell({ socket, address: "203.0.113.1" }));
    });
  }

  async close(): Promise<void> {
    for (const server of this.#servers) server.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  #lists(host: string): boolean {
    return this.#grant!.hosts.some(({ kind, name }) => (kind === "host" ? name === host : host.endsWith(`.${name}`)));
  }

  async #listen(name: string, onLine: (line: string, tell: (told: RelayReply) => void) => void): Promise<void> {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", (chunk) => onLine(String(chunk), (told) => void socket.write(`${JSON.stringify(told)}\n`)));
    });
    await this.#serve(server, name);
  }

  async #offer(greeting: string): Promise<string> {
    const name = `s${++this.#sockets}`;
    const server = createServer((socket) => {
      server.close();
      this.connections.add(socket);
      socket.on("close", () => this.connections.delete(socket)).on("error", () => {});
      socket.on("data", (chunk) => {
        this.receivedBytes += chunk.length;
        if (chunk.includes("\n")) socket.end(greeting + String(chunk));
      });
      // Whoever is asked may be slow, so that more is on its way than what one buffer holds.
      socket.pause();
      setTimeout(() => socket.resume(), 50);
    });
    await this.#serve(server, name);
    return name;
  }

  #serve(server: Server, name: string): Promise<void> {
    this.#servers.push(server);
    return new Promise((resolve) => {
      server.listen({ path: join(this.folder, name), readableAll: true, writableAll: true }, resolve);
    });
  }
}
