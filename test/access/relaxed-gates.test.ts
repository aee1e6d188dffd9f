import assert from "node:assert/strict";
import { before, describe, it } from "node:test";
import { apiOf, type ApiReply } from "../support/api.ts";
import { berthInSuite } from "../support/suite.ts";
import { bearer, makeToken, signIn } from "../support/tokens.ts";

const OPERATOR = "the-operators-own-token";
const SOURCE = "export const wipe = (): number => 1;\nexport const look = (): number => 2;";

describe("an entry that asks for consent", () => {
  let token: string;
  let cookie: Record<string, string>;
  let definition: string;
  const berth = berthInSuite({
    texts: { "alpha.ts": SOURCE },
    env: { BERTH_ACCESS: "required", BERTH_ADMIN_TOKEN: OPERATOR, BERTH_SAVES_PER_MINUTE: "0" },
  });
  const api = apiOf(berth);
  before(async () => {
    token = (await makeToken(berth, { can: ["admin"] })).token;
    cookie = await signIn(berth.url, token);
    definition = (await send("GET", "/definitions/alpha", undefined, bearer(OPERATOR))).body.cid;
  });

  const send = (
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<ApiReply> => api.send(method, path, body, { "If-Match": "*", "Berth-Allow-Breaking": "true", ...headers });
  const entry = (fields: object): string => JSON.stringify({ definition, variables: [], ...fields });
  const put = (fields: object, headers: Record<string, string>): Promise<ApiReply> =>
    send("PUT", "/entries/alpha", entry(fields), headers);
  const mcpsWith = async (alpha?: object): Promise<string> => {
    const { body } = await send("GET", "/variables/mcps", undefined, bearer(OPERATOR));
    const { alpha: _, ...others } = JSON.parse(body.files.mcps as string) as Record<string, object>;
    return JSON.stringify(alpha ? { ...others, alpha } : others);
  };
  const given = async (fields: object): Promise<void> => {
    const { status, body } = await put(fields, bearer(OPERATOR));
    assert.equal(status, 200, JSON.stringify(body));
  };

  const RENAMED = { tools: { erase: { function: "wipe" } }, consent: ["erase"] };
  /** An entry, and changes of it after which a call would need no consent. */
  const relaxed: [string, object, object][] = [
    ["removes the field", { consent: ["wipe"] }, {}],
    ["empties it", { consent: ["wipe"] }, { consent: [] }],
    ["names another tool", { consent: ["wipe"] }, { consent: ["look"] }],
    ["names some instead of all", { consent: ["*"] }, { consent: ["wipe", "look"] }],
    ["removes one of two", { consent: ["look", "wipe"] }, { consent: ["look"] }],
    ["gives its name to another function", RENAMED, { ...RENAMED, tools: { erase: { function: "look" }, wipe: {} } }],
    ["gives its function a further name", RENAMED, { ...RENAMED, tools: { other: { function: "wipe" } } }],
  ];
  for (const [what, is, becomes] of relaxed) {
    it(`asks a sign-in for the token where a change ${what}`, async () => {
      await given(is);
      const mcps = await mcpsWith(JSON.parse(entry(becomes)) as object);
      for (const [method, path, body] of [
        ["PUT", "/entries/alpha", entry(becomes)],
        ["POST", "/entries/alpha/review", entry(becomes)],
        ["PUT", "/variables/mcps", mcps],
        ["POST", "/variables/mcps/review", mcps],
      ] as const) {
        const reply = await send(method, path, body, cookie);
        assert.deepEqual([reply.status, reply.body.error?.code], [403, "token_required"], `${method} ${path}`);
        assert.match(reply.body.error.message, /another .*"consent".* type your token again/);
      }
      const editor = (await makeToken(berth, { can: ["edit"] })).token;
      assert.equal((await put(becomes, bearer(editor))).body.error?.code, "forbidden");
      assert.equal((await put(becomes, { ...cookie, ...bearer(token) })).status, 200);
    });
  }

  it("asks for it where an earlier release is restored, or the server is deleted", async () => {
    await given({});
    const release = (await send("GET", "/servers/alpha/releases", undefined, bearer(OPERATOR))).body.releases[0]
      .release;
    await given({ consent: ["*"] });
    const path = `/servers/alpha/releases/${release as string}/restore`;
    for (const [method, at, body] of [
      ["POST", path, undefined],
      ["DELETE", "/entries/alpha", undefined],
      ["PUT", "/variables/mcps", await mcpsWith()],
    ] as const)
      assert.equal((await send(method, at, body, cookie)).body.error?.code, "token_required", `${method} ${at}`);
    assert.equal((await send("POST", path, undefined, { ...cookie, ...bearer(token) })).status, 200);
  });

  it("does not ask for it where as many calls need consent, or more", async () => {
    const changes = [{ consent: ["wipe"] }, { consent: ["look", "wipe"] }, { consent: ["*"] }];
    await given({});
    for (const fields of [...changes, { consent: ["*", "wipe"], description: "All of them" }])
      assert.equal((await put(fields, cookie)).status, 200, JSON.stringify(fields));
    await given({ consent: ["wipe"] });
    assert.equal((await put({ consent: ["wipe"], tools: { erase: { function: "wipe" } } }, cookie)).status, 200);
    await given({ tools: { erase: { function: "wipe" } }, consent: ["erase", "wipe"] });
    assert.equal((await put({ tools: { erase: { function: "wipe" } }, consent: ["wipe"] }, cookie)).status, 200);
  });
});
