import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { clock } from "../../src/lib/clock.ts";
import type { Upstream, UpstreamCaller } from "../../src/upstream/upstream.ts";
import { host, hostedServer } from "../support/hosted-upstreams.ts";
import {
  IN_OTHER_WAYS,
  ANSWER,
  BOUND,
  HI,
  NOTE,
  STARTED,
  hi,
  message,
  oddServers,
  outcomeOf,
  quoted,
  says,
  type Answer,
  type Habits,
} from "../support/odd-servers.ts";
import { inSuite } from "../support/suite.ts";
import { inOneOf, until } from "../support/until.ts";
import { openUpstream, withUpstream } from "../support/upstreams.ts";

const uri = oddServers();

const TOKEN = "?header.Authorization=Bearer%20hunter2";
const ERROR = message('"error":{"code":-32050,"message":"the table is locked"}');
const refused = (words: string): RegExp => new RegExp(`^upstream_(?:refused|not_started): .*${words}`, "s");
const locked = refused("the table is locked");
const hiOrLocked = /"text":"hi"|^upstream_refused: .*the table is locked/;
/** An answer that does not come; the request may have been carried out. */
const lost = /^(?:answer_lost|upstream_(?:ended|protocol|not_started)): /;

const http = (status: number, body?: string, type = "application/json", more: Answer = {}): Answer => ({
  status,
  ...(body !== undefined && { body }),
  ...more,
  headers: { "content-type": type, ...(more["headers"] as object) },
});
const stream = (body: string, more: Answer = {}): Answer => http(200, body, "text/event-stream", more);
const wait = (status: number, after?: string): Answer =>
  http(status, "slow down", "text/plain", after === undefined ? {} : { headers: { "retry-after": after } });
const moved = (status: number, location?: string, more: Answer = {}): Answer =>
  http(status, "", "text/plain", { ...more, headers: location === undefined ? {} : { location } });
const data = `data: ${ANSWER}\n\n`;
const problem = '{"type":"about:blank","title":"Quota exceeded","detail":"All 100 calls are used up","status":402}';
const pageOf = (title: string): string =>
  `<!doctype html><html><head><title>${title}</title><script>alert(1)</script></head><body><h1>${title}</h1></body></html>`;

interface Row {
  readonly answers: Answer | readonly Answer[];
  readonly expected: RegExp;
  /** Answers to a GET, and whether one is open. */
  readonly habits?: Habits;
  /** Time passes until the call has ended. */
  readonly leaps?: true;
  readonly era?: "legacy";
  readonly method?: "resources/read";
}

const row = (answers: Row["answers"], expected: RegExp, more: Partial<Row> = {}): Row => ({
  answers,
  expected,
  ...more,
});

const legacy = { era: "legacy" } as const;
/** A stream that ends, and the answers to those who take it up again. */
const resumed = (expected: RegExp, ...GET: readonly Answer[]): Row =>
  row(stream("id: 1\nretry: 0\ndata:\n\n"), expected, { habits: { GET }, leaps: true, ...legacy });

