import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { packageRoot } from "../../../src/config.ts";
import { planImport } from "../../../src/features/import/plan.ts";
import { parseServer } from "../../../src/upstream/launch/launcher-uri.ts";

/** Public files, with personal details and tokens replaced. */
interface Configuration {
  readonly file: string;
  readonly text: string;
  readonly secrets?: readonly string[];
}

const corpus = readFileSync(join(packageRoot, "test/features/import/corpus/configurations.jsonl"), "utf8")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line) as Configuration);

it("imports at least 95 % of the servers of 100 public files, and leaves no secret in an entry", (test) => {
  const place = { folder: "/project", home: "/home/user", readFile: () => "A=b\n" };
  let imported = 0;
  const refused: string[] = [];
  for (const { file, text, secrets = [] } of corpus) {
    const plan = planImport(file, text, place);
    const entries = JSON.stringify(plan.servers);
    imported += plan.servers.length;
    refused.push(...plan.refused.map(({ name, reason }) => `${name}: ${reason}`));
    for (const secret of secrets) {
      assert.ok(!entries.includes(secret) && !entries.includes(encodeURIComponent(secret)), secret);
      assert.ok([...plan.secrets.values()].includes(secret), secret);
    }
    for (const { entry } of plan.servers) {
      if (typeof entry["upstream"] === "string") assert.equal(parseServer(entry["upstream"]).problems, undefined);
      else assert.ok(typeof entry["command"] === "string" && entry["command"] !== "");
    }
  }
  test.diagnostic(
    `${corpus.length} files, ${imported} servers imported, ${refused.length} refused: ${refused.join("; ")}`,
  );
  assert.ok(corpus.length >= 100);
  assert.ok(imported / (imported + refused.length) >= 0.95, `${imported} of ${imported + refused.length}`);
});

it("imports commands and addresses of public files as they are written", () => {
  for (const { file, text, secrets } of corpus) {
    if (secrets || !file.endsWith(".json") || /\$\{|YOUR|your|REDACTED|REMPLACEZ/.test(text)) continue;
    const { servers } = planImport(file, text, { folder: "/project", home: "/home/user" });
    for (const { name, entry } of servers) {
      const raw = rawServer(text, name);
      if (!raw) continue;
      const launch = typeof entry["upstream"] === "string" ? parseServer(entry["upstream"]).launch! : undefined;
      if (launch && "url" in launch) {
        const query = launch.query.map(({ name: key, value }) => [key, value.text] as [string, string]);
        const { origin, pathname, searchParams } = new URL((raw.url ?? raw.httpUrl)!);
        assert.deepEqual([launch.url, query], [origin + pathname, [...searchParams]]);
      } else if (launch)
        assert.deepEqual(
          [launch.target, ...launch.args],
          raw.args!.filter((each) => each !== "-y"),
        );
      else assert.deepEqual([entry["command"], entry["args"] ?? []], [resolveCommand(raw), raw.args ?? []]);
    }
  }
});

/** Relative to the project, as clients start it. */
function resolveCommand({ command = "" }: RawServer): string {
  return command.startsWith(".") ? join("/project", command) : command;
}

interface RawServer {
  readonly command?: string;
  readonly args?: readonly string[];
  readonly url?: string;
  readonly httpUrl?: string;
}

function rawServer(text: string, name: string): RawServer | undefined {
  try {
    return (JSON.parse(text) as { mcpServers?: Record<string, RawServer> }).mcpServers?.[name];
  } catch {
    return undefined;
  }
}
