import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { readConfig } from "../../../src/config.ts";
import { examine, hostMachine } from "../../../src/features/doctor/doctor.ts";
import type { Diagnosis, Machine } from "../../../src/features/doctor/finding.ts";
import { checkNode, compareClocks } from "../../../src/features/doctor/host-checks.ts";
import { checkSandbox } from "../../../src/features/doctor/sandbox-checks.ts";
import { checkPort, checkProxy } from "../../../src/features/doctor/serving-checks.ts";
import { defaultLimits } from "../../../src/limits/limits.ts";
import { berthInProcess } from "../../support/in-process.ts";
import { inMaskedProc, ordinaryEnvironment } from "../../support/masked-proc.ts";
import { temporaryFolder } from "../../support/suite.ts";

const cli = fileURLToPath(new URL("../../../src/cli.js", import.meta.url));
const isLinux = process.platform === "linux";

const find = (findings: readonly Diagnosis[], check: string): Diagnosis => {
  const finding = findings.find((each) => each.check === check);
  assert.ok(finding, `${check} in ${JSON.stringify(findings)}`);
  return finding;
};

describe("berth doctor", () => {
  it("finds the sandbox of this machine working, and prints one line for each check", async (t) => {
    const env = { BERTH_PORT: "0", BERTH_DATA: join(temporaryFolder(t), "data") };
    const { code, stdout } = await berthInProcess(["doctor"], { env });
    assert.equal(code, 0, stdout);
    if (isLinux) assert.match(stdout, /^pass +sandbox +a guest and a script ran in the complete sandbox$/m);
    assert.match(stdout, /^pass +disk flush +a write reaches the disk in \d+\.\d ms/m);
    assert.equal(existsSync(env.BERTH_DATA), false);
  });

  it("prints JSON, and exits with 1 if a check failed or, with --strict, is degraded", async (t) => {
    const taken = createServer().listen(0, "127.0.0.1");
    t.after(() => taken.close());
    await once(taken, "listening");
    const data = temporaryFolder(t);
    const port = String((taken.address() as AddressInfo).port);
    taken.on("request", (_request, response) => response.writeHead(404).end());
    const failed = await berthInProcess(["doctor", "--json", "--data", data], { env: { BERTH_PORT: port } });
    assert.equal(failed.code, 1);
    const { status, findings } = JSON.parse(failed.stdout);
    assert.equal(status, "failed");
    assert.match(find(findings, "port").message, new RegExp(`EADDRINUSE.*:${port}`));
    assert.match(find(findings, "port").fix!, /BERTH_PORT/);

    const env = { BERTH_PORT: "0", BERTH_ALLOWED_HOSTS: "mcp.example.com" };
    const args = ["doctor", "--data", data];
    assert.equal((await berthInProcess(args, { env })).code, 0);
    assert.equal((await berthInProcess([...args, "--strict"], { env })).code, 1);
  });

  it("reports wrong settings, and checks the rest", async () => {
    const findings = await examine(hostMachine, { ...process.env, BERTH_PORT: "many" });
    assert.match(find(findings, "settings").message, /BERTH_PORT must be a whole number/);
    if (isLinux) assert.equal(find(findings, "sandbox").status, "pass");
  });

  it(
    "reports a data folder that this user may not write, with the command",
    { skip: !isLinux && "needs Linux" },
    async () => {
      const findings = await examine(hostMachine, { ...process.env, BERTH_PORT: "0", BERTH_DATA: "/proc/berth data" });
      const { status, fix } = find(findings, "data folder");
      assert.equal(status, "failed");
      assert.match(fix!, /^sudo install -d -m 700 -o \S+ "\/proc\/berth data"/);
    },
  );

  it("reports an unreachable Postgres without its password", async () => {
    const env = { ...process.env, BERTH_PORT: "0", BERTH_DATABASE: "postgres://u:hidden@127.0.0.1:1/none" };
    const finding = find(await examine(hostMachine, env), "Postgres");
    assert.equal(finding.status, "failed");
    assert.doesNotMatch(JSON.stringify(finding), /hidden/);
  });
});

