import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import type { AccessGrant } from "../../src/access/principal.ts";
import { RIGHTS, type Power } from "../../src/access/rights.ts";
import { apiOf, type Api, type ApiReply } from "../support/api.ts";
import { modern, post, request, type TestBerth } from "../support/berth.ts";
import { rows } from "../support/rows.ts";
import { berthFor, berthInSuite } from "../support/suite.ts";
import { addTenant, onStoreOf } from "../support/tenants.ts";
import { bearer, makeToken, signIn } from "../support/tokens.ts";
import { fixtures } from "../support/upstreams.ts";

const OPERATOR = "the-operators-own-token";
const SOURCE = "export const one = (): number => 1;";
const PROGRAM = `mcp+node://${join(fixtures, "asker.mjs")}`;

/** The permissions of a grant, implemented a second time from the words of the documentation. */
function mayUse({ can, servers }: AccessGrant, power: Power, server: string): boolean {
  const { action, of } = RIGHTS[power];
  const implied = can.includes("admin") || can.includes(action) || (action === "read" && can.includes("edit"));
  return implied && (servers === undefined || (of === "server" && servers.includes(server)));
}

type Headers = Readonly<Record<string, string>>;

/** One way to use a power of the server `alpha`, or of its tenant. Its answer is a success, or a refusal. */
interface Attempt {
  readonly power: Power;
  readonly way: string;
  readonly send: (headers: Headers) => Promise<{ readonly status: number; readonly body?: unknown }>;
  /** The status for a permitted caller, where it is no success: the requested thing does not exist. */
  readonly answered?: number | undefined;
  /** The powers that it needs besides, to be tried at all. */
  readonly besides?: readonly Power[];
}

/** A Berth with everything needed to try each way of each power. */
class Trial {
  readonly berth: TestBerth;
  readonly #api: Api;
  #count = 0;
  /** The CIDs of the server's source, of a variable, and of releases by their grants. */
  #source = "";
  #colour = "";
  readonly #releases = new Map<Power, string>();
  #plain = "";

  constructor(berth: TestBerth) {
    this.berth = berth;
    this.#api = apiOf(berth);
  }