const errors: Readonly<Record<string, Row>> = {
  ...Object.fromEntries(
    [200, 400, 402, 403, 404, 409, 422, 429, 500, 503].map((status) => [
      `an error of JSON-RPC with status ${status}`,
      // A server that knows the session no more answers 404: the call may also be repeated in a new one.
      row(http(status, ERROR), status === 404 ? hiOrLocked : /^upstream_refused: .*the table is locked \(-32050\)/),
    ]),
  ),
  "an error of JSON-RPC without an id and status 500": row(http(500, ERROR.replace("$id", "null")), locked),
  "an error of JSON-RPC without an id and status 200": row(http(200, ERROR.replace("$id", "null")), locked),
  "an error of JSON-RPC in a stream and status 500": row(http(500, `data: ${ERROR}\n\n`, "text/event-stream"), locked),
  "an error of JSON-RPC as text/html": row(http(500, ERROR, "text/html"), locked),
  "a result with status 500": row(http(500, ANSWER), /"text":"hi"|^upstream_refused: .*500/),
  "problem details": row(http(402, problem, "application/problem+json"), refused("All 100 calls are used up")),
  "problem details without a detail": row(
    http(402, '{"title":"Quota exceeded"}', "application/problem+json"),
    refused("Quota exceeded"),
  ),
  "a message as JSON": row(
    http(403, '{"message":"your plan does not include this tool"}'),
    refused("your plan does not include this tool"),
  ),
  "a detail as JSON": row(http(403, '{"detail":"not in your plan"}'), refused("not in your plan")),
  "an error as JSON": row(http(400, '{"error":"the table is locked"}'), locked),
  "an error within an error": row(http(500, '{"error":{"message":"the table is locked"}}'), locked),
  "an error of OAuth": row(http(400, '{"error":"invalid_request","error_description":"the table is locked"}'), locked),
  "a list of errors": row(http(400, '{"errors":[{"message":"the table is locked"}]}'), locked),
  "plain text": row(http(500, "the table is locked", "text/plain"), locked),
  "text without a type": row({ status: 500, body: "the table is locked", headers: { "content-type": "" } }, locked),
  "a page": row(http(502, pageOf("Bad Gateway"), "text/html"), /^upstream_refused: (?!.*<script).*502.*Bad Gateway/s),
  "no body": row(http(500, ""), refused("HTTP 500")),
  "a huge body": row(http(500, "x".repeat(2_000_000), "text/plain"), refused("HTTP 500.*xxx")),
  "a body that never ends": row(http(500, "the table is locked", "text/plain", { end: "open" }), refused("500")),
  "control characters": row(http(500, "\u001B[31mlocked\u202E\u0007", "text/plain"), refused("locked")),
  "broken JSON": row(http(500, '{"message":"the table is'), refused("500.*the table is")),
  "401 without a token": row(http(401, "who are you?", "text/plain"), refused("401.*token")),
  "403 without a token": row(http(403, "not you", "text/plain"), refused("403.*not you")),
  "404 and a page": row(http(404, pageOf("Not Found"), "text/html"), /"text":"hi"|^upstream_refused: .*404.*path/),
  "405": row(http(405, ""), refused("405")),
  "429 at once": row(wait(429, "0"), hi),
  "429 until a time that is over": row(wait(429, "Wed, 21 Oct 2015 07:28:00 GMT"), hi),
  "429 for two seconds": row(wait(429, "2"), hi, { leaps: true }),
  "429 twice": row([wait(429, "1"), wait(429, "1")], hi, { leaps: true }),
  "429 until a time": row([], hi, { leaps: true }),
  "429 for an hour": row(wait(429, "3600"), refused("429.*(?:3600|3,600|60 min|1 h|hour)")),
  "429 without end": row({ ...wait(429, "7"), again: true }, refused("429"), { leaps: true }),
  "429 for no time": row(wait(429), refused("429.*slow down")),
  "429 for a word": row(wait(429, "soon"), refused("429.*slow down")),
  "429 for a negative time": row(wait(429, "-1"), /"text":"hi"|429/),
  "503 at once": row(wait(503, "0"), hi),
  "503 for two seconds": row(wait(503, "2"), hi, { leaps: true }),
  "503": row(http(503, "the table is locked", "text/plain"), locked),
};

const redirects: Readonly<Record<string, Row>> = {
  "307 to another path": row(moved(307, "?moved"), hi),
  "308 to another path": row(moved(308, "?moved"), hi),
  "307 twice": row([moved(307, "?once"), moved(308, "?twice")], hi),
  "301 to another path": row(moved(301, "?moved"), /"text":"hi"|301.*\?moved/),
  "302 to another path": row(moved(302, "?moved"), /"text":"hi"|302.*\?moved/),
  "303 to another path": row(moved(303, "?moved"), /\?moved.*303/),
  "307 to itself": row(moved(307, "?moved", { again: true }), refused("(?:redirect|307).*\\?moved")),
  "307 to another host": row(moved(307, "http://elsewhere.example/mcp?a=1"), refused("http://elsewhere\\.example/mcp")),
  "308 to another port": row(moved(308, "http://127.0.0.1:9/mcp"), refused("http://127\\.0\\.0\\.1:9/mcp")),
  "307 to another scheme": row(moved(307, "file:///etc/passwd"), refused("file:///etc/passwd")),
  "307 to no address": row(moved(307, "http://["), refused("307")),
  "307 to nowhere": row(moved(307), refused("307")),
};

