import assert from "node:assert/strict";
import { chmod, mkdtemp, realpath, rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import type { Executor, ScriptOutcome, ScriptRun } from "../../src/executor/executor.ts";
import type { GuestNetwork } from "../../src/executor/guest-starter.ts";
import { openExecutor } from "../../src/executor/open-executor.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { DOOR, type Asked, type SocketGrant, type Told } from "../../src/network/relay-wire.ts";
import { giveFolder, makeTemporary } from "../../src/processes/work-folders.ts";
import { assertNothingLeft, failureOf } from "../support/executor.ts";
import { descendants } from "../support/processes.ts";
import { until } from "../support/until.ts";

const skip = process.platform !== "linux" ? "there is no sandbox here" : false;

describe("a script's network in the sandbox", { skip }, () => {
  const doors: FakeDoor[] = [];
  let executor: Executor;
  let home: string;

  before(async () => {
    home = await realpath(await mkdtemp(join(tmpdir(), "berth-script-network-")));
    await chmod(home, 0o755);
    const network: GuestNetwork = {
      open(user) {
        const folder = makeTemporary("door-");
        if (user) giveFolder(folder, user);
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
    await rm(home, { recursive: true });
    await assertNothingLeft();
  });

  const LISTED = ["db.test:5432", "db.test:22", "*.wild.test:443", "*.wild.test:5432", "127.0.0.9:80"];
  const run = (script: string, more: Partial<ScriptRun> = {}, listed = LISTED): Promise<ScriptOutcome> => {
    const network = { server: "script", grant: () => grantOf(listed) };
    return executor.runScript({
      tenant: "default",
      script: `#!/bin/bash\n${script}`,
      argv: [],
      env: {},
      deadlineMs: 60_000,
      network,
      ...more,
    });
  };
  const printed = async (...given: Parameters<typeof run>): Promise<string> => {
    const outcome = await run(...given);
    assert.ok(outcome.ok, JSON.stringify(outcome));
    return `${Buffer.from(outcome.stdout).toString()}${outcome.stderr}`;
  };
  const reach = (host: string, port: number): string =>
    `(exec 3<>/dev/tcp/${host}/${port} && echo hello >&3 && cat <&3);`;

  it("gives each listed host a name, at any port", async () => {
    assert.equal(
      await printed(reach("db.test", 5432) + reach("db.test", 22)),
      "db.test:5432 hello\ndb.test:22 hello\n",
    );
    assert.equal(await printed(reach("127.0.0.9", 80)), "127.0.0.9:80 hello\n");
    assert.match(await printed("cat /etc/hosts"), /^127\.1\.0\.\d+ db\.test$/m);
    assert.match(await printed("id -un; cat /etc/passwd"), /^nobody\nnobody:/);
  });

  it("gives hosts that are listed by their domain a name when they are looked up, and no others", async () => {
    const said = await printed(reach("a.wild.test", 443) + reach("b.wild.test", 5432) + reach("a.wild.test", 5432));
    assert.equal(said, "a.wild.test:443 hello\nb.wild.test:5432 hello\na.wild.test:5432 hello\n");
    assert.match(await printed(reach("wild.test", 443)), /wild\.test is not listed\n.*Name or service not known/);
    assert.match(await printed(reach("a.wild.test", 80)), /Connection refused/);
    assert.equal(await printed("getent ahosts a.wild.test | cut -d' ' -f1 | sort -u"), "127.1.0.3\n");
  });

  it("is whole for many hosts, and for an entry that says one twice", async () => {
    const many = Array.from({ length: 200 }, (_, index) => `h${index}.test:80`);
    const said = await printed(reach("h7.test", 80) + reach("h199.test", 80), {}, [...many, ...many, "localhost:80"]);
    assert.match(said, /^h7\.test:80 hello\n.*Connection refused/s, "only so many are listened for");
    assert.match(await printed(`curl -sS --http0.9 http://h199.test/`, {}, many), /^h199\.test:80 GET \/ HTTP/);
  });

  it("answers what nobody should ask of it, or ends that connection", async () => {
    const garbage = "head -c 100000 /dev/urandom";
    const said = await printed(
      `for at in 127.0.0.2/53 127.0.0.2/1080; do (exec 3<>/dev/tcp/$at; ${garbage} >&3 2>/dev/null; cat <&3 >/dev/null 2>&1); done
      (exec 3<>/dev/tcp/127.0.0.2/53; printf '\\0\\x0c\\0\\1\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0' >&3; cat <&3)
      ${reach("db.test", 5432)}`,
    );
    assert.match(said, /db\.test:5432 hello\n/);
  });

  it("gives a script with folders no way to what listens in them", async () => {
    const server = createServer((socket) => socket.end("hello from outside")).listen(join(home, "socket"));
    await new Promise((resolve) => server.once("listening", resolve));
    await chmod(join(home, "socket"), 0o777);
    const folders = [{ name: "docs", path: home, writable: false }];
    const perl = `perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die "none: $!"; connect($s, sockaddr_un("/folders/docs/socket")) or die "unreached: $!"; print <$s>'`;
    const said = await printed(`ls "$BERTH_FOLDER_docs"; ${perl}; ${reach("db.test", 5432)}`, { folders });
    server.close();
    assert.match(said, /^socket\ndb\.test:5432 hello\nnone: Address family not supported/);
  });

  it("keeps its door to itself", async () => {
    const outcome = run(`ls -A /sbx; find / -xdev -name door 2>/dev/null; ls /proc/*/root/sbx 2>/dev/null; sleep 1`);
    await until(() => doors[0]?.isOpen === true, "the door is open");
    const other = `exec 3<>/dev/tcp/db.test/5432; ls ${doors[0]!.folder}; cat <&3`;
    assert.match(await printed(other.replace("cat <&3", ":")), /No such file/);
    const ended = await outcome;
    assert.ok(ended.ok);
    assert.doesNotMatch(ended.stdout.toString(), /door|sockets|node/);
  });

  it("counts what is kept in its sockets as memory of the script", async () => {
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

  it("keeps no more in a socket than in a local one, whatever is wished", async () => {
    const perl = `perl -MSocket -MFcntl -e 'socket(my $l, AF_INET, SOCK_STREAM, 0); bind($l, sockaddr_in(0, INADDR_LOOPBACK)); listen($l, 1);
      socket(my $a, AF_INET, SOCK_STREAM, 0); setsockopt($a, SOL_SOCKET, SO_SNDBUF, pack("l", 1 << 30)); connect($a, getsockname($l)); accept(my $b, $l);
      setsockopt($b, SOL_SOCKET, SO_RCVBUF, pack("l", 1 << 30)); setsockopt($b, SOL_SOCKET, SO_RCVLOWAT, pack("l", 1 << 30));
      fcntl($a, F_SETFL, fcntl($a, F_GETFL, 0) | O_NONBLOCK); my $sent = 0; for (1..200) { while (my $n = syswrite($a, "x" x 4096)) { $sent += $n } select(undef, undef, undef, 0.002) } print $sent'`;
    const sent = Number(await printed(perl));
    assert.ok(sent > 4_096 && sent < 300_000, `${sent}`);
  });

  it("ends with the script, in whatever way that ends", async () => {
    const open = "exec 3<>/dev/tcp/db.test/5432;";
    assert.equal(failureOf(await run(`${open} sleep 100`, { deadlineMs: 1_500 })).reason, "timeout");
    const controller = new AbortController();
    const outcome = run(`${open} sleep 100`, { signal: controller.signal });
    await until(() => doors.at(-1)?.connections === 1, "it holds a connection");
    controller.abort();
    assert.equal(failureOf(await outcome).reason, "cancelled");
    assert.equal(await printed("kill -9 -1 2>/dev/null; echo here"), "here\n");
    const [killed, exited] = await Promise.all([run(`${open} kill -9 $$`), run("setsid sleep 100 & exit 3")]);
    assert.ok(killed.ok && exited.ok);
    assert.deepEqual([killed.exitCode, exited.exitCode], [137, 3]);
    await until(() => descendants().length === 0, "nothing of them is alive");
    await until(() => doors.every(({ connections }) => connections === 0), "no connection is left");
  });

  it("hands on what a script sent just before its end", async () => {
    await printed("exec 3<>/dev/tcp/db.test/5432; head -c 300000 /dev/zero >&3");
    await until(() => doors[0]!.receivedBytes === 300_000, "all of it came");
  });

  it("leaves the script its own limits", async () => {
    const said = await printed(
      `ulimit -n; ulimit -u; (for i in $(seq 200); do sleep 5 & done) 2>&1 | grep -c -m1 fork; :`,
    );
    assert.equal(said, "256\n64\n1\n");
  });

  it("says why there is none", async () => {
    const outcome = await run("echo never", {}, []);
    assert.ok(outcome.ok);
    assert.equal(outcome.exitCode, 1);
    assert.equal(outcome.stderr, "There is no network for this script: nothing is listed\n");
  });
});

function grantOf(listed: readonly string[]): SocketGrant {
  const hosts = listed.map((line) => {
    const [, wild, name = "", port] = /^(\*\.)?(.*):(\d+)$/.exec(line)!;
    return { kind: wild ? ("below" as const) : ("host" as const), name, port: Number(port) };
  });
  return { tenant: "default", server: "script", hosts, privateToo: false, privateHosts: [] };
}

/** Speaks as the relay does; whoever is connected gets the host and the port, and then what it sends, back. */
class FakeDoor {
  readonly folder: string;
  isOpen = false;
  connections = 0;
  receivedBytes = 0;
  readonly #servers: Server[] = [];
  #grant: SocketGrant | undefined;
  #sockets = 0;

  constructor(folder: string) {
    this.folder = folder;
  }

  async open(grant: SocketGrant): Promise<void> {
    this.#grant = grant;
    await this.#listen(DOOR, (line, tell) => {
      const asked = JSON.parse(line) as Asked;
      if ("listed" in asked) {
        const none: Told = { refused: "nothing is listed", code: "EACCES" };
        return tell(grant.hosts.length > 0 ? { hosts: grant.hosts } : none);
      }
      const host = "lookup" in asked ? asked.lookup : asked.connect.host;
      if (!this.#lists(host)) return tell({ refused: `${host} is not listed`, code: "EACCES" });
      if ("lookup" in asked) return tell({ addresses: ["203.0.113.1"] });
      void this.#offer(`${host}:${asked.connect.port} `).then((socket) => tell({ socket, address: "203.0.113.1" }));
    });
    this.isOpen = true;
  }

  async close(): Promise<void> {
    for (const server of this.#servers) server.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  #lists(host: string): boolean {
    return this.#grant!.hosts.some(({ kind, name }) => (kind === "host" ? name === host : host.endsWith(`.${name}`)));
  }

  async #listen(name: string, onLine: (line: string, tell: (told: Told) => void) => void): Promise<void> {
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
      this.connections++;
      socket.on("close", () => this.connections--).on("error", () => {});
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