describe("checks of the sandbox", () => {
  /** A machine with these files, on which the trial ends with a problem. */
  const machine = (files: Record<string, string>, problem: string | undefined, lacks?: string): Machine => ({
    platform: "linux",
    env: {},
    nodeVersion: "v24.0.0",
    uid: 1000,
    read: (file) => files[file] ?? "",
    exists: (file) => file in files,
    run: async () => "bubblewrap 0.9.0\n",
    trySandbox: async () =>
      problem === undefined ? (lacks === undefined ? {} : { lacks }) : { reason: `it fails (${problem})`, problem },
  });
  const check = (of: Machine): Promise<Diagnosis[]> => checkSandbox(of, { guests: "auto", limits: defaultLimits });
  const failing = (findings: readonly Diagnosis[]): string[] =>
    findings.filter(({ status }) => status !== "pass").map((each) => each.check);

  const RESTRICTED = { "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n" };
  const FILTERED = { "/proc/self/status": "Name:\tnode\nSeccomp:\t2\nSeccomp_filters:\t1\n" };
  const EPERM = "bwrap: No permissions to creating new namespace, likely because the kernel does not allow ...";

  it("names Ubuntu's AppArmor restriction, and the profile that lifts it", async () => {
    for (const problem of [
      "bwrap: setting up uid map: Permission denied",
      "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
    ]) {
      const findings = await check(machine(RESTRICTED, problem));
      assert.deepEqual(failing(findings), ["AppArmor", "sandbox"]);
      const [, file] = /^sudo install -m 644 "(.+)" \/etc\/apparmor\.d\/berth-bwrap && sudo apparmor_parser -r/.exec(
        find(findings, "AppArmor").fix!,
      )!;
      assert.match(
        readFileSync(file!, "utf8"),
        /^profile berth-bwrap \/usr\/bin\/bwrap flags=\(unconfined\) \{\n {2}userns,/m,
      );
    }
    assert.deepEqual(failing(await check(machine(RESTRICTED, undefined))), []);
  });

  it("names the seccomp profile of a container, and the options of its engine", async () => {
    const docker = find(await check(machine({ ...FILTERED, "/.dockerenv": "" }, EPERM)), "seccomp");
    const [, file] =
      /^docker run --security-opt seccomp="(.+)" --security-opt apparmor=unconfined --security-opt systempaths=unconfined …$/.exec(
        docker.fix!,
      )!;
    const { defaultAction, syscalls } = JSON.parse(readFileSync(file!, "utf8"));
    assert.equal(defaultAction, "SCMP_ACT_ALLOW");
    const denied = new Set(syscalls.flatMap(({ names }: { names: string[] }) => names));
    for (const name of ["clone", "unshare", "mount", "umount2", "pivot_root", "seccomp"])
      assert.ok(!denied.has(name), name);
    for (const name of ["bpf", "kexec_load", "init_module", "keyctl", "ptrace"]) assert.ok(denied.has(name), name);

    const podman = find(await check(machine({ ...FILTERED, "/run/.containerenv": "" }, EPERM)), "seccomp");
    assert.match(podman.fix!, /^podman run .*unmask=ALL/);
    const pod = { ...machine(FILTERED, EPERM), env: { KUBERNETES_SERVICE_HOST: "10.0.0.1" } };
    assert.match(find(await check(pod), "seccomp").fix!, /hostUsers: false.*localhostProfile: berth\.json/);
  });

  it("names user namespaces that are turned off, and the setting", async () => {
    const off = machine({ "/proc/sys/user/max_user_namespaces": "0\n" }, "bwrap: Creating new namespace failed");
    assert.match(find(await check(off), "user namespaces").fix!, /user\.max_user_namespaces=15000/);
    const debian = machine({ "/proc/sys/kernel/unprivileged_userns_clone": "0\n" }, EPERM);
    assert.match(find(await check(debian), "user namespaces").fix!, /unprivileged_userns_clone=1/);
  });

  it("tells how to install bubblewrap on this distribution", async () => {
    for (const [release, command] of [
      ["ID=ubuntu\nID_LIKE=debian\n", "sudo apt-get install bubblewrap"],
      ['ID="rocky"\nID_LIKE="rhel centos fedora"\n', "sudo dnf install bubblewrap"],
      ["ID=alpine\n", "sudo apk add bubblewrap"],
    ] as const) {
      const missing = { ...machine({ "/etc/os-release": release }, "bwrap is not installed"), run: async () => "" };
      assert.equal(find(await check(missing), "bubblewrap").fix, command);
    }
  });

  it("says what the reduced profile lacks, and that BERTH_GUESTS=trusted turns the sandbox off", async () => {
    const files = { "/.dockerenv": "", "/proc/self/mountinfo": "40 39 0:5 / /proc/sys ro - proc proc rw\n" };
    const findings = await check(machine(files, undefined, "scripts have no /proc"));
    assert.deepEqual(failing(findings), ["/proc", "sandbox"]);
    assert.match(find(findings, "/proc").message, /mounted over: \/proc\/sys/);
    assert.match(find(findings, "/proc").fix!, /systempaths=unconfined/);
    assert.deepEqual(find(findings, "sandbox").message, "reduced profile: scripts have no /proc");
    const trusted = await checkSandbox(machine({}, undefined), { guests: "trusted", limits: defaultLimits });
    assert.match(find(trusted, "sandbox").message, /BERTH_GUESTS=trusted turns it off/);
  });

  it("says that the sandbox needs Linux", async () => {
    const mac = { ...machine({}, "the sandbox needs Linux"), platform: "darwin" as const };
    assert.deepEqual(failing(await check(mac)), ["sandbox"]);
  });

  it("finds a masked /proc where it really is masked", { skip: !isLinux && "needs Linux" }, async (t) => {
    const env: NodeJS.ProcessEnv = { ...ordinaryEnvironment(t), BERTH_PORT: "0" };
    const { file, args } = inMaskedProc([process.execPath, cli, "doctor", "--json", "--data", `${env["HOME"]}/data`]);
    const { stdout } = await promisify(execFile)(file, args, { env });
    const { status, findings } = JSON.parse(stdout);
    assert.equal(status, "degraded");
    assert.match(find(findings, "/proc").message, /mounted over: .*\/proc\/sys/);
    assert.match(
      find(findings, "sandbox").message,
      /^reduced profile: scripts have no \/proc, scripts have no network/,
    );
  });

  it("finds namespaces that are really turned off", { skip: !isLinux && "needs Linux" }, async (t) => {
    const env: NodeJS.ProcessEnv = { ...ordinaryEnvironment(t), BERTH_PORT: "0" };
    const off = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"';
    const doctor = [process.execPath, cli, "doctor", "--json", "--data", `${env["HOME"]}/data`];
    const child = spawn("unshare", ["--user", "--map-root-user", "sh", "-c", off, "sh", ...doctor], { env });
    const stdout: Buffer[] = [];
    child.stdout.on("data", (bytes: Buffer) => stdout.push(bytes));
    const [code] = await once(child, "close");
    assert.equal(code, 1);
    const { findings } = JSON.parse(Buffer.concat(stdout).toString());
    assert.match(find(findings, "user namespaces").message, /user\.max_user_namespaces = 0/);
  });
});

describe("other checks", () => {
  it("accepts Node.js versions that get fixes", () => {
    const status = (nodeVersion: string): string => checkNode({ nodeVersion }).status;
    assert.deepEqual(["v18.20.0", "v20.18.3", "v20.19.0", "v22.14.0", "v23.1.0", "v24.4.1"].map(status), [
      "failed",
      "failed",
      "degraded",
      "pass",
      "degraded",
      "pass",
    ]);
  });

  it("compares clocks", () => {
    assert.equal(compareClocks(0, 0).status, "pass");
    assert.match(compareClocks(-5_000, 0).message, /set by -5000 ms/);
    assert.match(compareClocks(0, 90_000).message, /differs by 90000 ms/);
  });

  it("finds a proxy that passes on another Host, and a Berth at its port", async (t) => {
    const server = createServer((request, response) => {
      const isForeign = request.headers.origin !== undefined;
      response.writeHead(request.url === "/healthz" ? 200 : isForeign ? 403 : 200).end();
    }).listen(0, "127.0.0.1");
    t.after(() => server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const config = readConfig({ BERTH_PUBLIC_URL: `http://127.0.0.1:${port}` });
    const finding = await checkProxy(config);
    assert.equal(finding.status, "failed");
    assert.match(finding.fix!, /proxy_set_header Host \$http_host/);
    assert.equal((await checkPort({ host: "127.0.0.1", port })).status, "pass");
    const remote = readConfig({ BERTH_PUBLIC_URL: "http://mcp.example.com" });
    assert.match((await checkProxy(remote)).message, /not encrypted/);
  });
});
