// Has a real agent, Codex, call each of the examples: `npm run agents`. What its model would want is told to it by a
// stand-in, and so are GitHub and a page of the web. All else is real, Postgres too, and everything is on loopback. Exit
// code 0: each call came to what it should.
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { startPostgres } from "../../dist/test/support/postgres.js";
import { clients } from "../snippets/clients.mjs";
import { installClients } from "../snippets/install.mjs";
import { makeImage, startBerth } from "../start-berth.mjs";
import { openModel } from "./model.mjs";
import { openSites, TOKEN } from "./sites.mjs";

const examples = fileURLToPath(new URL("../../examples", import.meta.url));
const AGENT_MS_MAX = 120_000;

const folder = mkdtempSync(join(tmpdir(), "berth-agents-"));
const codex = clients.find(({ id }) => id === "codex");
console.log(`Installing ${codex.name} ${codex.version} …`);
const agent = join(installClients([codex], join(folder, "clients")), codex.command);
const [model, sites, database] = await Promise.all([openModel(), openSites(), startPostgres()]);
let berth;
let failures = 0;
try {
  berth = await startBerth(makeImage(sourcesFor(sites.host, `127.0.0.1:${database.port}`), folder), folder, {
    BERTH_PRIVATE_HOSTS: sites.host,
  });
  await setSecret("GITHUB_TOKEN", TOKEN);
  await setSecret("DATABASE_URL", database.url);
  await check("notes", "write", { id: "shopping", title: "Shopping", text: "- tea" }, /notes:\/\/note\/shopping/);
  await check("notes", "read", { id: "shopping" }, /- tea/);
  await check("web", "read", { url: `http://${sites.host}/bread` }, /# Bread.*Flour, \*\*water\*\* and salt/);
  await check("github", "searchRepositories", { query: "node", count: 1 }, /nodejs\/node/);
  await check("postgres", "query", { sql: "select $1::int + 1 as next", values: [41] }, /"name":\s*"next".*42/);
} finally {
  await berth?.stop();
  await database.close();
  for (const each of [model, sites]) each.close();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failures === 0 ? 0 : 1);

/** The sources of the examples, with what stands in for the sites that they ask. */
function sourcesFor(host, database) {
  const from = join(folder, "sources");
  cpSync(examples, from, { recursive: true, filter: (file) => !file.includes("node_modules") });
  const file = join(from, "mcps.source.json");
  const { web, github, postgres, ...others } = JSON.parse(readFileSync(file, "utf8"));
  const entries = {
    ...others,
    postgres: { ...postgres, network: [database] },
    web: { ...web, network: [host] },
    github: { ...github, network: [host], env: { ...github.env, GITHUB_API_URL: `http://${host}` } },
  };
  writeFileSync(file, JSON.stringify(entries));
  return from;
}

async function setSecret(name, value) {
  const { status } = await fetch(`${berth.url}/api/secrets/${name}`, { method: "PUT", body: value });
  if (status !== 204) throw new Error(`the secret ${name} was not taken: status ${status}`);
}

async function check(server, tool, args, expected) {
  const answer = await agentCalls(server, tool, args);
  const isRight = expected.test(answer.replaceAll("\\n", " "));
  console.log(`${isRight ? "answers" : "FAILS  "}  ${server}: ${tool}`);
  if (isRight) return;
  console.log(answer);
  failures += 1;
}

/** The agent's last words, in a home of its own. */
async function agentCalls(server, tool, args) {
  model.want({ namespace: `mcp__${server}`, name: tool, arguments: args });
  const home = join(folder, "home");
  mkdirSync(home, { recursive: true });
  const settings = {
    model_provider: '"stand_in"',
    "model_providers.stand_in": `{name="stand-in", base_url="${model.url}", wire_api="responses", env_key="MODEL_KEY"}`,
    [`mcp_servers.${server}`]: `{url="${berth.url}/mcp/${server}"}`,
  };
  const options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--model", "stand-in"];
  for (const [name, value] of Object.entries(settings)) options.push("-c", `${name}=${value}`);
  const child = spawn(agent, ["exec", ...options, `Call ${tool}.`], {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home, CODEX_HOME: home, MODEL_KEY: "none" },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: AGENT_MS_MAX,
  });
  const [answer, told] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return answer.trim() === "" ? told : answer;
}