const AT = '{"jsonrpc":"2.0","id":987654,"result":{}}';
const streams: Readonly<Record<string, Row>> = {
  "ends before the answer": row(stream(""), lost),
  "ends after a comment": row(stream(": hello\n\n"), lost),
  "ends after a notification": row(stream(`data: ${NOTE}\n\n`), lost),
  "ends within the answer": row(stream(`data: ${ANSWER.slice(0, 40)}`), lost),
  "is cut": row(stream(": hello\n\n", { end: "cut" }), lost),
  "is cut within the answer": row(stream(`data: ${ANSWER.slice(0, 40)}`, { end: "cut" }), lost),
  "has the event response": row(stream(`event: response\n${data}`), hi),
  "has no event": row(stream(data), hi),
  "has an empty event": row(stream(`event:\n${data}`), hi),
  "has an event of an error": row(stream("event: error\ndata: the table is locked\n\n"), /the table is locked/),
  "ends without a blank line": row(stream(data.trimEnd() + "\n"), hi),
  "stays open without a blank line": row(stream(data.trimEnd() + "\n", { end: "open" }), hi),
  "ends without a newline": row(stream(data.trimEnd()), hi),
  "has no blank line before the next event": row(stream(`data: ${ANSWER}\nevent: message\ndata: ${NOTE}\n\n`), hi),
  "has no space after data": row(stream(data.replace(": ", ":")), hi),
  "has several lines of data": row(stream(data.replace(',"result"', '\ndata: ,"result"')), hi),
  "has data of no value": row(stream(`data\n\ndata:\n\n${data}`), hi),
  "has CR only": row(stream(data.replaceAll("\n", "\r")), hi),
  "has CRLF": row(stream(data.replaceAll("\n", "\r\n")), hi),
  "begins with a BOM": row(stream(`\uFEFF${data}`), hi),
  "has odd ids": row(stream(`id: -1\nid: ${"9".repeat(5_000)}\nid: a\0b\nid\n${data}`), hi),
  "has odd waits": row(stream(`retry: -5\nretry: 99999999999999999999\nretry: soon\n${data}`), hi),
  "has unknown fields": row(stream(`x: y\nData: z\n:\n${data}`), hi),
  "has other events first": row(stream(`event: ping\ndata: {}\n\nevent: open\ndata: connected\n\n${data}`), hi),
  "ends as other APIs do": row(stream(`${data}data: [DONE]\n\n`), hi),
  "stays open after the answer": row(stream(data, { end: "open" }), hi),
  "has another id first": row(stream(`data: ${AT}\n\n${data}`), hi),
  "has only another id": row(stream(`data: ${AT}\n\n`), lost),
  "has text that is no JSON": row(stream(`data: the table is locked\n\n`), /the table is locked/),
  "comes in single bytes": row(stream(data.replace("hi", "hié"), { slow: true }), /^\{.*"hié"/),
  "is taken up again": resumed(hi, stream(data)),
  "cannot be taken up again": resumed(lost, http(404, "")),
  "is taken up again in vain": resumed(lost, stream(""), stream(": none\n\n"), stream("", { end: "cut" })),
};

const TYPES = ["", "text/plain", "text/json", "text/event-stream", "APPLICATION/JSON"].concat(
  ["json; charset=utf-8", "json;charset=ISO-8859-1", "vnd.api+json", "x-ndjson"].map((type) => `application/${type}`),
);
const onGet = { habits: { stream: true }, ...legacy };
const FAILED = /^(?:answer_lost|upstream_\w+): /;
const json = (more: Answer, text = ANSWER): Answer => http(200, text, "application/json", more);
const bodies: Readonly<Record<string, Row>> = {
  ...Object.fromEntries(TYPES.map((type) => [`JSON as "${type}"`, row(http(200, ANSWER, type), hi)])),
  "a stream as itself": row(http(200, data, " TEXT/EVENT-STREAM ;charset=utf-16"), hi),
  "a stream as JSON": row(http(200, data), hi),
  "JSON with a BOM": row(http(200, `\uFEFF${ANSWER}`), hi),
  "JSON in single bytes": row(json({ slow: true }, ANSWER.replace("hi", "hié€")), /^\{.*"hié€"/),
  "JSON as a text of JSON": row(http(200, JSON.stringify(ANSWER)), /hi/),
  "a bare result": row(http(200, HI), /hi/),
  "a page": row(http(200, pageOf("Sign in"), "text/html"), quoted("(?:text/html|Sign in)")),
  "a text": row(http(200, "the table is locked", "text/plain"), quoted("the table is locked")),
  "other JSON": row(http(200, '{"status":"ok"}'), quoted("status.*ok")),
  "an empty list": row(http(200, "[]"), quoted("\\[\\]")),
  null: row(http(200, "null"), quoted("null")),
  "cut JSON": row(http(200, ANSWER.slice(0, 40)), quoted("jsonrpc")),
  "an answer with another id": row(http(200, AT), quoted("987654")),
  nothing: row(http(200, ""), quoted("(?:empty|nothing|no body|200)")),
  "nothing without a type": row(http(200, "", ""), quoted("(?:empty|nothing|no body|200)")),
  "204": row({ status: 204, body: "" }, quoted("204")),
  "202 and nothing": row({ status: 202, body: "" }, quoted("202")),
  "half of its body": row(http(200, ANSWER.slice(0, 40), "application/json", { end: "cut" }), lost),
  "a body that is too short": row(
    json({ headers: { "content-length": "500" }, end: "cut" }, ANSWER.slice(0, 40)),
    lost,
  ),
  "a body that is not packed as it says": row(json({ headers: { "content-encoding": "gzip" } }), FAILED),
  "a body of an unknown coding": row(json({ headers: { "content-encoding": "constructor" } }), hi),
  "a cut connection": row({ status: 0 }, lost),
  "another session": row(json({ headers: { "mcp-session-id": "other" } }), hi),
  "202, and the answer on the stream of its GET": row({ status: 202, says: [ANSWER] }, hi, onGet),
};

const lostAgain = /^(?:answer_lost|upstream_\w+): .*session/;
const lostSessions: Readonly<Record<string, Row>> = {
  "a session that is lost (404) before a call": row({ forget: 404 }, hi, legacy),
  "a session that is lost (400) before a call": row({ forget: 400 }, hi, legacy),
  "a session that is lost (404) before a read": row({ forget: 404 }, hi, { ...legacy, method: "resources/read" }),
  "a session that is lost (400) before a read": row({ forget: 400 }, hi, { ...legacy, method: "resources/read" }),
  "a session that is lost again and again": row({ forget: 404, again: true }, lostAgain, legacy),
};

const rows = Object.entries({
  ...prefixed("refuses with", errors),
  ...prefixed("redirects with", redirects),
  ...prefixed("answers with a stream that", streams),
  ...prefixed("answers with", bodies),
  ...prefixed("answers with", lostSessions),
});

function prefixed<T>(prefix: string, table: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(table).map(([key, value]) => [`${prefix} ${key}`, value]));
}

/** Calls a tool whose name no other call has: a call during which a server has ended may have to wait. */
let calls = 0;
function call(upstream: Upstream, name = `t${++calls}`, args: object = {}, caller: UpstreamCaller = BOUND) {
  return upstream.request({ method: "tools/call", name, args: args as never }, caller);
}

/** Lets time pass until there is an outcome. */
async function leaping(outcome: Promise<string>): Promise<string> {
  let isOver = false;
  void outcome.then(() => (isOver = true));
  await until(() => isOver || clock.leap(250));
  return outcome;
}

for (const era of IN_OTHER_WAYS ? (["modern"] as const) : (["legacy"] as const)) {
  describe(`a server at an address (${era})`, () => {
    const upstream = inSuite(async () => openUpstream(uri("json", era)));
    const streaming = inSuite(async () => openUpstream(uri("json", era, { stream: true })));
    for (const [title, { answers, expected, habits, leaps, era: only, method }] of rows) {
      if (only !== undefined && only !== era) continue;
      it(title, () =>
        inOneOf(2, async () => {
          const to = habits?.["stream"] === true ? streaming : upstream;
          const given = title.endsWith("until a time")
            ? wait(429, new Date(Date.now() + 2_000).toUTCString())
            : answers;
          await call(to, "next", { [method ?? "tools/call"]: [given].flat(), ...(habits?.["GET"] && habits) });
          const caller = leaps ? {} : BOUND;
          const read = (): Promise<unknown> => to.request({ method: "resources/read", uri: "odd:r" }, caller);
          const ended = outcomeOf(method ? read() : call(to, undefined, {}, caller));
          assert.match(await (leaps ? leaping(ended) : ended), expected);
          await call(to, "next", { GET: [], "tools/call": [] });
          assert.match(await outcomeOf(call(to)), hi, "it goes on");
        }),
      );
    }
  });
}

const UNAUTHORIZED = {
  headers: { "www-authenticate": 'Bearer error="invalid_token", error_description="It has expired"' },
};
const SCOPE = { headers: { "www-authenticate": 'Bearer error="insufficient_scope", scope="files:write"' } };
const serverInfo = { name: "odd", version: "1" };
const HELLO = JSON.stringify({ protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo });
const calls401: Habits = { "tools/call": [http(401, "", "text/plain", UNAUTHORIZED)] };
const calls403: Habits = { "tools/call": [http(403, "", "text/plain", SCOPE)] };
const withoutTool: Habits = { "tools/call": [http(403, '{"message":"your plan does not include this tool"}')] };
const NO_ID = '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}';
const greets = `event: message\ndata: ${message(`"result":${HELLO}`)}\n`;
const withToken = (said: string): RegExp => new RegExp(`^(?!.*(?:give a token|hunter2)).*${said}`, "s");
const probe = (answer: Answer): Habits => ({ "server/discover": [answer] });
const atStart: Readonly<Record<string, readonly [Habits, RegExp, string?]>> = {
  ...Object.fromEntries(
    [400, 401, 403, 404, 405, 406, 410, 415, 422, 429, 500, 501, 502, 503].flatMap((status) => [
      [`refuses server/discover with ${status}`, [probe(http(status, "no such method", "text/plain")), hi]],
      [`refuses server/discover with ${status} in spite of a token`, [probe(http(status, "{}")), hi, TOKEN]],
    ]),
  ),
  "answers server/discover with a page": [probe(http(200, pageOf("Hello"), "text/html")), hi],
  "answers server/discover with nothing": [probe(http(200, "")), hi],
  "answers server/discover with 202": [probe({ status: 202, body: "" }), hi],
  "answers server/discover with 204": [probe({ status: 204, body: "" }), hi],
  "answers server/discover with other JSON": [probe(http(200, '{"status":"ok"}')), hi],
  "answers server/discover with null": [probe(http(200, "null")), hi],
  "answers server/discover with a result of null": [probe(http(200, message('"result":null'))), hi],
  "refuses server/discover without an id": [probe(http(400, NO_ID)), hi],
  "answers server/discover with a stream that ends": [probe(stream(": hello\n\n")), hi],
  "answers server/discover with a stream that is cut": [probe(stream("", { end: "cut" })), hi],
  "closes the connection at server/discover": [probe({ status: 0 }), hi],
  "redirects initialize": [{ initialize: [moved(307, "?moved")] }, hi],
  "redirects initialize to another host": [
    { initialize: [moved(307, "https://elsewhere.example/mcp", { again: true })] },
    /https:\/\/elsewhere\.example\/mcp/,
  ],
  "wants to be asked for initialize again": [{ initialize: [wait(503, "0")] }, hi],
  "has the event response for initialize": [{ initialize: [stream(`${greets.replace("message", "response")}\n`)] }, hi],
  "has no blank line after initialize": [{ initialize: [stream(greets)] }, hi],
  "has no blank line after initialize, and goes on": [{ initialize: [stream(greets, { end: "open" })] }, hi],
  "refuses initialize with words": [
    { initialize: [{ ...http(500, '{"message":"the table is locked"}'), again: true }] },
    locked,
  ],
  "refuses initialize with an error": [{ initialize: [{ ...http(400, ERROR), again: true }] }, locked],
  "refuses a client without a token": [
    { initialize: [{ ...http(401, ""), again: true }], ...probe(http(401, "")) },
    refused("401.*give a token"),
  ],
  "refuses a token": [
    { initialize: [{ ...http(401, "", "text/plain", UNAUTHORIZED), again: true }] },
    withToken("401.*It has expired"),
    TOKEN,
  ],
  "refuses a call with a token": [calls401, withToken("401.*It has expired"), TOKEN],
  "wants another scope": [calls403, withToken("403.*files:write"), TOKEN],
  "has a plan without a tool": [withoutTool, withToken("your plan does not include this tool"), TOKEN],
};

for (const [title, [habits, expected, more = ""]] of Object.entries(atStart)) {
  test(`a server at an address that ${title}`, async () => {
    const address = uri("json", "legacy", habits) + more;
    const outcome = outcomeOf(withUpstream(address, (upstream) => upstream.callTool("t", {}, BOUND), STARTED));
    assert.match(await outcome, expected);
  });
}

test("the page of a server says what is odd about its answers", async (t) => {
  const server = hostedServer(await host(t, { server: { upstream: uri("json", "legacy") } }));
  const answers = ['"result":null', '"error":"<i>locked</i>"', '"result":{"content":NaN}'];
  await server.call("next", { "tools/call": answers.map((members) => says(message(members))) as never });
  const replies = [await server.call("t"), await server.call("t"), await server.call("t")];
  assert.match(replies.join("\n"), /locked.*NaN/s);
  const page = await server.page();
  assert.match(page, /result.{0,12}: null/);
  assert.match(page, /NaN/);
  assert.doesNotMatch(page, /<i>locked/);
});
