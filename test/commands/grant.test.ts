import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call } from "../support/berth.ts";
import { berth as command, exits, type Ran } from "../support/commands.ts";
import { berthInSuite } from "../support/suite.ts";
import { until } from "../support/until.ts";

const SOURCE = `/**
 * @secret API_TOKEN to read issues
 * @secret OTHER_TOKEN
 * @network api.example.org:8443
 */
import type { ToolContext } from "berth";
export const secret = async (name: string, context: ToolContext): Promise<string> => String(await context.secret(name));
export const load = async (url: string): Promise<string> => (await fetch(url)).text();
`;

/** Each command is another process on the data folder of a Berth that serves. */
describe("berth grant", () => {
  const berth = berthInSuite({
    texts: { "report.ts": SOURCE },
    mcps: { report: { definition: "report.ts", secrets: ["OWN_TOKEN"] } },
  });
  const grant = (...args: string[]): Promise<Ran> =>
    command(["grant", ...args], { env: { BERTH_DATA: join(berth.folder, "data") } });
  const say = async (tool: string, args: object): Promise<string> =>
    (await call(`${berth.url}/mcp/report`, tool, { ...args })).content[0].text as string;
  const entry = async (): Promise<Record<string, unknown>> => {
    const { body } = await apiOf(berth).send("GET", "/entries/report");
    return JSON.parse(body.files[body.entry] as string) as Record<string, unknown>;
  };

  it("lists what a definition requests, which grants nothing, and so does the server with the line to write", async () => {
    const listed = await exits(0, grant("report"));
    assert.equal(
      listed.stdout,
      [
        "@secret API_TOKEN to read issues (report.ts:2:4)",
        "@secret OTHER_TOKEN (report.ts:3:4)",
        "@network api.example.org:8443 (report.ts:4:4)",
        "",
      ].join("\n"),
    );
    assert.match(
      listed.stderr,
      /"secrets": \["OWN_TOKEN", "API_TOKEN", "OTHER_TOKEN"\],\n +"network": \["api\.example\.org:8443"\]/,
    );
    assert.deepEqual((await entry())["network"], undefined);
    const summary = await berth.server("report");
    const [first, second, third] = summary!.problems;
    assert.deepEqual(
      [first?.code, first?.file, first?.line, first?.severity],
      ["secret-requested", "report.ts", 2, "warning"],
    );
    assert.match(
      first!.message,
      /"API_TOKEN" \(to read issues\), which the entry "report" in mcps does not grant: set "secrets": \["OWN_TOKEN", "API_TOKEN", "OTHER_TOKEN"\], or accept it at \/mcp\/meta\/report\?tab=settings, or with "berth grant report"/,
    );
    assert.deepEqual([second?.code, third?.code], ["secret-requested", "network-requested"]);
    assert.match(
      await say("secret", { name: "API_TOKEN" }),
      /which its code requests: .*"secrets": \["API_TOKEN"\], or accept it at \/mcp\/meta\/report\?tab=settings/,
    );
    assert.match(
      await say("load", { url: "https://api.example.org:8443/" }),
      /api\.example\.org:8443 may not be reached: its code requests it, and "network" of the entry "report" .*berth grant report/,
    );
    assert.doesNotMatch(await say("load", { url: "https://else.example.org/" }), /requests/);
  });

  it("grants one of them, then the rest, by an edit of the entry that a Berth which serves the folder follows", async () => {
    for (const [args, message] of [
      [["report", "--secret", "API_TOKE"], /does not request the secret "API_TOKE", .*did you mean "API_TOKEN"\?/],
      [["report", "--network", "api.example.org"], /does not request the host "api\.example\.org"/],
      [["reprot"], /"reprot"; did you mean "report"\?/],
    ] as const) {
      const refused = await exits(2, grant(...args));
      assert.match(refused.stderr, message);
    }
    const one = await exits(0, grant("report", "--secret", "API_TOKEN"));
    assert.equal(one.stdout, "+ secret API_TOKEN\n");
    assert.deepEqual((await entry())["secrets"], ["OWN_TOKEN", "API_TOKEN"]);
    await apiOf(berth).send("PUT", "/secrets/API_TOKEN", "a value of its own");
    await until(async () => (await say("secret", { name: "API_TOKEN" })) === "a value of its own");
    const rest = await grant("report", "--all");
    assert.equal(rest.stdout, "+ secret OTHER_TOKEN\n+ network api.example.org:8443\n", rest.stderr);
    const { definition: _, ...granted } = await entry();
    assert.deepEqual(granted, {
      secrets: ["OWN_TOKEN", "API_TOKEN", "OTHER_TOKEN"],
      network: ["api.example.org:8443"],
    });
    const { body } = await apiOf(berth).send("GET", "/entries/report/history");
    assert.equal(body.versions[0].by, "command");
    assert.match((await grant("report", "--all")).stderr, /report has all that its definition requests/);
  });
});