  async #sent(method: string, path: string, body?: unknown, headers: Headers = {}): Promise<ApiReply> {
    return this.#api.send(method, path, body, { "Berth-Allow-Breaking": "true", ...headers });
  }

  async #must(method: string, path: string, body?: unknown): Promise<ApiReply> {
    const reply = await this.#sent(method, path, body, { "If-Match": "*", ...bearer(OPERATOR) });
    assert.ok(reply.status < 300, `${method} ${path}: ${JSON.stringify(reply.body)}`);
    return reply;
  }

  /** The entry for each power, with the grant that the power is about. */
  #entryWith(power: Power): object {
    const number = ++this.#count;
    const given: Partial<Record<Power, object>> = {
      secrets: { secrets: [`SECRET_${number}`] },
      network: { network: [`host-${number}.example.org`] },
      folders: { folders: [`folder_${number}`] },
      variables: { variables: ["colour", `other-${number}`] },
      approvals: { schema_validation: "ignore" },
    };
    if (power === "upstream") return { upstream: `mcp+http://127.0.0.1:1/mcp?n=${number}` };
    if (power === "programs") return { upstream: PROGRAM };
    const base = { definition: this.#source, variables: [] };
    return { ...base, ...(given[power] ?? { description: `Number ${number}` }) };
  }

  async prepare(): Promise<void> {
    const { body } = await this.#must("GET", "/definitions/alpha");
    this.#source = body.cid as string;
    this.#colour = (await this.#must("GET", "/variables/colour")).body.cid as string;
    for (const power of ["secrets", "network", "folders", "variables", "entry", "programs", "approvals"] as const) {
      await this.#must("PUT", "/entries/alpha", JSON.stringify(this.#entryWith(power)));
      this.#releases.set(power, await this.#current());
    }
    await this.#must("PUT", "/entries/alpha", JSON.stringify({ definition: this.#source, variables: [] }));
    const plain = await this.#current();
    await this.#must("PUT", "/definitions/alpha", `${SOURCE}\n// another`);
    this.#releases.set("source", await this.#current());
    this.#plain = plain;
    await this.reset();
  }

  async #current(): Promise<string> {
    return (await this.#must("GET", "/servers/alpha/releases")).body.releases[0].release as string;
  }

  /** Restores the state before any attempt. */
  async reset(): Promise<void> {
    await this.#must("POST", `/servers/alpha/releases/${this.#plain}/restore`);
  }

  /** The whole configuration with another entry of `alpha`. */
  async #mcpsWith(entry: object): Promise<string> {
    const { body } = await this.#must("GET", "/variables/mcps");
    return JSON.stringify({ ...(JSON.parse(body.files.mcps as string) as object), alpha: entry });
  }

  attempts(): Attempt[] {
    const write = { "If-Match": "*" };
    const get = async (path: string, headers: Headers): Promise<{ status: number }> =>
      fetch(this.berth.url + path, { headers });
    const given = (
      ["entry", "secrets", "network", "folders", "variables", "upstream", "programs", "approvals"] as const
    ).flatMap((power): Attempt[] => {
      const text = (): string => JSON.stringify(this.#entryWith(power));
      const mcps = (): Promise<string> => this.#mcpsWith(this.#entryWith(power));
      // Writing an entry requires that right, whatever the entry says; a missing server is not revealed.
      const besides: Power[] = power === "programs" ? ["entry", "upstream"] : ["entry"];
      const answered = power === "upstream" ? { answered: 422 } : {};
      const release = this.#releases.get(power);
      const ways: Omit<Attempt, "power">[] = [
        { way: "entry", ...answered, send: (h) => this.#sent("PUT", "/entries/alpha", text(), { ...write, ...h }) },
        { way: "entry review", send: (h) => this.#sent("POST", "/entries/alpha/review", text(), h) },
        {
          way: "mcps",
          ...answered,
          send: async (h) => this.#sent("PUT", "/variables/mcps", await mcps(), { ...write, ...h }),
        },
        { way: "mcps review", send: async (h) => this.#sent("POST", "/variables/mcps/review", await mcps(), h) },
      ];
      const attempts = ways.map((attempt): Attempt => Object.assign(attempt, { power, besides }));
      if (release !== undefined) {
        const path = `/servers/alpha/releases/${release}/restore`;
        attempts.push({ power, way: "restore", besides, send: (h) => this.#sent("POST", path, undefined, h) });
      }
      return attempts;
    });
    // Compiled once each.
    const source = (): string => `${SOURCE}\n// ${++this.#count % 2}`;
    const older = `/servers/alpha/releases/${this.#releases.get("source")}`;
    const uri = `cid://${this.#colour}`;
    const requests: [power: Power, way: string, method: string, path: string, body?: () => unknown][] = [
      ["source", "definition", "PUT", "/definitions/alpha", source],
      ["source", "definition review", "POST", "/definitions/alpha/review", source],
      ["source", "restore", "POST", `${older}/restore?entry=keep`],
      ["calls", "kept", "GET", "/servers/alpha/calls"],
      ["source", "recent", "GET", "/servers/alpha/recent"],
      ["values", "variable", "PUT", "/variables/shape", () => "round"],
      ["secretValues", "secret", "PUT", "/secrets/API_TOKEN", () => "a-value-of-some-length"],
      ["state", "state", "GET", "/state/alpha"],
      ["state", "state value", "DELETE", "/state/alpha"],
      ["withdrawal", "withdrawal", "DELETE", `${older}/withdrawal`],
      ["contents", "variable", "GET", "/variables/colour"],
      ["approvals", "approve", "POST", "/servers/alpha/approve", () => ({ contract: this.#colour })],
      ["tokens", "tokens", "GET", "/tokens"],
      ["audit", "audit", "GET", "/audit"],
    ];
    return [
      ...given,
      ...requests.map(([power, way, method, path, body]): Attempt => ({
        power,
        way,
        answered: way === "approve" ? 404 : undefined,
        send: (h) => this.#sent(method, path, body?.(), { ...(method === "PUT" && way !== "secret" && write), ...h }),
      })),
      { power: "contents", way: "cid", send: (h) => get(`/cid/${this.#colour}`, h) },
      {
        power: "contents",
        way: "resource",
        send: async (h) => {
          const reply = await modern(`${this.berth.url}/mcp/alpha`, "resources/read", { uri }, h);
          // Callers that may read nothing of the server are refused; for all others it does not exist.
          const isRefused = /No such resource/.test(reply.body.error?.message ?? "");
          return { status: isRefused ? 403 : reply.status, body: reply.body };
        },
      },
      { power: "audit", way: "metrics", send: (h) => get("/metrics", h) },
    ];
  }

  /** Tries one way, and tells if it was permitted; its effects are undone in any case. */
  async try(attempt: Attempt, headers: Headers): Promise<boolean> {
    const { status, body } = await attempt.send(headers);
    if (status === 401 || status === 403) return false;
    const worked = status < 300 || status === attempt.answered;
    assert.ok(worked, `${attempt.power} by ${attempt.way}: ${status} ${JSON.stringify(body)}`);
    const isRead =
      ["contents", "tokens", "audit"].includes(attempt.power) || /review|approve|recent|kept/.test(attempt.way);
    if (!isRead) await this.reset();
    return true;
  }
}

const OFTEN = { BERTH_SAVES_PER_MINUTE: "0", BERTH_SAVES_PER_MINUTE_PER_TENANT: "0", BERTH_ADMIN_TOKEN: OPERATOR };
const REQUIRED = { BERTH_ACCESS: "required", BERTH_TENANT_UPSTREAMS: "on", ...OFTEN };
const SHARED = { texts: { "alpha.ts": SOURCE }, variables: { colour: "blue", shape: "square" } };

describe("the table of rights", () => {
  let trial: Trial;
  const berth = berthInSuite({ ...SHARED, env: REQUIRED });
  before(async () => {
    trial = new Trial(berth);
    await trial.prepare();
  });

  const tokenFor = async (grant: AccessGrant, tenant = "default"): Promise<string> =>
    (await makeToken(berth, { ...grant }, { tenant })).token;

  const expected = (grant: AccessGrant, { power, besides = [] }: Attempt): boolean =>
    [power, ...besides].every((each) => mayUse(grant, each, "alpha"));

  it("is tried by each way that it names", () => {
    const tried = new Set(trial.attempts().map(({ power, way }) => `${power}: ${way}`));
    // `upstream` was never served, so it has no release; `explore` is tested below.
    const others = new Set(["upstream: restore", "programs: explore"]);
    for (const [power, { ways }] of Object.entries(RIGHTS)) {
      for (const way of ways) {
        const name = `${power}: ${way}`;
        assert.ok(tried.has(name) || others.has(name), name);
      }
    }
  });

  it("stands in the documentation as it is", () => {
    const text = readFileSync("docs/access.md", "utf8");
    for (const { action, of, what } of Object.values(RIGHTS)) {
      const where = of === "tenant" ? "the whole tenant" : "the server";
      const row = new RegExp(`^\\| ${what.replaceAll(".", "\\.")} +\\| \`${action}\` on ${where} +\\|`, "m");
      assert.match(text, row);
    }
  });

  it("lets and refuses each kind of token as it says, by every way", async () => {
    const kinds: AccessGrant[] = [
      { can: ["admin"] },
      { can: ["edit"] },
      { can: ["edit", "programs"] },
      { can: ["programs", "read"] },
      { can: ["edit", "programs", "call"], servers: ["alpha"] },
      { can: ["admin"], servers: ["alpha"] },
      { can: ["edit"], servers: ["beta"] },
      { can: ["read"], servers: ["alpha"] },
      { can: ["read", "call"] },
    ];
    const wrong: unknown[] = [];
    for (const grant of kinds) {
      const headers = bearer(await tokenFor(grant));
      for (const attempt of trial.attempts()) {
        const is = await trial.try(attempt, headers);
        if (is !== expected(grant, attempt)) wrong.push([grant, attempt.power, attempt.way, is ? "let" : "refused"]);
      }
    }
    assert.deepEqual(wrong, []);
  });

  it("lets the operator, and nobody without a token or with another tenant's", async () => {
    await onStoreOf(berth, (store) => addTenant(store, "acme", { servers: { alpha: SOURCE } }));
    const theirs = bearer(await tokenFor({ can: ["admin"] }, "acme"));
    for (const attempt of trial.attempts()) {
      const of = `${attempt.power} by ${attempt.way}`;
      assert.equal(await trial.try(attempt, bearer(OPERATOR)), true, of);
      assert.equal(await trial.try(attempt, {}), false, of);
      assert.equal(await trial.try(attempt, theirs), false, of);
    }
  });

  it("is the same for a cookie alone, but for what takes a token that was typed for it", async () => {
    const typed = new Set<Power>([
      "secrets",
      "network",
      "folders",
      "upstream",
      "programs",
      "secretValues",
      "approvals",
      "tokens",
    ]);
    const wrong: unknown[] = [];
    for (const grant of [{ can: ["edit", "call"], servers: ["alpha"] }, { can: ["admin"] }] satisfies AccessGrant[]) {
      const token = await tokenFor(grant);
      const cookie = await signIn(berth.url, token);
      for (const attempt of trial.attempts()) {
        const takesToken = [attempt.power, ...(attempt.besides ?? [])].some((power) => typed.has(power));
        const alone = await trial.try(attempt, cookie);
        if (alone !== (expected(grant, attempt) && !takesToken)) wrong.push([grant, attempt.power, attempt.way, alone]);
        if (!takesToken) continue;
        const withToken = await trial.try(attempt, { ...cookie, ...bearer(token) });
        if (withToken !== expected(grant, attempt)) wrong.push([grant, attempt.power, attempt.way, "token", withToken]);
      }
    }
    assert.deepEqual(wrong, []);
  });
});

describe("the table of rights where nobody is asked for a token", () => {
  for (const [programs, isLet] of [
    ["off", false],
    ["on", true],
  ] as const) {
    it(`lets who sits at the machine do everything; programs, when they are ${programs}: ${isLet}`, async (t) => {
      const berth = await berthFor(t, { ...SHARED, env: { ...OFTEN, BERTH_UPSTREAM_PROGRAMS: programs } });
      const trial = new Trial(berth);
      await trial.prepare();
      const refused = await apiOf(berth).put("/entries/x", JSON.stringify({ upstream: PROGRAM }));
      if (!isLet) assert.match(JSON.stringify(refused.body), /"programs_refused".*BERTH_UPSTREAM_PROGRAMS=on/);
      for (const attempt of trial.attempts()) {
        const { power, way } = attempt;
        assert.equal(await trial.try(attempt, {}), power !== "programs" || isLet, `${power} by ${way}`);
        if (power === "contents") continue;
        assert.equal(
          await trial.try(attempt, { "X-Forwarded-For": "192.0.2.1" }),
          false,
          `${power} by ${way}, proxied`,
        );
        const elsewhere = { Origin: "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site" };
        assert.equal(await trial.try(attempt, elsewhere), false, `${power} by ${way}, from another page`);
      }
    });
  }
});

describe("explore over HTTP", () => {
  const all = ["explore", "call", "draft_profile", "save_profile", "list_profiles"];
  const grants: [AccessGrant["can"], string[]][] = [
    [["call"], ["list_profiles"]],
    [["call", "read"], ["list_profiles"]],
    [["call", "programs"], all],
    [["call", "read", "programs"], all],
  ];
  const berth = berthInSuite({ texts: {}, env: { ...REQUIRED, BERTH_EXPLORE: "on" } });

  for (const [path, prefix] of [
    ["/mcp/explore", ""],
    ["/mcp", "explore."],
  ] as const) {
    it(`starts programs at ${path} for those alone who may`, async () => {
      const url = berth.url + path;
      // The first one may do everything, so that cached lists of it are there for the others.
      for (const [can, names] of grants.toReversed()) {
        const headers = bearer((await makeToken(berth, { can })).token);
        const listed = await post(url, request("tools/list"), headers);
        const tools = listed.body.result.tools as { name: string }[];
        assert.deepEqual(
          rows(tools, "name"),
          names.map((name) => prefix + name),
        );
        for (const [tool, args] of [
          ["explore", { uri: PROGRAM }],
          ["call", { server: PROGRAM, tool: "flaky", arguments: { key: "x", times: 0 } }],
        ] as const) {
          const wish = { name: prefix + tool, arguments: args };
          const answers = [
            (await post(url, request("tools/call", wish), headers)).body,
            (await modern(url, "tools/call", wish, headers)).body,
          ];
          for (const { result, error } of answers) {
            if (can.includes("programs")) assert.ok(result?.content.length > 0, JSON.stringify(error));
            else assert.match(error?.message ?? JSON.stringify(result), new RegExp(`tool.*${prefix}${tool}`));
          }
        }
      }
    });
  }
});
