import assert from "node:assert/strict";
import { existsSync, realpathSync } from "node:fs";
import { chmod, lstat, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { beforeEach, describe, it } from "node:test";
import { clients } from "../../../src/features/clients/clients.ts";
import { exits, type Ran } from "../../support/commands.ts";
import { berthInProcess } from "../../support/in-process.ts";
import { testFolders } from "../../support/store.ts";
import { berthInSuite } from "../../support/suite.ts";
import { makeToken } from "../../support/tokens.ts";

describe("berth connect", () => {
  const files = ["reference_templates/echo.ts"];
  const berth = berthInSuite({ files });
  const guarded = berthInSuite({ files, env: { BERTH_ACCESS: "required" } });
  const newHome = testFolders("connect");
  let home: string;
  let folder: string;
  beforeEach(async () => {
    home = realpathSync(newHome());
    folder = join(home, "project");
    await mkdir(folder);
  });

  const connect = (args: readonly string[], env: Record<string, string> = {}, url = berth.url): Promise<Ran> =>
    berthInProcess(["connect", ...args], {
      cwd: folder,
      env: { HOME: home, XDG_CONFIG_HOME: undefined, BERTH_URL: url, ...env },
    });
  const place = async (file: string, text: string): Promise<string> => {
    const path = join(home, file);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
    return path;
  };

  it("writes each client's own file, and takes back what it wrote (C6)", async () => {
    await Promise.all(
      clients.map(async ({ id, userFile }) => {
        const { stderr } = await exits(0, connect(["echo", "--client", id, "--yes"]));
        const path = userFile({ HOME: home });
        assert.ok((await readFile(path, "utf8")).includes(`${berth.url}/mcp/echo`), path);
        assert.match(stderr, /^\+.*\/mcp\/echo/m);
        assert.doesNotMatch(stderr, /project/);
      }),
    );
    for (const { id, userFile } of clients.filter(({ id }) => id === "codex" || id === "vs-code")) {
      assert.equal((await connect(["echo", "--client", id, "--remove", "--yes"])).code, 0);
      assert.ok(!existsSync(userFile({ HOME: home })), id);
    }
  });

  it("writes a project's file, of all servers, under another name (C6)", async () => {
    const added = await exits(0, connect(["--client", "claude-code", "--project", "--name", "all", "--yes"]));
    assert.match(added.stderr, /Servers in a project's file must be approved/);
    const { mcpServers } = JSON.parse(await readFile(join(folder, ".mcp.json"), "utf8")) as { mcpServers: object };
    assert.deepEqual(mcpServers, { all: { type: "http", url: `${berth.url}/mcp` } });
    const { code, stderr } = await connect(["echo", "--client", "claude-desktop", "--project", "--yes"]);
    assert.deepEqual([code, stderr.includes("has no project file")], [2, true], stderr);
  });

  it("changes nothing with --print, nor where nobody can be asked, and shows the change both times (C6)", async () => {
    const path = await place(".cursor/mcp.json", "{}\n");
    const printed = await connect(["echo", "--client", "cursor", "--print"]);
    assert.deepEqual([printed.code, printed.stderr], [0, ""]);
    assert.match(printed.stdout, /^--- ~\/\.cursor\/mcp\.json\n\+\+\+ ~\/\.cursor\/mcp\.json\n@@ /);
    const asked = await exits(1, connect(["echo", "--client", "cursor"]));
    assert.match(asked.stderr, /^\+.*\/mcp\/echo"/m);
    assert.match(asked.stderr, /There is no terminal to confirm .*--yes/);
    assert.equal(await readFile(path, "utf8"), "{}\n");
  });

  it("follows links to the file itself, and keeps its permissions (C6)", async () => {
    const real = await place("dotfiles/settings.json", '{ "theme": "dark" }\n');
    await chmod(real, 0o640);
    await mkdir(join(home, ".gemini"));
    await symlink("../dotfiles/settings.json", join(home, ".gemini/settings.json"));
    assert.equal((await connect(["echo", "--client", "gemini", "--yes"])).code, 0);
    assert.ok((await lstat(join(home, ".gemini/settings.json"))).isSymbolicLink());
    assert.match(await readFile(real, "utf8"), /"theme": "dark", "mcpServers": \{"echo"/);
    assert.equal((await stat(real)).mode & 0o777, 0o640);
    assert.deepEqual(await readdir(dirname(real)), ["settings.json"]);

    // A link whose file is not there yet.
    await mkdir(join(home, ".codex"));
    await symlink("../dotfiles/codex.toml", join(home, ".codex/config.toml"));
    assert.equal((await connect(["echo", "--client", "codex", "--yes"])).code, 0);
    assert.match(await readFile(join(home, "dotfiles/codex.toml"), "utf8"), /^\[mcp_servers\.echo\]/);
    assert.equal((await connect(["echo", "--client", "codex", "--remove", "--yes"])).code, 0);
    assert.equal(await readFile(join(home, "dotfiles/codex.toml"), "utf8"), "");
  });

  it("follows no link out of a project, which another person may have put there (C6)", async () => {
    const other = await place("other.json", "{}\n");
    const links = [
      [".mcp.json", other, "claude-code"],
      [".mcp.json", join(home, "new/file.json"), "claude-code"],
      [".mcp.json", "/dev/zero", "claude-code"],
      [".cursor", home, "cursor"],
      [".codex", join(home, "missing"), "codex"],
    ] as const;
    for (const [link, target, client] of links) {
      await symlink(target, join(folder, link));
      const { code, stderr } = await connect(["echo", "--client", client, "--project", "--yes"]);
      assert.notEqual(code, 0, target);
      assert.match(stderr, /leads out of the project/, target);
      await rm(join(folder, link));
    }
    assert.equal(await readFile(other, "utf8"), "{}\n");
    assert.deepEqual((await readdir(home)).sort(), ["other.json", "project"]);
    await mkdir(join(folder, "real"));
    await symlink("real", join(folder, ".cursor"));
    assert.equal((await connect(["echo", "--client", "cursor", "--project", "--yes"])).code, 0);
    assert.match(await readFile(join(folder, "real/mcp.json"), "utf8"), /"echo"/);
  });

  it("leaves a file alone that it cannot read, and says where the fault is (C6)", async () => {
    const text = '{\n  "mcpServers": {\n    "a": {},,\n  }\n}\n';
    const path = await place(".cursor/mcp.json", text);
    const { stderr } = await exits(2, connect(["echo", "--client", "cursor", "--yes"]));
    assert.match(stderr, /^berth: The client's file was not changed: \S+mcp\.json:3:13: /);
    assert.equal(await readFile(path, "utf8"), text);
  });

  it("neither replaces nor removes a server of the same name that is another one (C6)", async () => {
    const text = '{ "mcpServers": { "echo": { "url": "https://other.example/mcp" } } }\n';
    const path = await place(".cursor/mcp.json", text);
    for (const more of [[], ["--remove"]]) {
      const { stderr } = await exits(2, connect(["echo", "--client", "cursor", "--yes", ...more]));
      assert.match(stderr, /"echo" in ~\/\.cursor\/mcp\.json of Cursor points to https:\/\/other\.example\/mcp, not/);
    }
    assert.equal(await readFile(path, "utf8"), text);
    // The address with /mcp at its end is the same server.
    await connect([`${berth.url}/mcp/echo/mcp`, "--client", "codex", "--yes"]);
    assert.equal((await connect(["echo", "--client", "codex", "--remove", "--yes"])).code, 0);
    assert.ok(!existsSync(join(home, ".codex/config.toml")));
    // A release is another one.
    const ofRelease = `[mcp_servers.echo]\nurl = "${berth.url}/mcp/echo@baguqeera"\n`;
    await place(".codex/config.toml", ofRelease);
    assert.match(
      (await connect(["echo", "--client", "codex", "--yes"])).stderr,
      /points to \S+\/mcp\/echo@baguqeera, not/,
    );
  });

  it("names the variable of the token where one is needed, and never writes the token (C6)", async () => {
    const { token } = await makeToken(guarded, { can: ["call", "read"] });
    const some = clients.filter(({ id }) => ["claude-code", "claude-desktop", "codex", "vs-code"].includes(id));
    await Promise.all(
      some.map(async ({ id, userFile }) => {
        const { code, stderr } = await connect(["echo", "--client", id, "--yes"], { BERTH_TOKEN: token }, guarded.url);
        assert.equal(code, 0, stderr);
        const text = await readFile(userFile({ HOME: home }), "utf8");
        assert.match(text, /BERTH_TOKEN|input:echo-token|<token>/);
        assert.ok(!`${text}${stderr}`.includes(token), id);
      }),
    );
    const made = await stat(join(home, ".config/Claude/claude_desktop_config.json"));
    assert.equal(made.mode & 0o777, 0o600, "a file that is to hold a token is its owner's alone");
    const refused = await connect(["echo", "--client", "codex", "--yes"], { BERTH_TOKEN: `${token}x` }, guarded.url);
    assert.deepEqual(
      [refused.code, refused.stderr.includes("rejects the token in BERTH_TOKEN")],
      [2, true],
      refused.stderr,
    );
  });

  it("says what is wrong with a server, an address, or a client", async () => {
    for (const [args, said] of [
      [["ecko", "--client", "codex"], /No such server: http:\S+\/mcp\/ecko/],
      [["echo", "--client", "codx"], /"codx" is not a client; use one of claude-code, .*; did you mean codex\?/],
      [
        ["http://127.0.0.1:1/mcp/echo", "--client", "codex"],
        /no MCP server answers at http:\/\/127\.0\.0\.1:1\/mcp\/echo/,
      ],
      [["http://ada:s3cret@127.0.0.1:1/mcp/echo", "--client", "codex"], /must have only a host and a path/],
      [["echo", "--url", "ftp://x", "--client", "codex"], /"ftp:\/\/x" is not an http or https URL/],
      [["echo", "--name", "a.b", "--client", "codex"], /--name takes letters, digits and "-"/],
    ] as const) {
      const { stderr } = await exits(2, connect([...args, "--yes"]));
      assert.match(stderr, said);
      assert.ok(!stderr.includes("s3cret"));
    }
    assert.deepEqual(await readdir(home), ["project"]);
  });
});
