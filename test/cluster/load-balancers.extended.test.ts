import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { Agent, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { JsonObject } from "../../src/lib/json.ts";
import { makeImage, request, withStatus } from "../support/berth.ts";
import { freePort } from "../support/free-port.ts";
import { ServeProcess } from "../support/serve-process.ts";
import { inOneOf, until } from "../support/until.ts";

const definition = `import type { ToolContext } from "berth";
const own = Math.random();
/** Which node serves. */
export const who = (): string => String(own);
/** Says five times that it goes on, and is done. */
export async function* steps(): AsyncGenerator<string, string> {
  for (let step = 0; step < 5; step++) {
    yield "step";
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  return "done";
}
/** Counts that it began, and takes a while. */
export async function begin({ state }: ToolContext): Promise<string> {
  await state.update<number>("begun", (count = 0) => count + 1);
  await new Promise((resolve) => setTimeout(resolve, 240_000));
  return "done";
}
/** How often it began. */
export const begun = async ({ state }: ToolContext): Promise<number> => (await state.get<number>("begun")) ?? 0;
`;
const PATH = `${process.env["PATH"]}:/usr/sbin:/usr/local/sbin`;
const ACCEPT = "application/json, text/event-stream";
/** The ports that the page has. */
const [CLIENTS, NODES] = [8080, [7421, 7422]];

/** The configuration of docs/scaling.md, as a program on a machine with other things on it can use it. */
const balancers = {
  haproxy: {
    config: (text: string) => text.replace("bind :", "bind 127.0.0.1:"),
    args: (file: string) => ["-db", "-f", file],
  },
  nginx: {
    config: (text: string, folder: string) => `pid ${folder}/pid;
error_log stderr;
daemon off;
master_process off;
events { worker_connections 256; }
http {
access_log off;
${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((each) => `${each}_temp_path ${folder}/${each};`).join("\n")}
${text.replace("listen ", "listen 127.0.0.1:")}
}`,
    args: (file: string) => ["-c", file],
  },
} as const;

for (const [name, { config, args }] of Object.entries(balancers)) {
  describe(`two nodes behind ${name}, as docs/scaling.md says`, () => {
    let folder: string;
    let env: Record<string, string>;
    let balancer: ChildProcess;
    let url: string;
    const nodes: ServeProcess[] = [];
    const ports: number[] = [];

    before(async () => {
      folder = await mkdtemp(join(tmpdir(), `berth-${name}-`));
      env = await makeImage(folder, { texts: { "who.ts": definition } });
      Object.assign(env, { BERTH_PUBLIC_URL: "http://mcp.example.com" });
      while (ports.length < 3) ports.push(await freePort());
      for (const index of NODES.keys()) nodes.push(await startNode(index));
      await startBalancer();
    });
    after(async () => {
      if (balancer.exitCode === null && balancer.kill("SIGKILL")) await once(balancer, "exit");
      await Promise.all(nodes.map((node) => node.end("SIGTERM")));
      await rm(folder, { recursive: true, force: true });
    });

    const startNode = (index: number): Promise<ServeProcess> =>
      ServeProcess.start(["--port", String(ports[index + 1])], env);

    async function startBalancer(): Promise<void> {
      const page = await readFile("docs/scaling.md", "utf8");
      let text = new RegExp(`\`\`\`${name}\n(.*?)\`\`\``, "s").exec(page)![1]!;
      for (const [index, port] of [CLIENTS, ...NODES].entries()) {
        assert.ok(text.includes(String(port)));
        text = text.replaceAll(String(port), String(ports[index]));
      }
      const file = join(folder, `${name}.conf`);
      await mkdir(join(folder, name));
      await writeFile(file, config(text, join(folder, name)));
      balancer = spawn(name, args(file), { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, PATH } });
      let said = "";
      balancer.stderr!.setEncoding("utf8").on("data", (chunk: string) => (said += chunk));
      url = `http://127.0.0.1:${ports[0]}`;
      await until(async () => {
        assert.equal(balancer.exitCode, null, said);
        return (await serving(4)).size === 2;
      }, `${name} reaches both nodes`);
    }

    /** The whole answer, whatever it is; rejects where there is none. */
    async function calling(tool: string, agent = new Agent()): Promise<{ status: number; text: string; at: number[] }> {
      const headers = { Host: "mcp.example.com", "Content-Type": "application/json", Accept: ACCEPT };
      const asked = httpRequest(`${url}/mcp/who`, { method: "POST", agent, headers });
      const meta = { progressToken: 1 };
      asked.end(JSON.stringify(request("tools/call", { name: tool, arguments: {}, _meta: meta })));
      const [response] = await once(asked, "response");
      let text = "";
      const at: number[] = [];
      for await (const chunk of response.setEncoding("utf8")) {
        text += chunk;
        at.push(performance.now());
      }
      return { status: response.statusCode, text, at };
    }

    /** The text of the result. */
    async function called(tool: string, agent?: Agent): Promise<string> {
      const { text } = await withStatus(200, calling(tool, agent));
      const { result } = JSON.parse(/^(?:data: )?(\{.*"result".*\})$/m.exec(text)![1]!) as { result: JsonObject };
      return (result["content"] as { text: string }[])[0]!.text;
    }

    async function serving(calls: number): Promise<Set<string>> {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const found = new Set<string>();
      for (let count = 0; count < calls; count++) found.add(await called("who", agent).catch(() => "none"));
      agent.destroy();
      return found;
    }

    it("share the requests of one connection", async () => {
      assert.equal((await serving(4)).size, 2);
    });

    it("pass on a stream as it is written", async () => {
      await inOneOf(5, async () => {
        const { text, at } = await calling("steps");
        assert.match(text, /"done"/);
        assert.ok(at.at(-1)! - at[0]! > 600, String(at));
      });
    });

    it("never begin a call twice, and serve on, when a node is killed", async () => {
      const calls = Array.from({ length: 4 }, () => calling("begin").catch((error: Error) => error));
      await until(async () => (await called("begun")) === "4");
      await nodes[0]!.end("SIGKILL");
      for (let count = 0; count < 10; count++)
        await until(() => called("who").catch(() => undefined), "it is served", 5_000);
      for (let count = 0; count < 10; count++) await called("who");
      assert.equal(await called("begun"), "4");
      nodes[0] = await startNode(0);
      await until(async () => (await serving(4)).size === 2, "both serve");
      await nodes[1]!.end("SIGKILL");
      for (const ended of await Promise.all(calls)) assert.ok(ended instanceof Error || !ended.text.includes("done"));
      nodes[1] = await startNode(1);
    });
  });
}
